// cpu.resize.nearest and cpu.resize.linear against the evaluator. What is checked: harness.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/harness.h"

namespace vernier::backend::test {
namespace {

constexpr std::array kCoordinateModes{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                      "align_corners", "asymmetric"};

// Either scales, or sizes (the whole output shape).
struct Resampling {
  ResizeAttrs attrs = {};
  Shape x = {}, y = {};
  std::vector<double> scales = {};
};

OpCase resize_case(Maker& make, const Resampling& r, DType type = DType::kF32) {
  OpCase c{.op = OpKind::kResize, .attrs = encode(r.attrs)};
  c.name = r.attrs.mode == Interpolation::kNearest ? "nearest " : "linear ";
  c.name += r.attrs.coordinate_mode + " " + r.attrs.nearest_mode + " ";
  c.name += str(r.x) + " to " + str(r.y) + (r.scales.empty() ? " by size" : " by scale");
  const bool batched = r.x[0] == r.y[0];
  // All the bits that a type has: large integers are no doubles.
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = -(kMin + 1);
  const int64_t low = is_integer(type) ? kMin : 0, high = is_integer(type) ? kMax : 1;
  c.inputs = {
      {.value = type == DType::kF32 ? make.normal(r.x) : make.integers(type, r.x, low, high),
       .batch_axis = batched ? 0 : -1},
      {}};
  if (r.scales.empty()) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < r.y.size(); ++i) {
      if (r.attrs.axes.empty() || std::count(r.attrs.axes.begin(), r.attrs.axes.end(), i) > 0)
        sizes.push_back(r.y[i]);
    }
    // The size of the batch is its own, whatever row is looked at.
    if (batched && r.attrs.axes.empty()) c.inputs[0].batch_axis = -1;
    c.inputs.push_back({});
    c.inputs.push_back({.value = Tensor::from(DType::kI64, {static_cast<int64_t>(sizes.size())},
                                              std::span<const int64_t>(sizes))});
  } else {
    c.inputs.push_back({.value = Tensor::from(DType::kF32, {static_cast<int64_t>(r.scales.size())},
                                              std::span<const double>(r.scales)),
                        .constant = true,
                        .special = false,
                        .stays_f32 = true});
  }
  c.outputs = {{.dtype = type, .shape = r.y, .batch_axis = c.inputs[0].batch_axis}};
  c.exact = r.attrs.mode == Interpolation::kNearest;
  c.ulps = 2;  // double inside
  return c;
}

TEST(CpuResize, NearestMatchesTheEvaluatorOnAnyAxes) {
  Maker make(61);
  for (const char* coordinates : kCoordinateModes) {
    for (const char* nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      const ResizeAttrs attrs{.coordinate_mode = coordinates, .nearest_mode = nearest};
      for (const Resampling& r :
           std::vector<Resampling>{{attrs, {2, 3, 5, 7}, {2, 3, 10, 14}, {1, 1, 2, 2}},
                                   {attrs, {2, 3, 5, 7}, {2, 3, 2, 17}, {1, 1, 0.5, 2.5}},
                                   {attrs, {2, 3, 5, 7}, {2, 3, 8, 1}, {}},
                                   {attrs, {3, 33}, {3, 17}, {}},
                                   {attrs, {2, 3, 4, 5}, {4, 4, 6, 5}, {}},
                                   {attrs, {7}, {0}, {}}}) {
        EXPECT_EQ(check_case(resize_case(make, r)), 1);
      }
    }
  }
  for (DType type : {DType::kF16, DType::kBool, DType::kU8, DType::kI32, DType::kI64}) {
    const Resampling r{{.axes = {2, -1}}, {2, 3, 5, 7}, {2, 3, 11, 6}, {2.2, 0.9}};
    EXPECT_EQ(check_case(resize_case(make, r, type)), 1);
  }
}

TEST(CpuResize, LinearMatchesTheEvaluatorOnOneAndTwoAxes) {
  Maker make(62);
  for (const char* coordinates : kCoordinateModes) {
    const ResizeAttrs attrs{.mode = Interpolation::kLinear, .coordinate_mode = coordinates};
    ResizeAttrs middle = attrs;
    middle.axes = {1, 2};
    for (const Resampling& r :
         std::vector<Resampling>{{attrs, {2, 3, 5, 7}, {2, 3, 10, 14}, {1, 1, 2, 2}},
                                 {attrs, {2, 3, 5, 7}, {2, 3, 2, 17}, {1, 1, 0.5, 2.5}},
                                 {attrs, {2, 3, 5, 7}, {2, 3, 8, 1}, {}},
                                 {middle, {2, 5, 7, 3}, {2, 9, 33, 3}, {}},
                                 {middle, {2, 5, 7, 3}, {2, 5, 3, 3}, {1, 0.5}},
                                 {attrs, {2, 5, 3, 7}, {2, 9, 3, 12}, {}},
                                 {attrs, {3, 33}, {3, 17}, {}},
                                 {attrs, {5, 4}, {5, 4}, {}},
                                 {attrs, {3, 5}, {3, 0}, {}}}) {
      EXPECT_EQ(check_case(resize_case(make, r)), 1);
    }
  }
}

TEST(CpuResize, SaysWhyItRefuses) {
  Maker make(63);
  const ResizeAttrs linear{.mode = Interpolation::kLinear};
  const auto reason = [](const char* kernel, const OpCase& c) {
    return find_kernel(cpu_backend(), kernel)->supports(make_problem(c)).reason;
  };
  const Resampling twice{linear, {1, 4, 4}, {1, 8, 8}, {1, 2, 2}};
  EXPECT_EQ(reason("cpu.resize.nearest", resize_case(make, twice)), "its mode is not nearest");
  Resampling r = twice;
  r.attrs.mode = Interpolation::kCubic;
  EXPECT_EQ(reason("cpu.resize.linear", resize_case(make, r)), "its mode is not linear");
  r.attrs = linear;
  r.attrs.antialias = true;
  EXPECT_EQ(reason("cpu.resize.linear", resize_case(make, r)),
            "antialiasing weighs more than two elements per axis");
  r.attrs = linear;
  r.attrs.exclude_outside = true;
  EXPECT_EQ(reason("cpu.resize.linear", resize_case(make, r)),
            "leaves out elements beyond the border");
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
