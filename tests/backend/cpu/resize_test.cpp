// What the Resize rows of the CPU refuse. Their cases: tests/backend/cases/resize.cpp.
#include "backend/cases/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"

namespace vernier::backend::test {
namespace {

TEST(CpuResize, SaysWhyItRefuses) {
  Maker make(63);
  const ResizeAttrs linear{.mode = Interpolation::kLinear};
  const auto reason = [](const char* kernel, const OpCase& c) {
    return find_kernel(cpu_backend(), kernel)->supports(make_problem(c)).reason;
  };
  const Resampling twice{linear, {1, 4, 4}, {1, 8, 8}, {1, 2, 2}};
  EXPECT_EQ(reason("cpu.resize.nearest", resize_case(make, twice)), "the mode is not nearest");
  Resampling r = twice;
  r.attrs.mode = Interpolation::kCubic;
  EXPECT_EQ(reason("cpu.resize.linear", resize_case(make, r)), "the mode is not linear");
  r.attrs = linear;
  r.attrs.antialias = true;
  EXPECT_EQ(reason("cpu.resize.linear", resize_case(make, r)), "antialias is not supported");
  r.attrs = linear;
  r.attrs.exclude_outside = true;
  EXPECT_EQ(reason("cpu.resize.linear", resize_case(make, r)), "exclude_outside is not supported");
  EXPECT_EQ(reason("cpu.resize.linear", resize_case(make, twice, DType::kI64)),
            "input is i64, linear interpolation takes f32");
  EXPECT_EQ(reason("cpu.resize.linear",
                   resize_case(make, {linear, {2, 2, 2}, {3, 3, 3}, {1.5, 1.5, 1.5}})),
            "resizes 3 axes, linear interpolation takes two");
  Resampling aspect{linear, {4, 4}, {8, 8}, {}};
  aspect.attrs.aspect_policy = "not_larger";
  EXPECT_EQ(reason("cpu.resize.linear", resize_case(make, aspect)),
            "keeps the aspect ratio of its input");
  OpCase computed = resize_case(make, twice);
  computed.inputs[2].constant = false;
  EXPECT_EQ(reason("cpu.resize.linear", computed), "its scales are not constant");
  OpCase scalar = resize_case(make, twice);
  scalar.inputs[0].value = make.normal({});
  EXPECT_EQ(reason("cpu.resize.linear", scalar), "input is a scalar");
}

TEST(CpuResize, AnEmptyInputIsAnError) {
  Maker make(64);
  const OpCase c = resize_case(make, {{}, {0, 3}, {2, 3}, {}});
  for (const KernelDef* kernel : rows_of(c)) {
    try {
      run_kernel(*kernel, c, {});
      FAIL() << "no error from " << kernel->name;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("Resize: the input is empty, the output is not"));
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
