// What TopK and Hardmax of the CPU refuse. Their cases: tests/backend/cases/reductions.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

OpCase top_k_case(Tensor x, int64_t k) {
  OpCase c{.op = OpKind::kTopK, .attrs = encode(TopKAttrs{})};
  Shape y = x.shape();
  y.back() = k;
  c.outputs = {{.dtype = x.dtype(), .shape = y}, {.dtype = DType::kI64, .shape = y}};
  c.inputs = {{.value = std::move(x)}, {.value = Tensor::i64({k})}};
  return c;
}

TEST(CpuLines, TopKOfMoreElementsThanThereAreIsAnErrorThatNamesTheAxis) {
  Maker make(54);
  const OpCase c = top_k_case(make.normal({4, 17}), 18);
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
  const OpCase c = top_k_case(make.integers(DType::kBool, {4, 17}, 0, 1), 3);
  const Support support = find_kernel(cpu_backend(), "cpu.top_k.heap")->supports(make_problem(c));
  EXPECT_EQ(support.reason, "no loop for bool");
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
