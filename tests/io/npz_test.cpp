// Reading and writing .npz and .npy: every type, order and version, and every refusal with its
// message. Contract: src/io/npz.h.
#include "io/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zip.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <random>

#include "io/npy_header.h"

namespace vernier::io {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class NpzTest : public ::testing::Test {
 protected:
  NpzTest() : folder_(fs::temp_directory_path() / ("vernier_npz_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~NpzTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

// An .npy of version `major` with the given header text and data.
std::vector<std::byte> npy(char major, const std::string& header, const std::string& data) {
  std::string text("\x93NUMPY", 6);
  text += major;
  text += '\0';
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  if (major > 1) text += std::string(2, '\0');
  return to_bytes(text + header + data);
}

std::string message_of(const std::vector<std::byte>& bytes, const std::string& name = "x.npy") {
  try {
    read_arrays_bytes(bytes, name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

std::vector<std::byte> slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return to_bytes(std::string(std::istreambuf_iterator<char>(file), {}));
}

TEST_F(NpzTest, EveryTypeComesBackWithItsBits) {
  const std::vector<double> values{0, 1, 2, 3, 100, 5};
  for (DType dtype : {DType::kF16, DType::kF32, DType::kF64, DType::kI8, DType::kI16, DType::kI32,
                      DType::kI64, DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
    const Tensor tensor = Tensor::from(dtype, {2, 3}, std::span<const double>(values));
    write_npz(folder_ / "a.npz", {{"first", tensor}, {"s", Tensor::scalar(dtype, 7)}});
    const NamedTensors back = read_arrays(folder_ / "a.npz");
    ASSERT_EQ(back.size(), 2U);
    EXPECT_EQ(back[0].first, "first");
    EXPECT_EQ(back[0].second.dtype(), dtype);
    EXPECT_EQ(back[0].second.shape(), (Shape{2, 3}));
    EXPECT_TRUE(std::ranges::equal(back[0].second.byte_span(), tensor.byte_span())) << name(dtype);
    EXPECT_EQ(back[1].second.rank(), 0U);
  }
}

TEST_F(NpzTest, BoolNamesWithSlashesAndEmptyArraysComeBack) {
  const std::vector<int64_t> bits{1, 0, 1};
  const Tensor mask = Tensor::from(DType::kBool, {3}, std::span<const int64_t>(bits));
  const Tensor empty = Tensor::from(DType::kF32, {0, 4}, std::span<const double>());
  write_npz(folder_ / "a.npz", {{"in.mask", mask}, {"/enc/0/Add", empty}});
  const NamedTensors back = read_arrays(folder_ / "a.npz");
  EXPECT_EQ(back[0].second.integers(), bits);
  EXPECT_EQ(back[1].first, "/enc/0/Add");
  EXPECT_EQ(back[1].second.shape(), (Shape{0, 4}));
}

TEST_F(NpzTest, AnEmptyArchiveIsReadAsNoArrays) {
  write_npz(folder_ / "none.npz", {});
  EXPECT_TRUE(read_arrays(folder_ / "none.npz").empty());
}

TEST_F(NpzTest, Bf16IsWrittenAsFloat32WithoutLoss) {
  const std::vector<double> values{1.0, -3.140625, 65280.0};
  write_npz(folder_ / "a.npz",
            {{"x", Tensor::from(DType::kBF16, {3}, std::span<const double>(values))}});
  const Tensor back = read_arrays(folder_ / "a.npz")[0].second;
  EXPECT_EQ(back.dtype(), DType::kF32);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(back.float_at(i), values[static_cast<size_t>(i)]);
}

TEST_F(NpzTest, EqualArraysGiveEqualBytesAndLeaveNoPartialFile) {
  const NamedTensors arrays{{"x", Tensor::i64({1, 2, 3})}};
  write_npz(folder_ / "a.npz", arrays);
  write_npz(folder_ / "b.npz", arrays);
  EXPECT_EQ(slurp(folder_ / "a.npz"), slurp(folder_ / "b.npz"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(NpzTest, SmallTypesAreWrittenAsWiderOnes) {
  const std::vector<double> values{1, -2, 1};
  const auto of = [&](DType type) {
    return Tensor::from(type, {3}, std::span<const double>(values));
  };
  write_npz(folder_ / "small.npz", {{"i", of(DType::kI2)}, {"f", of(DType::kF8E4M3FNUZ)}});
  const NamedTensors read = read_arrays(folder_ / "small.npz");
  for (const auto& [name, tensor] : read) {
    EXPECT_EQ(tensor.dtype(), name == "i" ? DType::kI8 : DType::kF32);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(name == "i" ? static_cast<double>(tensor.integer_at(i)) : tensor.float_at(i),
                values[static_cast<size_t>(i)]);
  }
}

TEST_F(NpzTest, WritingRefusesWhatNumpyCannotHold) {
  const auto refuses = [&](const NamedTensors& arrays) -> std::string {
    try {
      write_npz(folder_ / "a.npz", arrays);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refuses({{"q", Tensor::scalar(DType::kF8E4M3, 1)}}),
              HasSubstr("array 'q': NumPy has no type for f8e4m3"));
  EXPECT_THAT(refuses({{"x", Tensor::i64({1})}, {"x", Tensor::i64({1})}}), HasSubstr("used twice"));
  for (const char* name : {"x\x1b[2J", "x\xff", "\xC3"}) {
    EXPECT_THAT(refuses({{name, Tensor::i64({1})}}),
                HasSubstr("its name holds control characters or is not UTF-8"));
  }
  EXPECT_FALSE(fs::exists(folder_ / "a.npz"));
  EXPECT_THROW(write_npz(folder_ / "no" / "such" / "folder.npz", {{"x", Tensor::i64({1})}}), Error);
}

TEST_F(NpzTest, OnlyFilesAreReplacedAndLinksStay) {
  const NamedTensors arrays{{"x", Tensor::i64({1})}};
  const auto refusal = [&](const fs::path& path) -> std::string {
    try {
      write_npz(path, arrays);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInput);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal(folder_), HasSubstr("it is a folder; give the name of a file"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("'/dev/null': it is not a regular file"));
  write_npz(folder_ / "a.npz", {});
  fs::create_symlink("a.npz", folder_ / "link.npz");
  write_npz(folder_ / "link.npz", arrays);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.npz"));
  EXPECT_EQ(read_arrays(folder_ / "a.npz").size(), 1U);
}

TEST_F(NpzTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  write_npz(folder_ / "a.npz", {{"x", Tensor::i64({1})}});
  const std::vector<std::byte> before = slurp(folder_ / "a.npz");
  const NamedTensors big{{"x", Tensor::i64(std::vector<int64_t>(100000))}};
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {0u, 100u, 65536u, 800000u}) {  // header, numbers, directory
    std::string message = "no error";
    const rlimit full{limit, old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &full);
    try {
      write_npz(folder_ / "a.npz", big);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMachine);
      message = error.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_THAT(message, HasSubstr("cannot write arrays '" + (folder_ / "a.npz").string() + "': "));
    EXPECT_THAT(message, HasSubstr("File too large; it needs 800150 bytes")) << limit;
    EXPECT_EQ(slurp(folder_ / "a.npz"), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << limit;
  }
  std::signal(SIGXFSZ, handler);
}

TEST(DataHash, IsOfNamesTypesShapesAndElementsInAnyOrder) {
  const Tensor ids = Tensor::i64({1, 2}), mask = Tensor::i64({1, 1});
  const std::string hash = data_hash({{"ids", ids}, {"mask", mask}});
  // Pinned: certificates in use name their data by it.
  EXPECT_EQ(hash, "cf5597176921382572c445a51f3e3ab0");
  EXPECT_EQ(data_hash({{"mask", mask}, {"ids", ids}}), hash);
  const Tensor row = Tensor::from(DType::kI64, {1, 2}, std::vector<int64_t>{1, 2});
  const Tensor unsigned_ids = Tensor::from(DType::kU64, {2}, std::vector<int64_t>{1, 2});
  for (const NamedTensors& other : std::vector<NamedTensors>{
           {},
           {{"ids", ids}},
           {{"ids", ids}, {"masks", mask}},
           {{"ids", mask}, {"mask", ids}},
           {{"ids", row}, {"mask", mask}},
           {{"ids", unsigned_ids}, {"mask", mask}},
           {{"ids", Tensor::i64({1, 3})}, {"mask", mask}},
       }) {
    EXPECT_NE(data_hash(other), hash);
  }
}

TEST(Npy, VersionsOneToThreeAndFortranOrderAreRead) {
  const std::string data("\1\2\3\4\5\6", 6);
  for (char major : {'\1', '\2', '\3'}) {
    const auto rows = read_arrays_bytes(
        npy(major, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n", data), "x.npy");
    EXPECT_EQ(rows[0].first, "x");
    EXPECT_EQ(rows[0].second.integers(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
    // Column-major bytes 1..6 of [2, 3] are the rows 1 3 5 and 2 4 6.
    const auto columns = read_arrays_bytes(
        npy(major, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", data), "x.npy");
    EXPECT_EQ(columns[0].second.integers(), (std::vector<int64_t>{1, 3, 5, 2, 4, 6}));
  }
}

TEST(Npy, FortranOrderOfThreeAxes) {
  std::string data;
  for (char c = 0; c < 24; ++c) data += c;
  const auto arrays = read_arrays_bytes(
      npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }", data), "x.npy");
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 4; ++k) {
        EXPECT_EQ(arrays[0].second.integer_at((i * 3 + j) * 4 + k), i + 2 * j + 6 * k);
      }
    }
  }
}

TEST(Npy, HeadersOfEveryRankAreWrittenAsTheyAreRead) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{0}, Shape{1, 2, 3, 4, 5, 6, 7, 8}}) {
    const std::string text = make_npy_header(DType::kF32, shape);
    EXPECT_EQ(text.size() % 64, 0U);
    const NpyHeader header = parse_npy_header(to_bytes(text), "t");
    EXPECT_EQ(header.shape, shape);
    EXPECT_EQ(header.header_bytes, text.size());
  }
}

struct Refusal {
  const char* descr;
  const char* message;
};
TEST(Npy, TypesThatAreNotReadAreRefusedByName) {
  for (const Refusal& refusal : {
           Refusal{"'>f4'", "is big-endian ('>f4')"},
           Refusal{"'|O'", "holds Python objects"},
           Refusal{"'<U5'", "holds strings"},
           Refusal{"'|S3'", "holds strings"},
           Refusal{"'<V2'", "bfloat16"},
           Refusal{"'<c8'", "type '<c8'"},
           Refusal{"'<M8[ns]'", "has a type that is not read"},
           Refusal{"[('a', '<f4')]", "is a structured array"},
       }) {
    const std::string header =
        std::string("{'descr': ") + refusal.descr + ", 'fortran_order': False, 'shape': (1,), }";
    EXPECT_THAT(message_of(npy(1, header, "12345678")), HasSubstr(refusal.message));
  }
}

TEST(Npy, DamagedFilesAreRefusedWithTheReason) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_THAT(message_of({}), HasSubstr("is empty"));
  EXPECT_THAT(message_of(to_bytes("hello there")), HasSubstr("magic bytes are missing"));
  EXPECT_THAT(message_of(npy(4, good, "")), HasSubstr("has .npy version 4"));
  EXPECT_THAT(message_of(npy(1, good, "1234567")), HasSubstr("needs"));
  EXPECT_THAT(message_of(npy(1, good, "123456789")), HasSubstr("truncated or damaged"));
  EXPECT_THAT(message_of(to_bytes(std::string("\x93NUMPY\1\0\xff\0", 10))),
              HasSubstr("truncated in its header"));
  const auto shape = [](const std::string& text) {
    return npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': " + text + ", }", "");
  };
  EXPECT_THAT(message_of(shape("(-1,)")), HasSubstr("bad shape"));
  EXPECT_THAT(message_of(shape("(99999999999999999999,)")), HasSubstr("bad shape"));
  EXPECT_THAT(message_of(shape("(4611686018427387904, 4)")), HasSubstr("impossible shape"));
  EXPECT_THAT(message_of(shape("(1 2)")), HasSubstr("expected ')'"));
  EXPECT_THAT(message_of(npy(1, "{'descr': '<f4'}", "")), HasSubstr("lacks"));
  EXPECT_THAT(message_of(npy(1, "{'descr': '<f4', 'evil': 1}", "")),
              HasSubstr("unknown key 'evil'"));
  EXPECT_THAT(message_of(npy(1, "{'descr': '<f4", "")), HasSubstr("a string has no end"));
  EXPECT_THAT(message_of(npy(1, "{'fortran_order': Maybe}", "")), HasSubstr("neither True nor"));
}

TEST_F(NpzTest, EveryTruncationAndFlippedByteIsAnErrorOrTheSameArrays) {
  std::vector<double> values(40);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
  const Tensor tensor = Tensor::from(DType::kF32, {5, 8}, std::span<const double>(values));
  write_npz(folder_ / "a.npz", {{"x", tensor}});
  const std::vector<std::byte> good = slurp(folder_ / "a.npz");
  for (size_t length = 0; length < good.size(); ++length) {
    const std::vector<std::byte> cut(good.begin(),
                                     good.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(read_arrays_bytes(cut, "cut.npz"), Error) << length;
  }
  int errors = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> flipped = good;
    flipped[i] ^= std::byte{0x10};
    try {
      const NamedTensors arrays = read_arrays_bytes(flipped, "flipped.npz");
      // What is not covered by a checksum is names, dates and flags: the numbers must be right.
      for (const auto& row : arrays) {
        EXPECT_TRUE(std::ranges::equal(row.second.byte_span(), tensor.byte_span())) << i;
      }
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 100);
}

// Overwrites 4 bytes of the first record of the archive's directory.
std::vector<std::byte> with_directory_field(std::vector<std::byte> bytes, size_t offset,
                                            uint32_t value) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t record = text.find("PK\x01\x02");
  for (size_t i = 0; i < 4; ++i) {
    bytes[record + offset + i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
  }
  return bytes;
}

TEST_F(NpzTest, ArchivesThatClaimMoreThanTheyHoldAreRefusedBeforeAllocating) {
  write_npz(folder_ / "a.npz", {{"x", Tensor::i64({1, 2, 3})}});
  const std::vector<std::byte> good = slurp(folder_ / "a.npz");
  constexpr size_t kCompressed = 20, kSize = 24;  // fields of a directory record
  EXPECT_THAT(message_of(with_directory_field(good, kSize, 0xf0000000U), "a.npz"),
              HasSubstr("claims 4026531840 bytes in"));
  EXPECT_THAT(message_of(with_directory_field(good, kCompressed, 0xf0000000U), "a.npz"),
              HasSubstr("claims more bytes than the archive has"));
}

TEST_F(NpzTest, ANameThatIsThereTwiceIsRefused) {
  write_npz(folder_ / "a.npz", {{"x", Tensor::i64({1})}, {"y", Tensor::i64({2})}});
  std::vector<std::byte> bytes = slurp(folder_ / "a.npz");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t at = text.find("y.npy"); at != std::string::npos; at = text.find("y.npy", at + 1))
    bytes[at] = std::byte{'x'};
  EXPECT_THAT(message_of(bytes, "a.npz"),
              HasSubstr("'a.npz': array 'x.npy': is in the archive twice"));
}

TEST_F(NpzTest, MissingFilesAndForeignArchivesAreNamed) {
  const auto message = [&](const fs::path& path) -> std::string {
    try {
      read_arrays(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(folder_ / "none.npz"), HasSubstr("does not exist"));
  EXPECT_THAT(message(folder_), HasSubstr("is not a regular file"));
  std::ofstream(folder_ / "bad.npz") << "PK and then nothing";
  EXPECT_THAT(message(folder_ / "bad.npz"), HasSubstr("cannot be opened as .npz"));
}

// The bytes of a file in which one byte of the elements of array `name` differs: its checksum is
// wrong.
std::vector<std::byte> with_damaged(std::vector<std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t entry = text.find(name + ".npy");
  const size_t header_end = text.find('\n', entry);
  bytes[header_end + 1] ^= std::byte{1};
  return bytes;
}

TEST_F(NpzTest, AnArrayThatNobodyReadsIsNeverRead) {
  write_npz(folder_ / "a.npz", {{"x", Tensor::i64({1, 2})}, {"unused", Tensor::i64({3, 4, 5})}});
  const std::vector<std::byte> bytes = with_damaged(slurp(folder_ / "a.npz"), "unused");
  const ArrayFile file = ArrayFile::from_bytes(bytes, "a.npz");
  ASSERT_EQ(file.headers().size(), 2U);
  EXPECT_EQ(file.headers()[1].name, "unused");
  EXPECT_EQ(file.headers()[1].dtype, DType::kI64);
  EXPECT_EQ(file.headers()[1].shape, (Shape{3}));
  EXPECT_EQ(file.read(0).integers(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(file.read(0).integers(), (std::vector<int64_t>{1, 2})) << "and once more";
  EXPECT_THAT(message_of(bytes, "a.npz"),
              HasSubstr("array 'unused.npy': its checksum or size is wrong"));
}

TEST_F(NpzTest, ASizeThatTheHeaderDoesNotSayIsRefusedWithoutTheElements) {
  write_npz(folder_ / "a.npz", {{"x", Tensor::i64({1, 2, 3})}});
  std::vector<std::byte> bytes = slurp(folder_ / "a.npz");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t shape = text.find("(3,)");
  bytes[shape + 1] = std::byte{'4'};
  try {
    ArrayFile::from_bytes(bytes, "a.npz");
    FAIL() << "opened a file whose header says more than there is";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("array 'x.npy': has 152 bytes; shape [4] of i64 needs 160"));
  }
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// An archive with one deflated array `name` of these bytes as u1. `claimed`: how many its header
// and the directory say there are.
std::vector<std::byte> deflated(const fs::path& path, const std::string& name,
                                const std::vector<std::byte>& elements, size_t claimed) {
  const std::string header = make_npy_header(DType::kU8, {static_cast<int64_t>(claimed)});
  std::vector<std::byte> contents = to_bytes(header);
  contents.insert(contents.end(), elements.begin(), elements.end());
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  zip_source_t* source = zip_source_buffer(archive, contents.data(), contents.size(), 0);
  const auto index = zip_file_add(archive, (name + ".npy").c_str(), source, 0);
  EXPECT_EQ(zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_DEFLATE, 1),
            0);
  EXPECT_EQ(zip_close(archive), 0);
  constexpr size_t kSize = 24;
  const std::vector<std::byte> bytes = slurp(path);
  return claimed == elements.size()
             ? bytes
             : with_directory_field(bytes, kSize, static_cast<uint32_t>(header.size() + claimed));
}

std::vector<std::byte> deflated_zeros(const fs::path& path, const std::string& name, size_t elems,
                                      size_t claimed) {
  return deflated(path, name, std::vector<std::byte>(elems), claimed);
}
std::vector<std::byte> deflated_noise(const fs::path& path, const std::string& name, size_t elems,
                                      size_t claimed) {
  std::mt19937_64 random(1);
  std::vector<std::byte> noise(elems);
  for (std::byte& b : noise) b = static_cast<std::byte>(random());
  return deflated(path, name, noise, claimed);
}

TEST_F(NpzTest, ABombTakesNoMemoryUntilItIsRead) {
  constexpr size_t kBomb = size_t{64} << 20;
  const std::vector<std::byte> bytes = deflated_zeros(folder_ / "bomb.npz", "bomb", kBomb, kBomb);
  EXPECT_LT(bytes.size(), kBomb / 100);
  const std::vector<std::byte> more =
      deflated_zeros(folder_ / "more.npz", "bomb", kBomb, 12 * kBomb);
  EXPECT_THAT(message_of(more, "more.npz"), HasSubstr("claims 805306496 bytes in"))
      << "more than deflate can hold";
  const ArrayFile file = ArrayFile::from_bytes(bytes, "bomb.npz");
  EXPECT_EQ(file.headers()[0].shape, (Shape{static_cast<int64_t>(kBomb)}));
  EXPECT_EQ(file.read(0).elems(), static_cast<int64_t>(kBomb));
}

// Within what deflate can hold: 600 MB are claimed, 1 MB is there.
TEST_F(NpzTest, AMemberThatClaimsMoreThanItHoldsCostsWhatItHolds) {
  constexpr size_t kHeld = size_t{1} << 20, kClaimed = 600 * kHeld;
  const std::vector<std::byte> liar = deflated_noise(folder_ / "liar.npz", "bomb", kHeld, kClaimed);
  const long before = peak_kilobytes();
  const ArrayFile file = ArrayFile::from_bytes(liar, "liar.npz");
  try {
    file.read(0);
    FAIL() << "read more than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), HasSubstr("'liar.npz': array 'bomb.npy': cannot be read"));
  }
  EXPECT_LT(peak_kilobytes() - before, static_cast<long>(100 * (kHeld >> 10)));
}

TEST_F(NpzTest, AnArchiveOfTooManyArraysIsRefused) {
  NamedTensors arrays;
  const Tensor one = Tensor::i64({1});
  for (size_t i = 0; i <= ArrayFile::kMostArrays; ++i) arrays.emplace_back(std::to_string(i), one);
  write_npz(folder_ / "many.npz", arrays);
  try {
    ArrayFile::open(folder_ / "many.npz");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has 65537 arrays, at most 65536 are read"));
  }
}

}  // namespace
}  // namespace vernier::io
