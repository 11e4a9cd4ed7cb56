// What the loops for floats refuse, and an id outside its table, on the CPU. The cases:
// tests/backend/cases/{products,channels,norms}.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

TEST(CpuProducts, LoopsForFloatsRefuseIntegers) {
  Maker make(50);
  const auto refused = [&](OpKind op, const AttrBytes& attrs, std::vector<Shape> in, Shape y) {
    OpCase c{.op = op, .attrs = attrs};
    for (Shape& shape : in) c.inputs.push_back({.value = make.integers(DType::kI64, shape, 0, 9)});
    c.outputs = {{.dtype = DType::kI64, .shape = std::move(y)}};
    EXPECT_TRUE(rows_of(c).empty()) << name(op);
    for (const KernelDef& kernel : cpu_backend().kernels) {
      if (kernel.op != op || kernel.name.ends_with(".evaluator")) continue;
      EXPECT_THAT(kernel.supports(make_problem(c)).reason,
                  ::testing::StartsWith("output 0 is i64, this kernel returns f32"));
    }
  };
  refused(OpKind::kMatMul, {}, {{3, 4}, {4, 5}}, {3, 5});
  refused(OpKind::kMaxPool, encode(PoolAttrs{.kernel_shape = {2}}), {{1, 2, 4}}, {1, 2, 3});
  refused(OpKind::kSoftmax, encode(AxisAttrs{.axis = 0}), {{3, 4}}, {3, 4});
}

TEST(CpuEmbeddings, AnIdOutsideItsTableIsAnErrorThatNamesTheTable) {
  Maker make(46);
  OpCase c{.op = OpKind::kEmbedNorm, .attrs = encode(EmbedNormAttrs{.tables = 1})};
  c.inputs = {{.value = make.integers(DType::kI64, {1, 4}, 50, 50)},
              {.value = make.normal({50, 8})},
              {.value = make.normal({8})}};
  c.outputs = {{.shape = {1, 4, 8}}};
  for (const KernelDef* kernel : rows_of(c)) {
    try {
      run_kernel(*kernel, c, {});
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("embedding table 0: index 50 at position 0 is "
                                                 "outside its table of 50 entries; allowed are "
                                                 "-50 to 49"));
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
