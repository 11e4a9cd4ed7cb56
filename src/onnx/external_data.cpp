// Path, range and type checks of external weights: see external_data.h.
#include "onnx/external_data.h"

#include <charconv>

#include "core/error.h"
#include "onnx/model_file.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;

struct Range {
  std::string location;
  size_t offset = 0;
  std::optional<size_t> length;
};

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInput, where + ": external data " + what);
}

size_t parse_size(const std::string& key, const std::string& text, const std::string& where) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(where, key + " is " + quote(text) + "; expected a number of bytes");
  }
  return value;
}

Range read_range(const proto::TensorProto& tensor, const std::string& where) {
  Range range;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") {
      range.location = entry.value();
    } else if (entry.key() == "offset") {
      range.offset = parse_size("offset", entry.value(), where);
    } else if (entry.key() == "length") {
      range.length = parse_size("length", entry.value(), where);
    } else if (entry.key() != "checksum") {  // a checksum is of the whole file; not verified
      fail(where, "has an unknown key " + quote(entry.key()) +
                      "; expected location, offset, length or checksum");
    }
  }
  if (range.location.empty()) fail(where, "has no location");
  if (range.location.find('\0') != std::string::npos)
    fail(where, "has a NUL byte in its file name");
  return range;
}

// The largest model file, which is read into memory too.
constexpr size_t kMaxCopiedBytes = size_t{1} << 31;

bool is_below(const fs::path& path, const fs::path& folder) {
  auto part = path.begin();
  for (const fs::path& expected : folder) {
    if (part == path.end() || *part != expected) return false;
    ++part;
  }
  return part != path.end();
}

}  // namespace

std::string external_location(const proto::TensorProto& tensor) {
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") return entry.value();
  }
  return "";
}

std::shared_ptr<const MappedFile> ExternalData::map(const std::string& location,
                                                    const std::string& where) {
  if (const auto found = files_.find(location); found != files_.end()) return found->second;
  const fs::path relative(location);
  if (folder_.empty()) {
    fail(where, quote(location) + " cannot be read: the model came from memory without a folder");
  }
  if (relative.is_absolute()) {
    fail(where, quote(location) + " is an absolute path; it must be inside the model's folder");
  }
  for (const fs::path& part : relative) {
    if (part == "..") {
      fail(where, quote(location) + " leaves the model's folder through '..', which is refused");
    }
  }
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  if (error) fail(where, "folder " + quote(folder_.string()) + ": " + error.message());
  const fs::path target = fs::canonical(folder / relative, error);
  if (error == std::errc::no_such_file_or_directory) return nullptr;
  if (error) fail(where, quote(location) + ": " + error.message());
  if (!is_below(target, folder)) {
    fail(where, quote(location) + " is a link out of the model's folder, to " +
                    quote(target.string()) + ", which is refused. Copy the file into the folder");
  }
  auto file = MappedFile::open(target);
  files_.emplace(location, file);
  return file;
}

void ExternalData::charge_copy(const std::string& where, size_t offset, size_t width,
                               size_t bytes) {
  if (bytes <= kMaxCopiedBytes - copied_bytes_) {
    copied_bytes_ += bytes;
    return;
  }
  fail(where, "is at offset " + std::to_string(offset) +
                  ", which is not a multiple of its element size " + std::to_string(width) +
                  ": unaligned weights are copied into memory, at most " +
                  std::to_string(kMaxCopiedBytes >> 20) + " MiB per model; this one has " +
                  std::to_string(bytes) + " bytes after " + std::to_string(copied_bytes_) +
                  " copied before. Save the model with aligned external data (or each tensor in "
                  "its own file)");
}

std::optional<Tensor> ExternalData::read(const proto::TensorProto& tensor, DType dtype, Shape shape,
                                         const std::string& where) {
  const Range range = read_range(tensor, where);
  const auto file = map(range.location, where);
  if (file == nullptr) return std::nullopt;
  const auto width = size_bytes(dtype);
  const size_t needed = static_cast<size_t>(num_elems(shape)) * width;
  if (range.length && *range.length != needed) {
    fail(where, "length is " + std::to_string(*range.length) + " bytes; the tensor " + str(shape) +
                    " " + std::string(name(dtype)) + " has " + std::to_string(needed));
  }
  const size_t available = file->bytes().size();
  if (range.offset > available || needed > available - range.offset) {
    fail(where, quote(range.location) + " has " + std::to_string(available) +
                    " bytes; the tensor needs bytes " + std::to_string(range.offset) + " to " +
                    std::to_string(range.offset) + "+" + std::to_string(needed) +
                    ". The file is truncated or belongs to another model");
  }
  const auto bytes = file->bytes().subspan(range.offset, needed);
  if (needed == 0 || range.offset % width != 0) {
    charge_copy(where, range.offset, width, needed);
    return Tensor::from_bytes(dtype, shape, bytes);
  }
  return Tensor(dtype, std::move(shape), file, bytes.data());
}

}  // namespace vernier::onnx
