// Cases of every elementwise operator, of casts between all types, and of chains.
#include <cmath>

#include "backend/harness.h"
#include "core/broadcast.h"
#include "core/elementwise_program.h"
#include "core/op_attrs.h"

namespace vernier::backend::test {
namespace {

int inputs_of(OpKind op) {
  const int most = arity(op).max_in;
  return most < 0 ? 3 : most;
}

Tensor make_input(Maker& make, DType type, const Shape& shape) {
  if (type == DType::kF32) return make.normal(shape, 0.3, 1.5);
  if (type == DType::kBool) {  // every byte but 0 is true
    return Tensor::from_bytes(type, shape, make.integers(DType::kU8, shape, -3, 3).byte_span());
  }
  return make.integers(type, shape, 1, 9);
}

AttrBytes attrs_of(OpKind op) {
  switch (op) {
    case OpKind::kLeakyRelu:
    case OpKind::kElu:
    case OpKind::kCelu:
    case OpKind::kThresholdedRelu:
    case OpKind::kSwish:
      return encode(ActivationAttrs{.alpha = 0.7});
    case OpKind::kSelu:
      return encode(ActivationAttrs{.alpha = 1.67, .beta = 1.05});
    case OpKind::kHardSigmoid:
      return encode(ActivationAttrs{.alpha = 0.2, .beta = 0.5});
    default:
      return default_attrs(op);
  }
}

// The operator on `type`, operand i of shapes[i].
OpCase op_case(Maker& make, OpKind op, DType type, const std::vector<Shape>& shapes) {
  OpCase c{.op = op, .attrs = attrs_of(op)};
  c.name = std::string(name(op));
  c.name += " ";
  c.name += name(type);
  Instruction instruction{.op = op, .attrs = c.attrs, .operands = {}};
  std::vector<DType> types;
  Shape out;
  for (int i = 0; i < inputs_of(op); ++i) {
    const DType own = op == OpKind::kWhere && i == 0 ? DType::kBool : type;
    const bool bound = op == OpKind::kClip && i > 0;
    const Shape shape = bound ? Shape{} : shapes[static_cast<size_t>(i) % shapes.size()];
    c.name += str(shape);
    c.inputs.push_back({.value = make_input(make, own, shape)});
    if (bound && own == DType::kF32) c.inputs.back() = {.value = Tensor::scalar(own, i - 1.5)};
    types.push_back(own);
    out = broadcast_shape(out, shape);
  }
  c.outputs = {{.dtype = result_type(instruction, types), .shape = out, .batch_axis = -1}};
  c.exact = !is_float(c.outputs[0].dtype);
  c.optional = true;  // few operators take every type
  // A lone sum may cancel to something small; among many elements one is as large as the inputs.
  if (num_elems(out) < 4) c.ulps = 256;
  return c;
}

// Is the operator defined for that type? Inference checks it before any kernel is asked.
bool has_meaning(OpKind op, DType type) {
  const std::string_view of = name(op);
  const bool logical =
      op == OpKind::kNot || op == OpKind::kAnd || op == OpKind::kOr || op == OpKind::kXor;
  const bool bits = of.starts_with("Bit");
  if (type == DType::kF32) return !logical && !bits;
  if (type != DType::kBool) return true;
  return logical || op == OpKind::kEqual || op == OpKind::kWhere || op == OpKind::kIdentity ||
         op == OpKind::kCast;
}

enum class Operands : uint8_t { kOne, kSeveral };
std::vector<OpCase> cases_of(Operands operands, uint64_t seed) {
  Maker make(seed);
  const std::vector<std::vector<Shape>> shapes{
      {{}}, {{1}}, {{3, 17}}, {{2, 3, 33}, {3, 1}, {33}}, {{4, 1, 5}, {6, 1}, {4, 6, 5}}, {{2500}}};
  std::vector<OpCase> cases;
  for (size_t i = 0; i < num_op_kinds(); ++i) {
    const auto op = static_cast<OpKind>(i);
    if ((flags(op) & kElementwise) == 0 || op == OpKind::kFusedElementwise) continue;
    if ((inputs_of(op) == 1) != (operands == Operands::kOne)) continue;
    for (DType type : {DType::kF32, DType::kI32, DType::kI64, DType::kBool}) {
      if (!has_meaning(op, type)) continue;
      for (const std::vector<Shape>& s : shapes) cases.push_back(op_case(make, op, type, s));
    }
  }
  return cases;
}
const Cases kOneOperand("ElementwiseOneOperand", [] { return cases_of(Operands::kOne, 21); });
const Cases kSeveral("ElementwiseSeveralOperands",
                     [] { return cases_of(Operands::kSeveral, 121); });

// Every operand has size 1 or the full size on each of three axes.
const Cases kBroadcasts("ElementwiseBroadcasts", [] {
  Maker make(122);
  const Shape full{3, 5, 7};
  const auto part = [&](unsigned axes) {
    Shape shape = full;
    for (size_t i = 0; i < 3; ++i) {
      if ((axes >> i & 1u) == 0) shape[i] = 1;
    }
    return shape;
  };
  std::vector<OpCase> cases;
  for (unsigned a = 0; a < 8; ++a) {
    for (unsigned b = 0; b < 8; ++b) {
      cases.push_back(op_case(make, OpKind::kSub, DType::kF32, {part(a), part(b)}));
      cases.push_back(op_case(make, OpKind::kWhere, DType::kF32, {part(a), part(b), part(a ^ b)}));
    }
  }
  for (const std::vector<Shape>& shapes :
       std::vector<std::vector<Shape>>{{{2, 1, 3, 1, 5}, {4, 1, 6, 1}},
                                       {{7}, {2, 3, 4, 5, 7}},
                                       {{2, 3, 4, 5, 1}, {5, 7}},
                                       {{1, 2, 1, 2, 1, 2, 1, 2}, {2, 1, 2, 1, 2, 1, 2, 1}},
                                       {{0, 3}, {1, 3}},
                                       {{5, 0}, {1}}})
    cases.push_back(op_case(make, OpKind::kAdd, DType::kF32, shapes));
  for (OpCase& c : cases) c.checks = Checks::kValues;
  return cases;
});

const Cases kLarge("ElementwiseLarge", [] {
  Maker make(123);
  std::vector<OpCase> cases{
      op_case(make, OpKind::kAdd, DType::kF32, {{65, 33, 384}, {384}}),
      op_case(make, OpKind::kMul, DType::kF32, {{9, 1, 1025}, {9, 129, 1}}),
      op_case(make, OpKind::kGelu, DType::kF32, {{129, 3071}}),
      op_case(make, OpKind::kTanh, DType::kF32, {{1 << 19}}),
      op_case(make, OpKind::kWhere, DType::kF32, {{4, 1, 1, 257}, {4, 3, 65, 257}, {}}),
      op_case(make, OpKind::kWhere, DType::kF32, {{4, 1, 1, 256}, {4, 3, 65, 256}, {}}),
      op_case(make, OpKind::kErf, DType::kF32, {{3, 4099}}),
      op_case(make, OpKind::kSub, DType::kF32, {{17, 1023}, {1023}}),
      op_case(make, OpKind::kSub, DType::kF32, {{1023}, {17, 1023}}),
      op_case(make, OpKind::kDiv, DType::kF32, {{19, 1024}, {19, 1}}),
      op_case(make, OpKind::kMul, DType::kF32, {{3, 1, 24, 64}, {3, 5, 24, 64}}),
      op_case(make, OpKind::kAdd, DType::kF32, {{5, 1000, 9}, {5, 1, 9}}),
      op_case(make, OpKind::kAdd, DType::kF32, {{5000, 3}, {3}}),
      op_case(make, OpKind::kEqual, DType::kI64, {{300'001}, {1}})};
  for (OpCase& c : cases) {
    c.device_only = true;
    c.checks = Checks::kValues;
  }
  return cases;
});

const Cases kCasts("Casts", [] {
  const std::vector<DType> types{DType::kF32, DType::kI32, DType::kI64,
                                 DType::kI8,  DType::kU8,  DType::kBool};
  const std::vector<double> values{0,    1,   -1,   2.5,  -2.5,  127, 128,  255,   256,      -128,
                                   -129, 3e9, -3e9, 1e19, -1e19, 0.1, 1e30, -1e30, 16777217, 300};
  std::vector<OpCase> cases;
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
      cases.push_back(c);
    }
  }
  return cases;
});

const Cases kFloatCasts("CastsBetweenFloats", [] {
  Maker make(124);
  std::vector<OpCase> cases;
  for (DType from : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType to : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (double size : {1.0, 1e-6, 3e4, 1e38}) {
        OpCase c{.op = OpKind::kCast, .attrs = encode(CastAttrs{.to = to})};
        c.name = "cast ";
        c.name += name(from);
        c.name += name(to);
        c.inputs = {{.value = make.normal({1001}, 0, size)}};
        const EvalTensor wide = EvalTensor::from(c.inputs[0].value);
        c.inputs[0].value = Tensor::from(from, {1001}, std::span<const double>(wide.f));
        c.outputs = {{.dtype = to, .shape = {1001}, .batch_axis = -1}};
        c.exact = true;
        cases.push_back(c);
      }
    }
  }
  return cases;
});

const Cases kChains("ElementwiseChains", [] {
  Maker make(22);
  struct Chain {
    const char* program;
    std::vector<Shape> inputs;
    DType out = DType::kF32;
  };
  std::vector<OpCase> cases;
  const char* const three = "Mul(%0,%1);Add(%3,%2);Relu(%4)";
  // clang-format off
  for (const Chain& chain : std::vector<Chain>{
           {.program = three, .inputs = {{9, 2048}, {9, 2048}, {}}},
           {.program = three, .inputs = {{9, 2048}, {2048}, {9, 1}}},
           {.program = three, .inputs = {{9, 2047}, {2047}, {9, 1}}},
           {.program = three, .inputs = {{5, 3, 1024}, {5, 1, 1024}, {3, 1}}},
           {.program =
            "Add(%0,%1);Add(%12,%2);Add(%13,%3);Add(%14,%4);Add(%15,%5);Add(%16,%6);Add(%17,%7);"
            "Add(%18,%8);Add(%19,%9);Add(%20,%10);Add(%21,%11);Exp(%0);Mul(%22,%23);Sub(%24,%12)",
            .inputs = std::vector<Shape>(12, Shape{7, 1500})},
           {.program = "Less(%0,%1);Where(%2,%0,%1);Erf(%3);Where(%2,%4,%0);Sub(%5,%3)",
            .inputs = {{5, 1700}, {1700}}},
           {.program = "Mul(%0,%1);Add(%3,%2);Tanh(%4)", .inputs = {{5, 700}, {700}, {}}},
           {.program = "Sub(%0,%1);Mul(%2,%2);Gelu{kind=1}(%3);Add(%3,%4)",
            .inputs = {{3, 4, 33}, {4, 1}}},
           {.program = "Greater(%0,%1);Cast{to=f32}(%2);Mul(%3,%0)", .inputs = {{2, 1500}, {1500}}},
           {.program = "Less(%0,%1);Not(%2);Where(%3,%0,%1);Exp(%4);Sigmoid(%5)",
            .inputs = {{17, 3}, {17, 1}}},
           {.program = "Cast{to=i64}(%0);Equal(%1,%1);Not(%2)", .inputs = {{100}},
            .out = DType::kBool}}) {
    // clang-format on
    OpCase c{.op = OpKind::kFusedElementwise,
             .attrs = encode(FusedElementwiseAttrs{.program = chain.program})};
    c.name = chain.program;
    Shape out;
    for (const Shape& shape : chain.inputs) {
      c.inputs.push_back({.value = make.normal(shape)});
      out = broadcast_shape(out, shape);
    }
    c.outputs = {{.dtype = chain.out, .shape = out, .batch_axis = -1}};
    cases.push_back(c);
  }
  return cases;
});

// What models make of ids and masks before their first layer.
const Cases kIntegerChains("ElementwiseIntegerChains", [] {
  Maker make(23);
  struct Chain {
    const char* program;
    std::vector<DType> inputs;
    DType out;
    bool numbers = false;  // the inputs after the first are one element each
  };
  std::vector<OpCase> cases;
  // clang-format off
  for (const Chain& chain : std::vector<Chain>{
           {.program = "Equal(%0,%1);Not(%2);Cast{to=i32}(%3)",
            .inputs = {DType::kI64, DType::kI64}, .out = DType::kI32, .numbers = true},
           {.program = "Mul(%0,%1);Cast{to=i64}(%3);Add(%4,%2)",
            .inputs = {DType::kI32, DType::kI32, DType::kI64}, .out = DType::kI64},
           {.program = "Sub(%0,%1);Less(%2,%1);Or(%3,%3)",
            .inputs = {DType::kI64, DType::kI64}, .out = DType::kBool},
           {.program = "Mul(%0,%0);Cast{to=u8}(%2);Cast{to=i64}(%3);GreaterOrEqual(%4,%1)",
            .inputs = {DType::kI32, DType::kI64}, .out = DType::kBool, .numbers = true},
           {.program = "Add(%0,%1);Cast{to=f32}(%2)",
            .inputs = {DType::kI64, DType::kI64}, .out = DType::kF32},
           {.program = "Cast{to=bool}(%0);And(%2,%1);Cast{to=i64}(%3)",
            .inputs = {DType::kI64, DType::kBool}, .out = DType::kI64},
           {.program = "Greater(%0,%1);LessOrEqual(%0,%1);Or(%2,%3)",
            .inputs = {DType::kI64, DType::kI64}, .out = DType::kBool},
           {.program = "Add(%0,%0);Sub(%0,%2);Mul(%3,%1);Max(%4,%0)",
            .inputs = {DType::kI32, DType::kI32}, .out = DType::kI32}}) {
    // clang-format on
    for (const Shape& shape : {Shape{1}, Shape{3, 129}, Shape{70'000}}) {
      OpCase c{.op = OpKind::kFusedElementwise,
               .attrs = encode(FusedElementwiseAttrs{.program = chain.program})};
      c.name = chain.program + str(shape);
      for (DType type : chain.inputs) {
        const bool is_number = chain.numbers && !c.inputs.empty();
        c.inputs.push_back({.value = make.integers(type, is_number ? Shape{1} : shape, 0,
                                                   type == DType::kBool ? 1 : 300)});
      }
      c.outputs = {{.dtype = chain.out, .shape = shape, .batch_axis = -1}};
      c.exact = true;
      cases.push_back(c);
    }
  }
  return cases;
});

}  // namespace
}  // namespace vernier::backend::test
