// Calibration caches of TensorRT: what is read, and every wrong file is an error that says where.
#include "calibrate/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace vernier::calibration {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kHead = "TRT-8601-EntropyCalibration2\n";

TEST(Cache, IsReadAsTensorRtWritesIt) {
  const Cache cache = read_cache(kHead +
                                     "input: 3c008912\r\n"
                                     "(Unnamed Layer* 0) [Shuffle]_output: 3f800000\n"
                                     "block:0/add: 40000000\n"
                                     "\n"
                                     "dead: 0\n"
                                     "last: 3E691968",
                                 "c.cache");
  EXPECT_EQ(cache.version, "8601");
  EXPECT_EQ(cache.algorithm, "EntropyCalibration2");
  ASSERT_EQ(cache.scales.size(), 5U);
  EXPECT_EQ(cache.scales.at("input"), 0x1.011224p-7F);
  EXPECT_EQ(cache.scales.at("(Unnamed Layer* 0) [Shuffle]_output"), 1);
  EXPECT_EQ(cache.scales.at("block:0/add"), 2);
  EXPECT_EQ(cache.scales.at("dead"), 0);
  EXPECT_EQ(cache.scales.at("last"), 0x1.d232dp-3F);
  EXPECT_TRUE(read_cache(kHead, "c.cache").scales.empty());
}

struct Wrong {
  const char* name;
  std::string text, message;
};
void PrintTo(const Wrong& row, std::ostream* out) { *out << row.name; }

class WrongCaches : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongCaches, AreErrorsThatSayWhere) {
  try {
    read_cache(GetParam().text, "c.cache");
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("calibration cache 'c.cache', line "),
                                    HasSubstr(GetParam().message)));
  }
}

const Wrong kWrong[] = {
    {"empty", "", "line 1: got '', expected TRT-<version>-<algorithm>"},
    {"json", "{\"format\": 1}", "line 1: got '{\"format\": 1}'"},
    {"no_version", "TRT-EntropyCalibration2\n", "expected TRT-<version>-<algorithm>"},
    {"text_as_version", "TRT-x-Entropy\n", "got 'TRT-x-Entropy'"},
    {"no_algorithm", "TRT-8601-\n", "got 'TRT-8601-'"},
    {"no_colon", kHead + "a: 3f800000\nb\n", "line 3: got 'b', expected a tensor, a colon"},
    {"no_name", kHead + ": 3f800000\n", "line 2: got ': 3f800000'"},
    {"no_scale", kHead + "a:\n", "the scale of tensor 'a' is '', expected the 8 hex digits"},
    {"no_hex", kHead + "a: 3f80000g\n", "is '3f80000g', expected the 8 hex digits"},
    {"a_float", kHead + "a: 0.25\n", "is '0.25', expected the 8 hex digits"},
    {"a_sign", kHead + "a: -3f80000\n", "is '-3f80000', expected the 8 hex digits"},
    {"nine_digits", kHead + "a: 03f800000\n", "is '03f800000', expected the 8 hex digits"},
    {"negative", kHead + "a: bf800000\n", "is -1 ('bf800000'), expected a positive number"},
    {"negative_zero", kHead + "a: 80000000\n", "is -0 ('80000000'), expected a positive number"},
    {"nan", kHead + "a: 7fc00000\n", "is nan ('7fc00000'), expected a positive number"},
    {"infinity", kHead + "a: 7f800000\n", "is inf ('7f800000'), expected a positive number"},
    {"huge", kHead + "a: 7f000000\n",
     "is 1.70141e+38 ('7f000000'), expected a positive number of "
     "at most 2.67"},
    {"subnormal", kHead + "a: 00000001\n", "expected a positive number"},
    {"twice", kHead + "a: 3f800000\na: 3f800000\n", "line 3: tensor 'a' occurs twice"},
    {"long_line", kHead + std::string(100000, 'x'), "xxx…', expected a tensor, a colon"},
};
INSTANTIATE_TEST_SUITE_P(Files, WrongCaches, ::testing::ValuesIn(kWrong),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace vernier::calibration
