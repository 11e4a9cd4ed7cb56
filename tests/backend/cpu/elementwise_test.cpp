// Every elementwise operator and chains of them on the CPU loop. What is checked: harness.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/harness.h"
#include "core/broadcast.h"
#include "core/elementwise_program.h"
#include "core/op_attrs.h"

namespace vernier::backend::test {
namespace {

int inputs_of(OpKind op) {
  switch (op) {
#define OP(kind, min_in, max_in, ...) \
  case OpKind::k##kind:               \
    return max_in < 0 ? 3 : max_in;
#include "ops/ops.def"
#undef OP
  }
  return 0;
}

Tensor make_input(Maker& make, DType type, const Shape& shape) {
  if (type == DType::kF32) return make.normal(shape, 0.3, 1.5);
  if (type == DType::kBool) return make.integers(type, shape, 0, 1);
  return make.integers(type, shape, 1, 9);
}

// The operator on `type`, operand i of shapes[i].
OpCase op_case(Maker& make, OpKind op, DType type, const std::vector<Shape>& shapes) {
  OpCase c{.op = op, .attrs = default_attrs(op)};
  c.name = std::string(name(op));
  c.name += " ";
  c.name += name(type);
  if (op == OpKind::kLeakyRelu || op == OpKind::kElu || op == OpKind::kCelu ||
      op == OpKind::kThresholdedRelu || op == OpKind::kSwish)
    c.attrs = encode(ActivationAttrs{.alpha = 0.7});
  if (op == OpKind::kSelu) c.attrs = encode(ActivationAttrs{.alpha = 1.67, .beta = 1.05});
  if (op == OpKind::kHardSigmoid) c.attrs = encode(ActivationAttrs{.alpha = 0.2, .beta = 0.5});
  Instruction instruction{.op = op, .attrs = c.attrs, .operands = {}};
  std::vector<DType> types;
  Shape out;
  for (int i = 0; i < inputs_of(op); ++i) {
    const DType own = op == OpKind::kWhere && i == 0 ? DType::kBool : type;
    const bool bound = op == OpKind::kClip && i > 0;
    const Shape shape = bound ? Shape{} : shapes[static_cast<size_t>(i) % shapes.size()];
    c.inputs.push_back({.value = make_input(make, own, shape)});
    if (bound && own == DType::kF32) c.inputs.back() = {.value = Tensor::scalar(own, i - 1.5)};
    types.push_back(own);
    out = broadcast_shape(out, shape);
  }
  c.outputs = {{.dtype = result_type(instruction, types), .shape = out, .batch_axis = -1}};
  c.exact = !is_float(c.outputs[0].dtype);
  // A lone sum may cancel to something small; among many elements one is as large as the inputs.
  if (num_elems(out) < 4) c.ulps = 256;
  return c;
}

TEST(CpuElementwise, EveryOperatorMatchesTheEvaluatorOnEveryTypeItTakes) {
  Maker make(21);
  const std::vector<std::vector<Shape>> shapes{
      {{}}, {{1}}, {{3, 17}}, {{2, 3, 33}, {3, 1}, {33}}, {{4, 1, 5}, {6, 1}, {4, 6, 5}}, {{2500}}};
  int loops = 0;
  for (size_t i = 0; i < num_op_kinds(); ++i) {
    const auto op = static_cast<OpKind>(i);
    if ((flags(op) & kElementwise) == 0 || op == OpKind::kFusedElementwise) continue;
    int rows = 0;
    for (DType type : {DType::kF32, DType::kI32, DType::kI64, DType::kBool}) {
      for (const std::vector<Shape>& s : shapes) {
        const OpCase c = op_case(make, op, type, s);
        if (rows_of(c).empty()) break;
        rows += check_case(c);
      }
    }
    loops += rows;
    EXPECT_TRUE(rows > 0 || op == OpKind::kBitShift) << name(op) << " has no loop on any type";
  }
  EXPECT_GT(loops, 400);
}

TEST(CpuElementwise, CastsMatchTheEvaluatorBetweenAllTypes) {
  const std::vector<DType> types{DType::kF32, DType::kI32, DType::kI64,
                                 DType::kI8,  DType::kU8,  DType::kBool};
  const std::vector<double> values{0,    1,   -1,   2.5,  -2.5,  127, 128,  255,   256,      -128,
                                   -129, 3e9, -3e9, 1e19, -1e19, 0.1, 1e30, -1e30, 16777217, 300};
  for (DType from : types) {
    for (DType to : types) {
      const auto count = static_cast<int64_t>(values.size());
      OpCase c{.op = OpKind::kCast, .attrs = encode(CastAttrs{.to = to})};
      c.name = "cast ";
      c.name += name(from);
      c.name += name(to);
      const std::span<const double> finite(values);
      std::vector<int64_t> integers;
      for (double v : values) integers.push_back(std::abs(v) < 1e15 ? std::llround(v) : 77);
      c.inputs = {{.value = from == DType::kF32
                                ? Tensor::from(from, {count}, finite)
                                : Tensor::from(from, {count}, std::span<const int64_t>(integers))}};
      c.outputs = {{.dtype = to, .shape = {count}, .batch_axis = -1}};
      c.exact = true;
      EXPECT_EQ(check_case(c), 1) << c.name;
    }
  }
}

TEST(CpuElementwise, ChainsMatchTheEvaluator) {
  Maker make(22);
  struct Chain {
    const char* program;
    std::vector<Shape> inputs;
    DType out = DType::kF32;
  };
  for (const Chain& chain : std::vector<Chain>{
           {"Mul(%0,%1);Add(%3,%2);Tanh(%4)", {{5, 700}, {700}, {}}},
           {"Sub(%0,%1);Mul(%2,%2);Gelu{kind=1}(%3);Add(%3,%4)", {{3, 4, 33}, {4, 1}}},
           {"Greater(%0,%1);Cast{to=f32}(%2);Mul(%3,%0)", {{2, 1500}, {1500}}},
           {"Less(%0,%1);Not(%2);Where(%3,%0,%1);Exp(%4);Sigmoid(%5)", {{17, 3}, {17, 1}}},
           {"Cast{to=i64}(%0);Equal(%2,%2);Not(%3)", {{100}, {1}}, DType::kBool}}) {
    OpCase c{.op = OpKind::kFusedElementwise,
             .attrs = encode(FusedElementwiseAttrs{.program = chain.program})};
    c.name = chain.program;
    Shape out;
    for (const Shape& shape : chain.inputs) {
      c.inputs.push_back({.value = make.normal(shape)});
      out = broadcast_shape(out, shape);
    }
    c.outputs = {{.dtype = chain.out, .shape = out, .batch_axis = -1}};
    EXPECT_EQ(check_case(c), 1) << chain.program;
  }
}

TEST(CpuElementwise, IntegerDivisionByZeroIsAnErrorThatNamesTheOperator) {
  Maker make(23);
  OpCase c = op_case(make, OpKind::kDiv, DType::kI64, {{20}});
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
  const OpCase c = op_case(make, OpKind::kExp, DType::kI32, {{3}});
  const KernelDef* kernel = find_kernel(cpu_backend(), "cpu.exp.loop");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->supports(make_problem(c)).reason, "no loop for Exp on i32");
}

}  // namespace
}  // namespace vernier::backend::test
