// The CPU's elementwise loop: that each operator has one, its errors and refusals. The cases:
// tests/backend/cases/elementwise.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "backend/harness.h"
#include "core/op_attrs.h"

namespace vernier::backend::test {
namespace {

// All operands of one shape.
OpCase op_case(Maker& make, OpKind op, DType type, const Shape& shape) {
  OpCase c{.name = std::string(name(op)), .op = op, .attrs = default_attrs(op)};
  const int inputs = arity(op).max_in < 0 ? 3 : arity(op).max_in;
  for (int i = 0; i < inputs; ++i) {
    const DType own = op == OpKind::kWhere && i == 0 ? DType::kBool : type;
    const Shape own_shape = op == OpKind::kClip && i > 0 ? Shape{} : shape;
    c.inputs.push_back({.value = own == DType::kF32 ? make.normal(own_shape)
                                                    : make.integers(own, own_shape, 0, 1)});
  }
  const bool test = (flags(op) & kBoolResult) != 0;
  c.outputs = {{.dtype = test ? DType::kBool : type, .shape = shape}};
  return c;
}

TEST(CpuElementwise, EveryOperatorHasALoop) {
  Maker make(21);
  for (size_t i = 0; i < num_op_kinds(); ++i) {
    const auto op = static_cast<OpKind>(i);
    if ((flags(op) & kElementwise) == 0 || op == OpKind::kFusedElementwise) continue;
    size_t rows = 0;
    for (DType type : {DType::kF32, DType::kI32, DType::kI64, DType::kBool})
      rows += rows_of(op_case(make, op, type, {3, 5})).size();
    EXPECT_TRUE(rows > 0 || op == OpKind::kBitShift) << name(op) << " has no loop on any type";
  }
}

TEST(CpuElementwise, IntegerDivisionByZeroIsAnErrorThatNamesTheOperator) {
  Maker make(23);
  OpCase c = op_case(make, OpKind::kDiv, DType::kI64, {20});
  const std::vector<int64_t> zeros(20, 0);
  c.inputs[1].value = Tensor::from(DType::kI64, {20}, std::span<const int64_t>(zeros));
  for (const KernelDef* kernel : rows_of(c)) {
    try {
      run_kernel(*kernel, c, {.threads = 2});
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("Div: integer division by zero"));
    }
  }
}

TEST(CpuElementwise, SaysWhichTypeHasNoLoop) {
  Maker make(24);
  const OpCase c = op_case(make, OpKind::kExp, DType::kI32, {3});
  const KernelDef* kernel = find_kernel(cpu_backend(), "cpu.exp.loop");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->supports(make_problem(c)).reason, "no loop for Exp on i32");
}

// The loop lists the operands of one instruction on its stack, however few inputs they come from.
TEST(CpuElementwise, AnInstructionHasSixtyFourOperandsAtMost) {
  Maker make(25);
  const KernelDef* kernel = find_kernel(cpu_backend(), "cpu.fused_elementwise.loop");
  ASSERT_NE(kernel, nullptr);
  const auto case_of = [&](OpKind op, int operands) {
    std::string program = std::string(name(op)) + "(%0";
    for (int i = 1; i < operands; ++i) program += ",%0";
    return OpCase{.name = program,
                  .op = OpKind::kFusedElementwise,
                  .attrs = encode(FusedElementwiseAttrs{program + ");Abs(%1)"}),
                  .inputs = {{.value = make.normal({5})}},
                  .outputs = {{.shape = {5}}},
                  .ulps = 128};
  };
  for (OpKind op : {OpKind::kSum, OpKind::kMin, OpKind::kMax, OpKind::kMean}) {
    const OpCase most = case_of(op, 64), more = case_of(op, 65);
    ASSERT_TRUE(kernel->supports(make_problem(most)));
    EXPECT_EQ(compare(most, run_kernel(*kernel, most, {}), run_reference(most)), "");
    EXPECT_EQ(kernel->supports(make_problem(more)).reason,
              std::string(name(op)) + " has 65 operands, at most 64 are supported");
    const KernelDef* last = find_kernel(cpu_backend(), "cpu.fused_elementwise.evaluator");
    ASSERT_NE(last, nullptr);
    EXPECT_EQ(compare(more, run_kernel(*last, more, {}), run_reference(more)), "");
  }
}

}  // namespace
}  // namespace vernier::backend::test
