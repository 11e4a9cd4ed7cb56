// That the CPU's QuantizeLinear and DequantizeLinear have the evaluator's bits, and what they
// refuse. Their cases: tests/backend/cases/quantize.cpp.
#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

const KernelDef& kernel(const char* name) { return *find_kernel(cpu_backend(), name); }

TEST(CpuQuantize, HasTheBitsOfTheEvaluator) {
  Maker make(83);
  for (const DType type : {DType::kI8, DType::kU8, DType::kI16, DType::kU16}) {
    const Shape shape{33, 127};
    OpCase down{.op = OpKind::kQuantizeLinear,
                .attrs = encode(QuantizeAttrs{.axis = 1, .dtype = type}),
                .exact = true};
    down.inputs = {{.value = make.normal(shape, 0, 50)},
                   {.value = make.normal({127})},
                   {.value = make.integers(type, {127}, 0, 100)}};
    down.outputs = {{.dtype = type, .shape = shape}};
    EXPECT_EQ(compare(down, run_kernel(kernel("cpu.quantize_linear.runs"), down, {}),
                      run_reference(down)),
              "");
    OpCase up{
        .op = OpKind::kDequantizeLinear, .attrs = encode(QuantizeAttrs{.axis = 1}), .exact = true};
    up.inputs = down.inputs;
    up.inputs[0].value = make.integers(type, shape, 0, 127);
    up.outputs = {{.shape = shape}};
    EXPECT_EQ(
        compare(up, run_kernel(kernel("cpu.dequantize_linear.runs"), up, {}), run_reference(up)),
        "");
  }
}

// Types that only evaluators take: whatever a row says, they are no kernel's but one that moves.
TEST(CpuQuantize, LeavesSmallTypesToTheEvaluator) {
  Maker make(85);
  OpCase c{.op = OpKind::kQuantizeLinear, .attrs = encode(QuantizeAttrs{.dtype = DType::kI4})};
  c.inputs = {{.value = make.normal({3})}, {.value = make.normal({})}};
  c.outputs = {{.dtype = DType::kI4, .shape = {3}}};
  EXPECT_EQ(supports(kernel("cpu.quantize_linear.runs"), make_problem(c)).reason,
            "does not compute with i4");
  EXPECT_TRUE(supports(kernel("cpu.quantize_linear.evaluator"), make_problem(c)));
  OpCase turn{.op = OpKind::kTranspose, .attrs = encode(TransposeAttrs{.perm = {1, 0}})};
  turn.inputs = {{.value = make.integers(DType::kU2, {2, 3}, 0, 3)}};
  turn.outputs = {{.dtype = DType::kU2, .shape = {3, 2}}};
  EXPECT_TRUE(supports(kernel("cpu.transpose.copy"), make_problem(turn)));
}

TEST(CpuQuantize, RefusesTypesWithoutALoop) {
  Maker make(84);
  OpCase c{.op = OpKind::kQuantizeLinear, .attrs = encode(QuantizeAttrs{.dtype = DType::kF8E4M3})};
  c.inputs = {{.value = make.normal({3})}, {.value = make.normal({})}};
  c.outputs = {{.dtype = DType::kF8E4M3, .shape = {3}}};
  EXPECT_EQ(kernel("cpu.quantize_linear.runs").supports(make_problem(c)).reason,
            "output 0 is f8e4m3, this kernel gives integers");
  c.outputs[0].dtype = DType::kI8;
  const std::vector<double> one{1.0};
  c.inputs[1].value = Tensor::from(DType::kF64, {}, std::span<const double>(one));
  EXPECT_EQ(kernel("cpu.quantize_linear.runs").supports(make_problem(c)).reason,
            "input 1 is f64, this kernel takes f32");
}

}  // namespace
}  // namespace vernier::backend::test
