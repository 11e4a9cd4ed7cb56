// Arrays in Polygraphy's JSON: files as Polygraphy 0.53 writes them, results read back, refusals.
#include "io/polygraphy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/error.h"
#include "io/npz.h"

namespace vernier::io {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// numpy.save of int64 [[7, 8]], and of float32 [[0.5]].
const std::string kIds =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGk4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsIDIpLCB9"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoHAAAAAAAAAAgA"
    "AAAAAAAA";
const std::string kScore =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzogKDEsIDEpLCB9"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAA/";

std::string array(const std::string& base64) {
  return R"({"array": ")" + base64 + R"(", "polygraphy_class": "ndarray"})";
}
std::string feed() { return R"({"ids": )" + array(kIds) + R"(, "x": )" + array(kScore) + "}"; }
std::string iteration() {
  return R"({"outputs": {"score": {"values": )" + array(kScore) +
         R"(, "polygraphy_class": "LazyArray"}}, "runtime": 0.002, "runner_name": "onnxrt",
            "polygraphy_class": "IterationResult"})";
}
std::string results(const std::string& runners) {
  return R"({"lst": [)" + runners + R"(], "polygraphy_class": "RunResults"})";
}

ArraySets read(const std::string& text) {
  return read_polygraphy_bytes(std::as_bytes(std::span(text)), "in.json");
}
std::string error(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

void expect_feed(const NamedTensors& arrays) {
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].first, "ids");
  EXPECT_EQ(arrays[0].second.dtype(), DType::kI64);
  EXPECT_EQ(arrays[0].second.shape(), (Shape{1, 2}));
  EXPECT_EQ(arrays[0].second.integer_at(1), 8);
  EXPECT_EQ(arrays[1].first, "x");
  EXPECT_EQ(arrays[1].second.float_at(0), 0.5);
}

TEST(Polygraphy, SavedInputs) {
  const ArraySets sets = read("[" + feed() + ",\n " + feed() + "]");
  ASSERT_EQ(sets.size(), 2u);
  for (const NamedTensors& arrays : sets) expect_feed(arrays);
}

TEST(Polygraphy, OneIterationOfAFolder) {
  const ArraySets sets = read(feed());
  ASSERT_EQ(sets.size(), 1u);
  expect_feed(sets[0]);
}

TEST(Polygraphy, SavedOutputs) {
  const ArraySets sets = read(results(R"(["onnxrt", [)" + iteration() + "," + iteration() + "]]"));
  ASSERT_EQ(sets.size(), 2u);
  ASSERT_EQ(sets[1].size(), 1u);
  EXPECT_EQ(sets[1][0].first, "score");
  EXPECT_EQ(sets[1][0].second.float_at(0), 0.5);
}

TEST(Polygraphy, ResultsAreReadBack) {
  const fs::path path =
      fs::temp_directory_path() / ("vernier_polygraphy_" + std::to_string(::getpid()) + ".json");
  std::vector<double> values;
  for (int i = 0; i < 7; ++i) values.push_back(i / 3.0);
  const auto tensor = [&](DType type, size_t count) {
    return Tensor::from(type, {static_cast<int64_t>(count)}, std::span(values).first(count));
  };
  // Lengths of every remainder by 3, a name with quotes, a type that NumPy does not have.
  const ArraySets written{{{"a\"b\n", tensor(DType::kF32, 7)}, {"h", tensor(DType::kF16, 1)}},
                          {{"a\"b\n", tensor(DType::kU8, 5)}, {"h", tensor(DType::kBF16, 2)}}};
  write_polygraphy(path, written);
  EXPECT_TRUE(is_json_file(path));
  const ArraySets back = read_polygraphy(path);
  fs::remove(path);
  ASSERT_EQ(back.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = 0; k < 2; ++k) {
      const auto& [name, got] = back[i][k];
      const Tensor& want = written[i][k].second;
      EXPECT_EQ(name, written[i][k].first);
      EXPECT_EQ(got.dtype(), want.dtype() == DType::kBF16 ? DType::kF32 : want.dtype());
      ASSERT_EQ(got.shape(), want.shape());
      const bool real = is_float(got.dtype());
      for (int64_t e = 0; e < got.elems(); ++e) {
        EXPECT_EQ(real ? got.float_at(e) : static_cast<double>(got.integer_at(e)),
                  real ? want.float_at(e) : static_cast<double>(want.integer_at(e)));
      }
    }
  }
}

TEST(Polygraphy, OtherFilesAreNoJson) {
  const fs::path path =
      fs::temp_directory_path() / ("vernier_polygraphy_" + std::to_string(::getpid()) + ".npz");
  write_npz(path, {{"x", Tensor::scalar(DType::kF32, 1)}});
  EXPECT_FALSE(is_json_file(path));
  fs::remove(path);
  EXPECT_FALSE(is_json_file(path));
}

TEST(Polygraphy, Refusals) {
  EXPECT_THAT(error("[" + feed()), HasSubstr("'in.json': is damaged"));
  EXPECT_THAT(error("[]"), HasSubstr("holds no iteration"));
  EXPECT_THAT(error("[3]"), HasSubstr("'in.json': iteration 0: expected an object"));
  EXPECT_THAT(error(R"({"x": 3})"), HasSubstr("array 'x': is no array"));
  EXPECT_THAT(error(R"({"x": {"shape": [1]}})"), HasSubstr("array 'x': is no array that"));
  EXPECT_THAT(error(R"({"x": {"tensor": "AA==", "polygraphy_class": "Tensor"}})"),
              HasSubstr("is a tensor of PyTorch"));
  EXPECT_THAT(error(R"({"x": )" + array("not base64!") + "}"), HasSubstr("is not base64"));
  EXPECT_THAT(error(R"({"x": )" + array(kIds.substr(0, kIds.size() - 8)) + "}"),
              HasSubstr("'in.json': iteration 0: array 'x': has "));
  EXPECT_THAT(error(R"({"x": )" + array("AAAA") + "}"), HasSubstr("array 'x'"));
  EXPECT_THAT(error(results("")), HasSubstr("holds no results"));
  EXPECT_THAT(error(results(R"(["onnxrt", []])")), HasSubstr("holds no iteration"));
  EXPECT_THAT(error(results(R"(["onnxrt"])")), HasSubstr("expected a runner"));
  EXPECT_THAT(error(results(R"(["onnxrt", [{}]])")), HasSubstr("has no outputs"));
  EXPECT_THAT(error(results(R"(["a", [)" + iteration() + R"(]], ["b", [)" + iteration() + "]]")),
              AllOf(HasSubstr("results of 2 runners (a, b)"), HasSubstr("save those of one")));
  EXPECT_THROW(read_polygraphy("/no/such/file.json"), Error);
}

}  // namespace
}  // namespace vernier::io
