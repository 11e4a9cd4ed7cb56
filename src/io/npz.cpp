// .npz archives through libzip, .npy arrays with our own header parser: see npz.h.
#include "io/npz.h"

#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/hash.h"
#include "core/whole_file.h"
#include "io/npy_header.h"
#include "vernier/printable.h"

namespace vernier::io {
namespace {

namespace fs = std::filesystem;

struct DiscardArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, DiscardArchive>;
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Entry = std::unique_ptr<zip_file_t, CloseEntry>;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInput, where + ": " + what);
}

// Text from a file for messages: control characters replaced.
std::string quote(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return "'" + text + "'";
}

// dst (row-major) = src (column-major), both of `shape`, elements of `width` bytes.
void transpose_fortran(const std::byte* src, std::byte* dst, const Shape& shape, size_t width) {
  const int64_t count = num_elems(shape);
  Shape index(shape.size(), 0);
  Shape strides(shape.size(), 1);  // of the column-major source
  for (size_t d = 1; d < shape.size(); ++d) strides[d] = strides[d - 1] * shape[d - 1];
  int64_t from = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(dst + static_cast<size_t>(i) * width, src + static_cast<size_t>(from) * width,
                width);
    for (size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

void check_size(const NpyHeader& header, uint64_t present, const std::string& where) {
  if (present == header.header_bytes + header.data_bytes) return;
  fail(where, "has " + std::to_string(present) + " bytes; shape " + str(header.shape) + " of " +
                  std::string(name(header.dtype)) + " needs " +
                  std::to_string(header.header_bytes + header.data_bytes) +
                  " with its header. The file is truncated or damaged");
}

// `unclaimed` counts the archive's bytes that no earlier entry has claimed as its own: entries that
// overlap, or whose compressed size is wrong, exhaust it.
void check_entry(const zip_stat_t& status, uint64_t& unclaimed, const std::string& where) {
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((status.valid & kNeeded) != kNeeded) fail(where, "damaged archive entry");
  if (status.encryption_method != ZIP_EM_NONE) fail(where, "is encrypted");
  if (status.comp_method != ZIP_CM_STORE && status.comp_method != ZIP_CM_DEFLATE) {
    fail(where, "is compressed with method " + std::to_string(status.comp_method) +
                    "; NumPy stores or deflates");
  }
  if (status.comp_size > unclaimed) fail(where, "claims more bytes than the archive has");
  unclaimed -= status.comp_size;
  // Deflate shrinks by 1032 at most: a larger claim is false, and would only allocate memory.
  constexpr uint64_t kMostPerByte = 1032, kSlack = 4096;
  if (status.size > status.comp_size * kMostPerByte + kSlack) {
    fail(where, "claims " + std::to_string(status.size) + " bytes in " +
                    std::to_string(status.comp_size) + " compressed ones");
  }
}

// The error of a file that libzip cannot open: not an archive, or refused by the system.
[[noreturn]] void fail_to_open(const std::string& file, int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const bool system = zip_error_system_type(&error) == ZIP_ET_SYS || code == ZIP_ER_MEMORY;
  const std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw Error(system ? ErrorCode::kMachine : ErrorCode::kInput,
              file + ": cannot be opened as .npz: " + text);
}

// Where the bytes of one array come from, from the first byte of its header on.
class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}
  virtual ~Reader() = default;
  // Reads the bytes that are left, at most `to`.size().
  virtual size_t read(std::span<std::byte> to) = 0;
  // Called after the last byte: checks the checksum.
  virtual void finish() = 0;

  const std::string& where() const { return where_; }
  void read_whole(std::span<std::byte> to) {
    if (read(to) < to.size()) fail(where_, "cannot be read: truncated or damaged archive");
  }

 private:
  std::string where_;
};

class EntryReader : public Reader {
 public:
  EntryReader(zip_t* archive, zip_uint64_t index, const std::string& where)
      : Reader(where), entry_(zip_fopen_index(archive, index, 0)) {
    if (entry_ == nullptr) fail(where, zip_strerror(archive));
  }
  size_t read(std::span<std::byte> to) override {
    constexpr size_t kPiece = size_t{1} << 20;
    size_t filled = 0;
    while (filled < to.size()) {
      const zip_int64_t got =
          zip_fread(entry_.get(), to.data() + filled, std::min(kPiece, to.size() - filled));
      if (got < 0) fail(where(), "cannot be read: truncated or damaged archive");
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    return filled;
  }
  void finish() override {
    std::byte beyond{};  // reading past the end makes libzip compare the checksum
    if (zip_fread(entry_.get(), &beyond, 1) != 0) fail(where(), "its checksum or size is wrong");
  }

 private:
  Entry entry_;
};

class BytesReader : public Reader {
 public:
  BytesReader(std::span<const std::byte> bytes, const std::string& where)
      : Reader(where), left_(bytes) {}
  size_t read(std::span<std::byte> to) override {
    const size_t count = std::min(to.size(), left_.size());
    std::ranges::copy(left_.first(count), to.begin());
    left_ = left_.subspan(count);
    return count;
  }
  void finish() override {}

 private:
  std::span<const std::byte> left_;
};

NpyHeader read_header(Reader& reader) {
  std::vector<std::byte> bytes(kNpyHeaderStart);
  bytes.resize(reader.read(bytes));
  const size_t length = npy_header_bytes(bytes, reader.where());
  const size_t known = bytes.size();
  if (length > known) {
    bytes.resize(length);
    bytes.resize(known + reader.read(std::span(bytes).subspan(known)));
  }
  return parse_npy_header(bytes, reader.where());
}

// The elements behind the header.
Tensor read_elements(Reader& reader, const NpyHeader& header) {
  const size_t width = size_bytes(header.dtype);
  const bool turn = header.fortran_order && header.shape.size() >= 2;
  Tensor as_stored = Tensor::filled(header.dtype, header.shape, [&](std::byte* to) {
    reader.read_whole({to, header.data_bytes});
  });
  reader.finish();
  if (!turn) return as_stored;
  return Tensor::filled(header.dtype, header.shape, [&](std::byte* to) {
    transpose_fortran(as_stored.data(), to, header.shape, width);
  });
}

[[noreturn]] void fail_to_read(const fs::path& path) {
  const std::string why = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  throw Error(ErrorCode::kMachine, "cannot read " + quote(path.string()) + why);
}

std::vector<std::byte> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) fail_to_read(path);
  std::vector<std::byte> bytes(static_cast<size_t>(std::max<std::streamoff>(0, file.tellg())));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) fail_to_read(path);
  return bytes;
}

bool is_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
}

// ---- writing --------------------------------------------------------------------------------

// A tensor in a type that NumPy has.
Tensor storable(const Tensor& tensor, const std::string& where) {
  const DType type = tensor.dtype();
  if (is_8_bit_float(type)) fail(where, "NumPy has no type for " + std::string(name(type)));
  if (type == DType::kBF16 || is_small_float(type)) {
    std::vector<double> values(static_cast<size_t>(tensor.elems()));
    for (int64_t i = 0; i < tensor.elems(); ++i) values[i] = tensor.float_at(i);
    return Tensor::from(DType::kF32, tensor.shape(), std::span<const double>(values));
  }
  if (is_small_integer(type)) {
    const std::vector<int64_t> values = tensor.integers();
    return Tensor::from(is_signed_integer(type) ? DType::kI8 : DType::kU8, tensor.shape(),
                        std::span<const int64_t>(values));
  }
  return tensor;
}

// Does libzip accept this name?
bool is_entry_name(std::string_view name) {
  while (!name.empty()) {
    const size_t length = utf8_length(name);
    const auto first = static_cast<unsigned char>(name[0]);
    if (length == 0 || (first < 0x20 && first != '\n' && first != '\r' && first != '\t'))
      return false;
    name.remove_prefix(length);
  }
  return true;
}

struct Part {  // one entry; lives until the archive is closed
  std::string header;
  Tensor tensor;
};

void add_entry(zip_t* archive, const std::string& name, const Part& part, const WholeFile& file) {
  zip_buffer_fragment_t fragments[2];
  fragments[0].data = reinterpret_cast<zip_uint8_t*>(const_cast<char*>(part.header.data()));
  fragments[0].length = part.header.size();
  fragments[1].data = reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(part.tensor.data()));
  fragments[1].length = part.tensor.bytes();
  zip_source_t* source = zip_source_buffer_fragment(archive, fragments, 2, 0);
  const zip_int64_t index =
      source == nullptr ? -1
                        : zip_file_add(archive, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  // A fixed date: equal arrays give equal bytes.
  constexpr zip_uint16_t kDosTime = 0, kDosDate = (1 << 5) | 1;  // 1980-01-01
  if (index < 0 ||
      zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, static_cast<zip_uint64_t>(index), kDosTime, kDosDate, 0) != 0) {
    const std::string why = zip_strerror(archive);
    if (index < 0 && source != nullptr) zip_source_free(source);
    file.fail(why);
  }
}

// libzip writes to `file`, so that no other temporary file is made. Errors are kept for later,
// because no exception may pass through a library in C.
struct ZipTarget {
  WholeFile& file;
  std::exception_ptr failure = {};
  zip_error_t error{};
};

template <class Work>
zip_int64_t guarded(ZipTarget& target, zip_int64_t result, const Work& work) {
  try {
    work();
    return result;
  } catch (...) {
    target.failure = std::current_exception();
    zip_error_set(&target.error, ZIP_ER_WRITE, 0);
    return -1;
  }
}

zip_int64_t seek_in(ZipTarget& target, const void* data, zip_uint64_t length) {
  zip_source_args_seek_t to{};
  std::memcpy(&to, data, std::min<size_t>(sizeof(to), length));
  const auto from = to.whence == SEEK_CUR ? static_cast<int64_t>(target.file.position()) : 0;
  if (to.whence == SEEK_END || to.offset + from < 0) {
    zip_error_set(&target.error, ZIP_ER_OPNOTSUPP, 0);
    return -1;
  }
  return guarded(target, 0, [&] { target.file.seek(static_cast<uint64_t>(to.offset + from)); });
}

zip_int64_t zip_callback(void* user, void* data, zip_uint64_t length, zip_source_cmd_t command) {
  ZipTarget& target = *static_cast<ZipTarget*>(user);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      return ZIP_SOURCE_SUPPORTS_WRITABLE;
    case ZIP_SOURCE_STAT: {  // a new file: empty
      zip_stat_t stat;
      zip_stat_init(&stat);
      stat.valid = ZIP_STAT_SIZE;
      stat.size = 0;
      std::memcpy(data, &stat, sizeof(stat));
      return sizeof(stat);
    }
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&target.error, data, length);
    case ZIP_SOURCE_WRITE:
      return guarded(target, static_cast<zip_int64_t>(length), [&] {
        target.file.write({static_cast<const std::byte*>(data), static_cast<size_t>(length)});
      });
    case ZIP_SOURCE_SEEK_WRITE:
      return seek_in(target, data, length);
    case ZIP_SOURCE_TELL_WRITE:
      return static_cast<zip_int64_t>(target.file.position());
    default:  // nothing to open, to read or to close
      return 0;
  }
}

// The archive's bytes into `file`.
void write_archive(WholeFile& file, const NamedTensors& arrays, const std::vector<Part>& parts) {
  ZipTarget target{file};
  zip_error_t error;
  zip_error_init(&error);
  zip_error_init(&target.error);
  zip_source_t* source = zip_source_function_create(&zip_callback, &target, &error);
  if (source == nullptr) file.fail(zip_error_strerror(&error));
  Archive archive(zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (archive == nullptr) {
    zip_source_free(source);
    file.fail(zip_error_strerror(&error));
  }
  for (size_t i = 0; i < arrays.size(); ++i)
    add_entry(archive.get(), arrays[i].first, parts[i], file);
  if (zip_close(archive.get()) == 0) {
    static_cast<void>(archive.release());  // closed
  } else {
    if (target.failure) std::rethrow_exception(target.failure);
    file.fail(zip_strerror(archive.get()));
  }
}

// libzip writes no file for an empty archive: this is the record of an archive's end.
constexpr std::string_view kEmptyArchive("PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);

}  // namespace

struct ArrayFile::Impl {
  std::string file;  // for messages
  std::vector<ArrayHeader> headers;
  Archive archive;             // null: one .npy array
  std::vector<std::byte> own;  // the bytes of an .npy file
  std::span<const std::byte> npy;

  std::unique_ptr<Reader> reader(size_t index) const {
    if (archive == nullptr) return std::make_unique<BytesReader>(npy, file);
    const std::string where = file + ": array " + quote(headers[index].name + ".npy");
    return std::make_unique<EntryReader>(archive.get(), index, where);
  }

  void add(Reader& source, std::string name, uint64_t present) {
    const NpyHeader header = read_header(source);
    check_size(header, present, source.where());
    headers.push_back({std::move(name), header.dtype, header.shape});
  }

  void list_npy(std::span<const std::byte> bytes, const std::string& name) {
    npy = bytes;
    BytesReader source(bytes, file);
    add(source, fs::path(name).stem().string(), bytes.size());
  }

  void list_archive(uint64_t archive_bytes) {
    uint64_t unclaimed = archive_bytes;
    std::set<std::string> names;
    const auto count =
        static_cast<zip_uint64_t>(std::max<zip_int64_t>(0, zip_get_num_entries(archive.get(), 0)));
    if (count > kMostArrays) {
      fail(file, "has " + std::to_string(count) + " arrays, at most " +
                     std::to_string(kMostArrays) + " are read");
    }
    for (zip_uint64_t i = 0; i < count; ++i) {
      zip_stat_t status;
      zip_stat_init(&status);
      if (zip_stat_index(archive.get(), i, 0, &status) != 0 || status.name == nullptr) {
        fail(file, "entry " + std::to_string(i) + " of the archive is damaged");
      }
      std::string name = status.name;
      const std::string where = file + ": array " + quote(name);
      if (!name.ends_with(".npy"))
        fail(where, "is not an .npy entry; expected an archive of numpy.savez");
      name.resize(name.size() - 4);
      if (!names.insert(name).second) fail(where, "is in the archive twice");
      check_entry(status, unclaimed, where);
      EntryReader source(archive.get(), i, where);
      add(source, std::move(name), status.size);
    }
  }
};

ArrayFile::ArrayFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArrayFile::~ArrayFile() = default;
ArrayFile::ArrayFile(ArrayFile&&) noexcept = default;

ArrayFile ArrayFile::from_bytes(std::span<const std::byte> bytes, const std::string& name) {
  auto impl = std::make_unique<Impl>();
  impl->file = quote(name);
  if (bytes.empty()) fail(impl->file, "is empty; expected an .npz or .npy file");
  if (!is_zip(bytes)) {
    impl->list_npy(bytes, name);
    return ArrayFile(std::move(impl));
  }
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  impl->archive.reset(source == nullptr ? nullptr
                                        : zip_open_from_source(source, ZIP_RDONLY, &error));
  if (impl->archive == nullptr) {
    const std::string why = zip_error_strerror(&error);
    if (source != nullptr) zip_source_free(source);
    zip_error_fini(&error);
    fail(impl->file, "cannot be opened as .npz: " + why);
  }
  impl->list_archive(bytes.size());
  return ArrayFile(std::move(impl));
}

ArrayFile ArrayFile::open(const fs::path& path) {
  const std::string file = quote(path.string());
  std::error_code error;
  if (!fs::exists(path, error)) fail(file, "does not exist; expected an .npz or .npy file");
  if (!fs::is_regular_file(path, error)) fail(file, "is not a regular file");
  std::ifstream stream(path, std::ios::binary);
  std::byte start[2]{};
  stream.read(reinterpret_cast<char*>(start), 2);
  if (!is_zip(start)) {
    std::vector<std::byte> bytes = read_file(path);
    ArrayFile whole = from_bytes(bytes, path.string());
    whole.impl_->own = std::move(bytes);  // npy keeps pointing at them
    return whole;
  }
  auto impl = std::make_unique<Impl>();
  impl->file = file;
  int code = 0;
  impl->archive.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (impl->archive == nullptr) fail_to_open(file, code);
  impl->list_archive(fs::file_size(path));
  return ArrayFile(std::move(impl));
}

const std::vector<ArrayHeader>& ArrayFile::headers() const { return impl_->headers; }

Tensor ArrayFile::read(size_t index) const {
  const std::unique_ptr<Reader> reader = impl_->reader(index);
  const NpyHeader header = read_header(*reader);
  const ArrayHeader& known = headers()[index];
  if (header.dtype != known.dtype || header.shape != known.shape)
    fail(reader->where(), "has changed since the file was opened");
  return read_elements(*reader, header);
}

NamedTensors ArrayFile::read_all() const {
  NamedTensors arrays;
  for (size_t i = 0; i < headers().size(); ++i) arrays.emplace_back(headers()[i].name, read(i));
  return arrays;
}

NamedTensors read_arrays_bytes(std::span<const std::byte> bytes, const std::string& name) {
  return ArrayFile::from_bytes(bytes, name).read_all();
}

NamedTensors read_arrays(const fs::path& path) { return ArrayFile::open(path).read_all(); }

std::string npy_bytes(const Tensor& tensor, const std::string& where) {
  const Tensor stored = storable(tensor, where);
  std::string bytes = make_npy_header(stored.dtype(), stored.shape());
  bytes.append(reinterpret_cast<const char*>(stored.data()), stored.bytes());
  return bytes;
}

void write_npz(const fs::path& path, const NamedTensors& arrays) {
  std::vector<Part> parts;
  std::set<std::string> names;
  uint64_t bytes = kEmptyArchive.size();
  for (const auto& [name, tensor] : arrays) {
    const std::string where = quote(path.string()) + ": array " + quote(name);
    if (name.empty() || !names.insert(name).second) fail(where, "its name is empty or used twice");
    if (!is_entry_name(name)) {
      fail(
          where,
          "its name holds control characters or is not UTF-8, which an .npz file cannot hold; name "
          "the model's output otherwise");
    }
    Tensor stored = storable(tensor, where);
    parts.push_back({make_npy_header(stored.dtype(), stored.shape()), std::move(stored)});
    bytes += parts.back().header.size() + parts.back().tensor.bytes();
  }
  WholeFile file({path, "arrays", bytes});
  if (arrays.empty()) {
    file.write(std::as_bytes(std::span(kEmptyArchive)));
  } else {
    write_archive(file, arrays, parts);
  }
  file.commit();
}

std::vector<fs::path> array_files(const std::vector<fs::path>& paths, const std::string& option) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    std::error_code error;  // of a path that is none: who reads it says so
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<fs::path> inside;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".npz") inside.push_back(entry.path());
    if (inside.empty()) {
      throw Error(ErrorCode::kInput, option + ": folder '" + path.string() +
                                         "' holds no .npz file; expected batches of inputs");
    }
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

std::string data_hash(const NamedTensors& arrays) {
  NamedTensors sorted = arrays;
  std::ranges::sort(sorted, {},
                    [](const auto& array) -> const std::string& { return array.first; });
  Hash128 hash;
  const auto add = [&hash](const std::string& text) {
    hash.add(std::as_bytes(std::span(text.c_str(), text.size() + 1)));  // its zero ends it
  };
  for (const auto& [name, tensor] : sorted) {
    add(name);
    add(std::string(vernier::name(tensor.dtype())) + str(tensor.shape()));
    hash.add(tensor.byte_span());
  }
  return hex(hash.digest());
}

}  // namespace vernier::io
