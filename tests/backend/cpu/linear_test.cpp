// Packing of the CPU's Linear rows, and what they refuse. Their cases:
// tests/backend/cases/linear.cpp; the bits of their rows: cases/row_bits_test.cpp.
#include "backend/cases/linear.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"

namespace vernier::backend::test {
namespace {

TEST(CpuLinear, PackedWeightsUnpackToTheArrayTheyCameFrom) {
  Maker make(14);
  for (bool trans : {false, true}) {
    const OpCase c = linear_case(make, {2, 33, 130}, {.trans_w = trans});
    const Problem problem = make_problem(c);
    for (const KernelDef* kernel : rows_of(c)) {
      if (kernel->pack == nullptr) continue;
      const auto packed = kernel->pack(problem);
      ASSERT_EQ(packed.size(), 1u);
      const auto expected = kernel->packed_layouts(problem);
      ASSERT_EQ(expected.size(), 1u);
      EXPECT_EQ(expected[0].input, 1);
      EXPECT_EQ(expected[0].layout, packed[0].layout);
      EXPECT_EQ(expected[0].bytes, packed[0].bytes.size());
      const Tensor plain =
          kernel->unpack(problem, {packed[0].input, packed[0].layout, packed[0].bytes});
      EXPECT_EQ(compare_bits(plain, c.inputs[1].value), "");
    }
  }
}

TEST(CpuLinear, SaysWhyAKernelDoesNotFit) {
  Maker make(15);
  OpCase c = linear_case(make, {2, 64, 64}, {});
  c.inputs[1].constant = false;
  for (const KernelDef& kernel : cpu_backend().kernels) {
    if (kernel.op != OpKind::kLinear || kernel.pack == nullptr) continue;
    EXPECT_EQ(kernel.supports(make_problem(c)).reason, "the weight is not a constant");
  }
}

}  // namespace
}  // namespace vernier::backend::test
