// Indices outside their table on the CPU. The cases: tests/backend/cases/movement.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

Tensor i64(Shape shape, std::vector<int64_t> values) {
  return Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values));
}
AttrBytes axis(int64_t value) { return encode(AxisAttrs{.axis = value}); }

TEST(CpuMovement, AnIndexOutsideItsTableIsAnErrorThatSaysWhere) {
  Maker make(34);
  struct Bad {
    OpKind op;
    AttrBytes attrs;
    const char* message;
  };
  for (const Bad& bad : std::vector<Bad>{
           {OpKind::kGather, axis(0), "Gather: index 9 at position 1 is outside its table of 9"},
           {OpKind::kGatherElements, axis(0), "GatherElements: index 9 at position 1"},
           {OpKind::kGatherND, encode(GatherNDAttrs{}), "GatherND: index 9 of tuple 1"}}) {
    OpCase c{.op = bad.op, .attrs = bad.attrs};
    c.inputs = {{.value = make.normal({9})}, {.value = i64({2, 1}, {0, 9})}};
    if (bad.op != OpKind::kGatherND) c.inputs[1].value = i64({2}, {0, 9});
    c.outputs = {{.shape = {2}}};
    for (const KernelDef* kernel : rows_of(c)) {
      try {
        run_kernel(*kernel, c, {});
        FAIL() << "no error from " << kernel->name;
      } catch (const Error& e) {
        EXPECT_THAT(e.what(), ::testing::HasSubstr(bad.message));
      }
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
