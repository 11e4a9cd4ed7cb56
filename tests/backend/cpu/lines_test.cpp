// Kernels that pick among the elements of a line along any axis, against the evaluator. What is
// checked: harness.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/harness.h"

namespace vernier::backend::test {
namespace {

struct TopK {
  int64_t axis = -1, k = 1;
  bool largest = true, sorted = true;
};

OpCase top_k_case(Tensor x, const TopK& top) {
  OpCase c{
      .op = OpKind::kTopK,
      .attrs = encode(TopKAttrs{.axis = top.axis, .largest = top.largest, .sorted = top.sorted})};
  const auto rank = static_cast<int64_t>(x.rank());
  const int64_t axis = top.axis < 0 ? top.axis + rank : top.axis;
  c.name = std::string(name(x.dtype()));
  c.name += str(x.shape()) + " axis " + std::to_string(axis) + " k " + std::to_string(top.k);
  c.name += top.largest ? " largest" : " smallest";
  Shape y = x.shape();
  y[static_cast<size_t>(axis)] = top.k;
  const int batch = axis == 0 ? -1 : 0;
  c.outputs = {{.dtype = x.dtype(), .shape = y, .batch_axis = batch},
               {.dtype = DType::kI64, .shape = y, .batch_axis = batch}};
  c.inputs = {
      {.value = std::move(x), .batch_axis = batch},
      {.value = Tensor::from(DType::kI64, {1}, std::span<const int64_t>(std::vector{top.k}))}};
  c.exact = true;
  return c;
}

TEST(CpuLines, TopKMatchesTheEvaluatorOnEveryAxis) {
  Maker make(51);
  for (bool largest : {true, false}) {
    for (int64_t axis : {-1, 0, 1}) {
      for (int64_t k : {0, 1, 3}) {
        const TopK top{.axis = axis, .k = k, .largest = largest, .sorted = k != 3};
        EXPECT_EQ(check_case(top_k_case(make.normal({3, 17, 5}), top)), 1);
        // Few different values: nearly every choice is among equals.
        EXPECT_EQ(check_case(top_k_case(make.integers(DType::kF32, {3, 33, 4}, -1, 1), top)), 1);
      }
    }
    for (int64_t k : {1, 2, 126, 127}) {
      EXPECT_EQ(check_case(top_k_case(make.normal({5, 127}), {.k = k, .largest = largest})), 1);
    }
    EXPECT_EQ(check_case(top_k_case(make.normal({1}), {.k = 1, .largest = largest})), 1);
    EXPECT_EQ(check_case(top_k_case(make.normal({0, 4}), {.k = 2, .largest = largest})), 1);
    EXPECT_EQ(check_case(top_k_case(make.normal({3, 0}), {.k = 0, .largest = largest})), 1);
  }
}

TEST(CpuLines, TopKMatchesTheEvaluatorInEveryType) {
  Maker make(52);
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = -(kMin + 1);
  for (bool largest : {true, false}) {
    const TopK top{.axis = 1, .k = 7, .largest = largest};
    for (DType type : {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
                       DType::kU32, DType::kU64}) {
      // All bit patterns of the type: values beyond it wrap.
      const Tensor x = make.integers(type, {3, 33, 2}, kMin, kMax);
      EXPECT_EQ(check_case(top_k_case(x, top)), 1);
    }
    for (DType type : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      const double inf = std::numeric_limits<double>::infinity();
      std::vector<double> values{0.0, -0.0, NAN, -1.5, inf,  -NAN, 3.0, -inf, 1e-7, -1e-7,
                                 NAN, 3.0,  0.0, -0.0, -inf, inf,  2.0, -3.0, 0.5};
      const Tensor x = Tensor::from(type, {1, 19, 1}, std::span<const double>(values));
      EXPECT_EQ(check_case(top_k_case(x, top)), 1);
      EXPECT_EQ(check_case(top_k_case(x, {.axis = 1, .k = 19, .largest = largest})), 1);
    }
  }
}

TEST(CpuLines, TopKGivesOneOutputWhereTheOtherIsNotWanted) {
  Maker make(53);
  for (size_t unwanted : {0u, 1u}) {
    OpCase c = top_k_case(make.normal({4, 17}), {.k = 3});
    c.outputs[unwanted] = {.dtype = DType::kUndefined};
    EXPECT_EQ(check_case(c), 1);
  }
  OpCase values_only = top_k_case(make.normal({4, 17}), {.k = 3});
  values_only.outputs.pop_back();
  EXPECT_EQ(check_case(values_only), 1);
}

TEST(CpuLines, TopKOfMoreElementsThanThereAreIsAnErrorThatNamesTheAxis) {
  Maker make(54);
  const OpCase c = top_k_case(make.normal({4, 17}), {.k = 18});
  try {
    run_kernel(*find_kernel(cpu_backend(), "cpu.top_k.heap"), c, {});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                ::testing::HasSubstr("TopK: k = 18 is more than the 17 elements of axis 1"));
  }
}

TEST(CpuLines, TopKRefusesTypesWithoutAnOrderOfTheirOwn) {
  Maker make(55);
  const OpCase c = top_k_case(make.integers(DType::kBool, {4, 17}, 0, 1), {.k = 3});
  const Support support = find_kernel(cpu_backend(), "cpu.top_k.heap")->supports(make_problem(c));
  EXPECT_EQ(support.reason, "no loop for bool");
}

TEST(CpuLines, HardmaxMatchesTheEvaluatorOnEveryAxis) {
  Maker make(56);
  for (int64_t axis : {-1, 0, 1}) {
    // Few different values: most lines have several largest elements.
    for (const Tensor& x : {make.normal({3, 17, 5}), make.integers(DType::kF32, {3, 17, 5}, -1, 1),
                            make.normal({3, 0, 5}), make.normal({3, 1, 1})}) {
      OpCase c{.op = OpKind::kHardmax, .attrs = encode(AxisAttrs{.axis = axis})};
      c.name = "hardmax " + str(x.shape()) + " axis " + std::to_string(axis);
      const int batch = axis == 0 ? -1 : 0;
      c.inputs = {{.value = x, .batch_axis = batch}};
      c.outputs = {{.shape = x.shape(), .batch_axis = batch}};
      c.exact = true;
      EXPECT_EQ(check_case(c), 1);
    }
  }
  OpCase lowest{.op = OpKind::kHardmax, .attrs = encode(AxisAttrs{.axis = 0})};
  lowest.inputs = {
      {.value = Tensor::from(DType::kF32, {3},
                             std::span<const double>(std::vector<double>(3, -INFINITY)))}};
  lowest.outputs = {{.shape = {3}, .batch_axis = -1}};
  lowest.exact = true;
  EXPECT_EQ(check_case(lowest), 1);
}

TEST(CpuLines, HardmaxRefusesOtherTypesAndScalars) {
  Maker make(57);
  OpCase c{.op = OpKind::kHardmax, .attrs = encode(AxisAttrs{.axis = 0})};
  c.inputs = {{.value = Tensor::from(DType::kF64, {2},
                                     std::span<const double>(std::vector<double>(2, 1.0)))}};
  c.outputs = {{.dtype = DType::kF64, .shape = {2}}};
  const KernelDef& kernel = *find_kernel(cpu_backend(), "cpu.hardmax.lines");
  EXPECT_EQ(kernel.supports(make_problem(c)).reason, "input 0 is f64, this kernel takes f32");
  c.inputs = {{.value = make.normal({})}};
  EXPECT_EQ(kernel.supports(make_problem(c)).reason, "input is a scalar");
}

}  // namespace
}  // namespace vernier::backend::test
