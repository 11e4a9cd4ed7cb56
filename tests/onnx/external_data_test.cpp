// External weights: mapped where they lie, and every way to reach outside the model's folder or
// past the end of a file refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"
#include "onnx/model_builder.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ExternalDataTest : public ::testing::Test {
 protected:
  ExternalDataTest()
      : root_(fs::temp_directory_path() / ("vernier_external_" + std::to_string(::getpid()))),
        folder_(root_ / "model") {
    fs::create_directories(folder_ / "weights");
    const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7};
    write(folder_ / "w.bin", values);
    write(folder_ / "weights" / "w.bin", values);
    write(root_ / "secret.bin", values);
  }
  ~ExternalDataTest() override { fs::remove_all(root_); }

  static void write(const fs::path& path, const std::vector<float>& values) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }

  using Entries = std::vector<std::pair<std::string, std::string>>;

  // A model whose only output is the external tensor w of the given shape.
  fs::path model(const Entries& entries, const std::vector<int64_t>& dims,
                 int32_t type = kFloat) const {
    ModelBuilder builder(13);
    proto::TensorProto tensor;
    tensor.set_name("w");
    tensor.set_data_type(type);
    tensor.mutable_dims()->Assign(dims.begin(), dims.end());
    tensor.set_data_location(proto::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    builder.initializer(tensor).output("w");
    const fs::path path = folder_ / "model.onnx";
    std::ofstream(path, std::ios::binary) << builder.bytes();
    return path;
  }
  Tensor weight(const Entries& entries, const std::vector<int64_t>& dims,
                const ImportOptions& options = {}) const {
    const auto graph = import_model(model(entries, dims), options);
    return graph->value(graph->outputs[0]).constant;
  }
  std::string error(const Entries& entries, const std::vector<int64_t>& dims = {2}) const {
    try {
      import_model(model(entries, dims));
    } catch (const Error& caught) {
      EXPECT_EQ(caught.code(), ErrorCode::kInput);
      return caught.what();
    }
    return "no error";
  }

  fs::path root_, folder_;
};

TEST_F(ExternalDataTest, IsReadAtItsOffset) {
  const Tensor w = weight({{"location", "w.bin"}, {"offset", "8"}, {"length", "16"}}, {2, 2});
  EXPECT_EQ(w.float_at(0), 2);
  EXPECT_EQ(w.float_at(3), 5);
  EXPECT_EQ(weight({{"location", "weights/w.bin"}}, {3}).float_at(2), 2);
  EXPECT_EQ(weight({{"location", "./w.bin"}, {"checksum", "00"}}, {8}).float_at(7), 7);
}

TEST_F(ExternalDataTest, StaysReadableAfterTheFileIsGone) {
  // Mapped, and the mapping is kept by the tensor.
  const Tensor w = weight({{"location", "w.bin"}}, {8});
  fs::remove(folder_ / "w.bin");
  EXPECT_EQ(w.float_at(7), 7);
}

TEST_F(ExternalDataTest, TwoTensorsOfOneFileShareItsMapping) {
  ModelBuilder builder(13);
  for (const char* name : {"a", "b"}) {
    proto::TensorProto tensor;
    tensor.set_name(name);
    tensor.set_data_type(kFloat);
    tensor.add_dims(2);
    tensor.set_data_location(proto::TensorProto::EXTERNAL);
    auto* location = tensor.add_external_data();
    location->set_key("location");
    location->set_value("w.bin");
    auto* offset = tensor.add_external_data();
    offset->set_key("offset");
    offset->set_value(name == std::string("a") ? "0" : "8");
    builder.initializer(tensor).output(name);
  }
  std::ofstream(folder_ / "model.onnx", std::ios::binary) << builder.bytes();
  const auto graph = import_model(folder_ / "model.onnx");
  const std::byte* a = graph->value(graph->outputs[0]).constant.data();
  const std::byte* b = graph->value(graph->outputs[1]).constant.data();
  EXPECT_EQ(b - a, 8);
}

TEST_F(ExternalDataTest, AnOffsetThatIsNotAlignedIsCopied) {
  std::ofstream file(folder_ / "odd.bin", std::ios::binary);
  const float value = 42;
  file.put('x').write(reinterpret_cast<const char*>(&value), sizeof value);
  file.close();
  EXPECT_EQ(weight({{"location", "odd.bin"}, {"offset", "1"}}, {1}).float_at(0), 42);
}

TEST_F(ExternalDataTest, CopiesOfRangesThatAreNotAlignedAreBounded) {
  constexpr int64_t kElems = int64_t{1} << 29;  // 2 GiB
  write(folder_ / "huge.bin", {1.5F});
  fs::resize_file(folder_ / "huge.bin", kElems * 4 + 4);
  ModelBuilder builder(13);
  for (const auto& [name, elems] : {std::pair("small", int64_t{2}), std::pair("large", kElems)}) {
    proto::TensorProto tensor;
    tensor.set_name(name);
    tensor.set_data_type(kFloat);
    tensor.add_dims(elems);
    tensor.set_data_location(proto::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair("location", "huge.bin"), std::pair("offset", "1")}) {
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    builder.initializer(tensor).output(name);
  }
  std::ofstream(folder_ / "model.onnx", std::ios::binary) << builder.bytes();
  try {
    import_model(folder_ / "model.onnx");
    FAIL();
  } catch (const Error& caught) {
    EXPECT_EQ(caught.code(), ErrorCode::kInput);
    EXPECT_THAT(caught.what(),
                AllOf(HasSubstr("initializer 'large': external data is at offset 1, which is not "
                                "a multiple of its element size 4"),
                      HasSubstr("at most 2048 MiB per model"), HasSubstr("after 8 copied before."),
                      HasSubstr("Save the model with aligned external data")));
  }
}

TEST_F(ExternalDataTest, PathsOutOfTheFolderAreRefused) {
  EXPECT_THAT(error({{"location", (root_ / "secret.bin").string()}}), HasSubstr("absolute path"));
  EXPECT_THAT(error({{"location", "../secret.bin"}}),
              HasSubstr("leaves the model's folder through '..'"));
  EXPECT_THAT(error({{"location", "weights/../w.bin"}}), HasSubstr("through '..'"));
  fs::create_symlink(root_ / "secret.bin", folder_ / "link.bin");
  EXPECT_THAT(error({{"location", "link.bin"}}), HasSubstr("link out of the model's folder"));
  fs::create_directory_symlink(root_, folder_ / "up");
  EXPECT_THAT(error({{"location", "up/secret.bin"}}), HasSubstr("link out of the model's folder"));
  // A folder whose name begins like the model's is another folder.
  fs::create_directories(root_ / "model2");
  write(root_ / "model2" / "w.bin", {1, 2});
  fs::create_directory_symlink(root_ / "model2", folder_ / "side");
  EXPECT_THAT(error({{"location", "side/w.bin"}}), HasSubstr("link out of the model's folder"));
  EXPECT_THAT(error({{"location", std::string("w.bin\0.txt", 10)}}), HasSubstr("NUL byte"));
}

TEST_F(ExternalDataTest, ALinkWithinTheFolderIsFollowed) {
  fs::create_symlink("weights/w.bin", folder_ / "near.bin");
  EXPECT_EQ(weight({{"location", "near.bin"}}, {2}).float_at(1), 1);
}

TEST_F(ExternalDataTest, OnlyRegularFilesAreOpened) {
  EXPECT_THAT(error({{"location", "weights"}}), HasSubstr("not a regular file"));
  EXPECT_THAT(error({{"location", "."}}), HasSubstr("link out of the model's folder"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);  // opening must not wait
  EXPECT_THAT(error({{"location", "pipe"}}), HasSubstr("not a regular file"));
}

TEST_F(ExternalDataTest, RangesThatDoNotFitAreRefused) {
  EXPECT_THAT(error({{"location", "w.bin"}}, {9}), HasSubstr("has 32 bytes; the tensor needs"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "28"}}),
              HasSubstr("truncated or belongs to another"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "33"}}),
              HasSubstr("truncated or belongs to another"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "18446744073709551615"}}),
              HasSubstr("truncated or belongs to another"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"length", "4"}}), HasSubstr("length is 4 bytes"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "-4"}}), HasSubstr("offset is '-4'"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"offset", "4k"}}), HasSubstr("expected a number"));
}

TEST_F(ExternalDataTest, MissingFilesAndUnknownKeysAreNamed) {
  EXPECT_THAT(error({{"location", "gone.bin"}}),
              HasSubstr("initializer 'w': its external data file 'gone.bin' does not exist"));
  EXPECT_THAT(error({}), HasSubstr("external data has no location"));
  EXPECT_THAT(error({{"location", "w.bin"}, {"cipher", "rot13"}}),
              HasSubstr("unknown key 'cipher'"));
}

TEST_F(ExternalDataTest, FromMemoryWithoutAFolderNothingIsRead) {
  const fs::path path = model({{"location", "w.bin"}}, {2});
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(import_error(bytes), HasSubstr("came from memory without a folder"));
}

TEST_F(ExternalDataTest, MissingWeightsCanBeSeeded) {
  const ImportOptions seeded{.missing_weights = MissingWeights::kSeeded};
  const Tensor w = weight({{"location", "gone.bin"}}, {4}, seeded);
  EXPECT_NE(w.float_at(0), w.float_at(1));
  // A file that exists is used, and a path out of the folder stays refused.
  EXPECT_EQ(weight({{"location", "w.bin"}}, {4}, seeded).float_at(3), 3);
  EXPECT_THROW(weight({{"location", "../gone.bin"}}, {4}, seeded), Error);
}

TEST_F(ExternalDataTest, WeightsBeyondTwoGibibytesAreMappedNotRead) {
  constexpr int64_t kElems = int64_t{3} << 28;  // 3 GiB of a sparse file
  write(folder_ / "huge.bin", {1.5F});
  fs::resize_file(folder_ / "huge.bin", kElems * 4 + 4);
  const Tensor w = weight({{"location", "huge.bin"}, {"offset", "4"}}, {kElems});
  EXPECT_EQ(w.bytes(), static_cast<size_t>(kElems) * 4);
  EXPECT_EQ(w.float_at(kElems - 1), 0);
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  EXPECT_LT(resident_pages * ::sysconf(_SC_PAGESIZE), int64_t{1} << 30);
}

TEST_F(ExternalDataTest, MissingModelIsNamed) {
  try {
    import_model(folder_ / "none.onnx");
    FAIL();
  } catch (const Error& caught) {
    EXPECT_EQ(caught.code(), ErrorCode::kInput);
    EXPECT_THAT(caught.what(), HasSubstr("none.onnx': No such file"));
  }
}

}  // namespace
}  // namespace vernier::onnx
