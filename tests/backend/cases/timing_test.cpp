// The timing of kernel rows (backend/timing.h) on a small case of the device under test.
#include "backend/timing.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "backend/device_under_test.h"

namespace vernier::backend::test {
namespace {

OpCase softmax() {
  OpCase c{.op = OpKind::kSoftmax, .attrs = encode(AxisAttrs{.axis = -1})};
  c.name = "softmax";
  c.inputs = {{.value = repeated(DType::kF32, {64, 100}), .batch_axis = 0}};
  c.outputs = {{.shape = {64, 100}}};
  return c;
}

OpCase linear() {
  OpCase c{.op = OpKind::kLinear, .attrs = encode(LinearAttrs{})};
  c.name = "linear";
  c.inputs = {{.value = repeated(DType::kF32, {32, 64}), .batch_axis = 0},
              {.value = repeated(DType::kF32, {64, 96}), .constant = true}};
  c.outputs = {{.shape = {32, 96}}};
  return c;
}

class Timing : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = device_under_test().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
    if (device_under_test().bare()) GTEST_SKIP() << "SKIP: not for memory checkers";
  }
  TimingOptions few_{.replays = 5, .copy_bytes = size_t{1} << 20};
};

TEST_F(Timing, ALaunchTakesSomeTime) {
  for (const OpCase& c : {softmax(), linear()}) {
    for (bool hot : {false, true}) {
      few_.hot = hot;
      const Times us = time_kernel(*rows_of(c).front(), c, few_);
      EXPECT_GT(us.median, 0) << c.name;
      EXPECT_LE(us.p10, us.median) << c.name;
      EXPECT_LE(us.median, us.p90) << c.name;
    }
  }
}

TEST_F(Timing, AWrongElementOfASampledRowIsFound) {
  const OpCase c = softmax();
  const KernelDef& kernel = *rows_of(c).front();
  Results got = run_kernel(kernel, c, {});
  EXPECT_EQ(compare_sample(kernel, c, got), "");
  std::vector<std::byte> bytes(got[0].data(), got[0].data() + got[0].bytes());
  bytes[63 * 100 * 4 + 3] ^= std::byte{0x80};  // the sign of the last row's first element
  got[0] = Tensor::from_bytes(DType::kF32, {64, 100}, bytes);
  EXPECT_NE(compare_sample(kernel, c, got).find("output 0 element 300"), std::string::npos);
}

TEST_F(Timing, WritesALinePerCase) {
  const std::vector<TimedCase> cases{{.name = "Softmax 64x100 f32", .make = &softmax},
                                     {.name = "Linear 32x64x96 f32", .make = &linear}};
  few_.json = ::testing::TempDir() + "timing_test.json";
  few_.parts = {"Softmax"};
  EXPECT_EQ(time_cases(cases, few_), 0);
  std::ostringstream text;
  text << std::ifstream(few_.json).rdbuf();
  EXPECT_NE(text.str().find("\"case\": \"Softmax 64x100 f32\""), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("\"check\": \"right\""), std::string::npos) << text.str();
  EXPECT_EQ(text.str().find("Linear"), std::string::npos) << text.str();
}

TEST_F(Timing, ANameThatNoCaseHasIsAnError) {
  few_.parts = {"no such case"};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(time_cases({{.name = "Softmax", .make = &softmax}}, few_), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "no timed case has such a name\n");
}

}  // namespace
}  // namespace vernier::backend::test
