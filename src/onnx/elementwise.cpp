// Translations of the elementwise ONNX operators. Contract: node_context.h, translations.h.
#include <array>

#include "core/attrs.h"
#include "onnx/element_types.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// ---- two inputs -----------------------------------------------------------------------------

// Before opset 7 broadcasting is requested by an attribute: the second input's dimensions are
// aligned at `axis` of the first (default: at its end).
ir::ValueId align_legacy(NodeContext& node, ir::ValueId a, ir::ValueId b) {
  const bool broadcast = node.attrs().flag("broadcast", 0);
  const int64_t rank_a = node.rank(a), rank_b = node.rank(b);
  const int64_t axis = node.attrs().integer("axis", rank_a - rank_b);
  if (!broadcast) return b;
  const int64_t start = axis < 0 ? axis + rank_a : axis;
  const int64_t trailing = rank_a - rank_b - start;
  if (start < 0 || trailing < 0)
    node.fail("attribute 'axis' is out of range for the inputs' ranks");
  SymShape shape = node.shape(b);
  shape.insert(shape.end(), static_cast<size_t>(trailing), Dim(1));
  return trailing == 0 ? b : node.reshape(b, std::move(shape));
}

template <OpKind kOp>
void translate_binary(NodeContext& node) {
  const ir::ValueId a = node.input(0);
  ir::ValueId b = node.input(1);
  if (node.opset() < 7) b = align_legacy(node, a, b);
  node.set_output(0, node.emit(kOp, {a, b}));
}

// The slope has one value per channel before opset 7, broadcasts to the input afterwards.
void translate_prelu(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  ir::ValueId slope = node.input(1);
  if (node.opset() < 7 && node.rank(slope) == 1 && node.rank(x) > 2) {
    SymShape shape = node.shape(slope);
    shape.insert(shape.end(), static_cast<size_t>(node.rank(x) - 2), Dim(1));
    slope = node.reshape(slope, std::move(shape));
  }
  node.set_output(0, node.emit(OpKind::kPRelu, {x, slope}));
}

void translate_mod(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kMod, node.all_inputs(),
                               ModAttrs{.fmod = node.attrs().flag("fmod", 0)}));
}

void translate_bit_shift(NodeContext& node) {
  const std::string direction = node.attrs().text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    node.fail("attribute 'direction' is '" + direction + "'; expected LEFT or RIGHT");
  }
  node.set_output(0, node.emit(OpKind::kBitShift, node.all_inputs(),
                               BitShiftAttrs{.left = direction == "LEFT"}));
}

// ---- activations ----------------------------------------------------------------------------

template <OpKind kOp>
void activation(NodeContext& node, double alpha, double beta = 0) {
  node.set_output(0, node.emit(kOp, node.all_inputs(), ActivationAttrs{alpha, beta}));
}
void translate_leaky_relu(NodeContext& node) {
  activation<OpKind::kLeakyRelu>(node, node.attrs().number("alpha", 0.01F));
}
void translate_elu(NodeContext& node) {
  activation<OpKind::kElu>(node, node.attrs().number("alpha", 1.0F));
}
void translate_celu(NodeContext& node) {
  activation<OpKind::kCelu>(node, node.attrs().number("alpha", 1.0F));
}
void translate_thresholded_relu(NodeContext& node) {
  activation<OpKind::kThresholdedRelu>(node, node.attrs().number("alpha", 1.0F));
}
void translate_selu(NodeContext& node) {
  const bool four_digits = node.opset() < 6;
  activation<OpKind::kSelu>(
      node, node.attrs().number("alpha", four_digits ? 1.6732F : 1.67326319217681884765625F),
      node.attrs().number("gamma", four_digits ? 1.0507F : 1.05070102214813232421875F));
}
void translate_hard_sigmoid(NodeContext& node) {
  activation<OpKind::kHardSigmoid>(node, node.attrs().number("alpha", 0.2F),
                                   node.attrs().number("beta", 0.5F));
}
void translate_swish(NodeContext& node) {
  activation<OpKind::kSwish>(node, node.attrs().number("alpha", 1.0F));
}

// swiglu(a, b) = swish(a)·b.
void translate_swiglu(NodeContext& node) {
  const ir::ValueId gate = node.emit(OpKind::kSwish, {node.input(0)},
                                     ActivationAttrs{.alpha = node.attrs().number("alpha", 1.0F)});
  node.set_output(0, node.emit(OpKind::kMul, {gate, node.input(1)}));
}

void translate_gelu(NodeContext& node) {
  const std::string approximate = node.attrs().text("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    node.fail("attribute 'approximate' is '" + approximate + "'; expected none or tanh");
  }
  const GeluKind kind = approximate == "tanh" ? GeluKind::kTanh : GeluKind::kErf;
  node.set_output(0, node.emit(OpKind::kGelu, node.all_inputs(), GeluAttrs{kind}));
}

// shrink(x) = x + bias where x < -lambd, x - bias where x > lambd, else 0.
void translate_shrink(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  const DType dtype = node.dtype(x);
  const double bias = node.attrs().number("bias", 0.0F);
  const double limit = node.attrs().number("lambd", 0.5F);
  const auto scalar = [&](double value) { return node.constant(Tensor::scalar(dtype, value)); };
  const ir::ValueId below = node.emit(OpKind::kLess, {x, scalar(-limit)});
  const ir::ValueId above = node.emit(OpKind::kGreater, {x, scalar(limit)});
  const ir::ValueId raised = node.emit(OpKind::kAdd, {x, scalar(bias)});
  const ir::ValueId lowered = node.emit(OpKind::kSub, {x, scalar(bias)});
  const ir::ValueId upper = node.emit(OpKind::kWhere, {above, lowered, scalar(0)});
  node.set_output(0, node.emit(OpKind::kWhere, {below, raised, upper}));
}

// ---- types and limits -----------------------------------------------------------------------

// To FLOAT8E8M0 numbers are rounded up, ONNX's default; other types have one way.
void check_round_mode(NodeContext& node, DType to) {
  const std::string mode = node.attrs().text("round_mode", "up");
  if (to == DType::kF8E8M0 && mode != "up")
    node.fail("round_mode is '" + mode + "'; expected 'up', the one that is supported");
}

void translate_cast(NodeContext& node) {
  CastAttrs attrs;
  attrs.to = element_type(node.attrs().required_integer("to"), "Cast: attribute 'to'");
  attrs.saturate = node.attrs().flag("saturate", 1);
  check_round_mode(node, attrs.to);
  node.set_output(0, node.emit(OpKind::kCast, node.all_inputs(), attrs));
}

void translate_bit_cast(NodeContext& node) {
  BitCastAttrs attrs;
  attrs.from = node.dtype(node.input(0));
  attrs.to = element_type(node.attrs().required_integer("to"), "BitCast: attribute 'to'");
  node.set_output(0, node.emit(OpKind::kBitCast, node.all_inputs(), attrs));
}

void translate_cast_like(NodeContext& node) {
  CastAttrs attrs;
  attrs.to = node.dtype(node.input(1));
  attrs.saturate = node.attrs().flag("saturate", 1);
  check_round_mode(node, attrs.to);
  node.set_output(0, node.emit(OpKind::kCast, {node.input(0)}, attrs));
}

// The limits are attributes before opset 11.
void translate_clip(NodeContext& node) {
  if (node.opset() >= 11) {
    translate_plain<OpKind::kClip>(node);
    return;
  }
  const ir::ValueId x = node.input(0);
  std::vector<ir::ValueId> inputs{x, ir::kNoValue, ir::kNoValue};
  constexpr std::array kNames{"min", "max"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (!node.attrs().has(kNames[i])) continue;
    const double limit = node.attrs().number(kNames[i], 0);
    inputs[i + 1] = node.constant(Tensor::scalar(node.dtype(x), limit));
  }
  node.set_output(0, node.emit(OpKind::kClip, std::move(inputs)));
}

void translate_is_inf(NodeContext& node) {
  IsInfAttrs attrs;
  attrs.detect_negative = node.attrs().flag("detect_negative", 1);
  attrs.detect_positive = node.attrs().flag("detect_positive", 1);
  node.set_output(0, node.emit(OpKind::kIsInf, node.all_inputs(), attrs));
}

// Is Dropout's constant ratio 0?
bool is_zero_ratio(NodeContext& node, const Tensor& ratio) {
  if (ratio.elems() != 1) {
    node.fail("the ratio in input 1 has shape " + str(ratio.shape()) +
              "; expected one number. Omit it for inference");
  }
  return EvalTensor::from(ratio).value(0) == 0;
}

// Inference, or training that drops nothing: y is x and every element of the mask is true.
void translate_dropout(NodeContext& node) {
  node.attrs().ignore("seed");
  node.attrs().ignore("ratio");
  node.attrs().ignore("is_test");
  const ir::ValueId x = node.input(0);
  const ir::ValueId ratio = node.optional_input(1);  // unused at inference
  const bool drops_nothing = ratio != ir::kNoValue && node.value(ratio).is_constant() &&
                             is_zero_ratio(node, node.value(ratio).constant);
  const ir::ValueId mode = node.optional_input(2);
  if (mode != ir::kNoValue && !drops_nothing) {
    const auto training = node.integers(mode);
    if (!training) node.unsupported("its training_mode is not a constant");
    if (training->size() != 1 || (*training)[0] != 0)
      node.unsupported("it is in training mode, which draws random numbers");
  }
  node.set_output(0, node.emit(OpKind::kIdentity, {x}));
  if (!node.wants_output(1)) return;
  ConstantOfShapeAttrs mask;
  mask.dtype = node.opset() < 10 ? node.dtype(x) : DType::kBool;
  mask.value = 1;
  mask.shape = node.shape(x);
  mask.has_shape = true;
  node.set_output(1, node.emit(OpKind::kConstantOfShape, {}, mask));
}

constexpr std::array kRows{
    Translation{"", "Abs", 1, translate_plain<OpKind::kAbs>},
    Translation{"", "Neg", 1, translate_plain<OpKind::kNeg>},
    Translation{"", "Sign", 9, translate_plain<OpKind::kSign>},
    Translation{"", "Ceil", 1, translate_plain<OpKind::kCeil>},
    Translation{"", "Floor", 1, translate_plain<OpKind::kFloor>},
    Translation{"", "Round", 11, translate_plain<OpKind::kRound>},
    Translation{"", "Sqrt", 1, translate_plain<OpKind::kSqrt>},
    Translation{"", "Reciprocal", 1, translate_plain<OpKind::kReciprocal>},
    Translation{"", "Exp", 1, translate_plain<OpKind::kExp>},
    Translation{"", "Log", 1, translate_plain<OpKind::kLog>},
    Translation{"", "Sin", 7, translate_plain<OpKind::kSin>},
    Translation{"", "Cos", 7, translate_plain<OpKind::kCos>},
    Translation{"", "Tan", 7, translate_plain<OpKind::kTan>},
    Translation{"", "Asin", 7, translate_plain<OpKind::kAsin>},
    Translation{"", "Acos", 7, translate_plain<OpKind::kAcos>},
    Translation{"", "Atan", 7, translate_plain<OpKind::kAtan>},
    Translation{"", "Sinh", 9, translate_plain<OpKind::kSinh>},
    Translation{"", "Cosh", 9, translate_plain<OpKind::kCosh>},
    Translation{"", "Tanh", 1, translate_plain<OpKind::kTanh>},
    Translation{"", "Asinh", 9, translate_plain<OpKind::kAsinh>},
    Translation{"", "Acosh", 9, translate_plain<OpKind::kAcosh>},
    Translation{"", "Atanh", 9, translate_plain<OpKind::kAtanh>},
    Translation{"", "Erf", 9, translate_plain<OpKind::kErf>},
    Translation{"", "Sigmoid", 1, translate_plain<OpKind::kSigmoid>},
    Translation{"", "Relu", 1, translate_plain<OpKind::kRelu>},
    Translation{"", "Softplus", 1, translate_plain<OpKind::kSoftplus>},
    Translation{"", "Softsign", 1, translate_plain<OpKind::kSoftsign>},
    Translation{"", "HardSwish", 14, translate_plain<OpKind::kHardSwish>},
    Translation{"", "Mish", 18, translate_plain<OpKind::kMish>},
    Translation{"", "LeakyRelu", 1, translate_leaky_relu},
    Translation{"", "Elu", 1, translate_elu},
    Translation{"", "Celu", 12, translate_celu},
    Translation{"", "Selu", 1, translate_selu},
    Translation{"", "HardSigmoid", 1, translate_hard_sigmoid},
    Translation{"", "ThresholdedRelu", 10, translate_thresholded_relu},
    Translation{"", "Swish", 24, translate_swish},
    Translation{"", "SwiGLU", 28, translate_swiglu},
    Translation{"", "Gelu", 20, translate_gelu},
    Translation{"", "Shrink", 9, translate_shrink},
    Translation{"", "Not", 1, translate_plain<OpKind::kNot>},
    Translation{"", "BitwiseNot", 18, translate_plain<OpKind::kBitwiseNot>},
    Translation{"", "IsNaN", 9, translate_plain<OpKind::kIsNaN>},
    Translation{"", "IsInf", 10, translate_is_inf},
    Translation{"", "Identity", 1, translate_plain<OpKind::kIdentity>},
    Translation{"", "Dropout", 1, translate_dropout},
    Translation{"", "Cast", 6, translate_cast},
    Translation{"", "CastLike", 15, translate_cast_like},
    Translation{"", "BitCast", 26, translate_bit_cast},
    Translation{"", "Clip", 1, translate_clip},
    Translation{"", "Add", 1, translate_binary<OpKind::kAdd>},
    Translation{"", "Sub", 1, translate_binary<OpKind::kSub>},
    Translation{"", "Mul", 1, translate_binary<OpKind::kMul>},
    Translation{"", "Div", 1, translate_binary<OpKind::kDiv>},
    Translation{"", "Pow", 1, translate_binary<OpKind::kPow>},
    Translation{"", "And", 1, translate_binary<OpKind::kAnd>},
    Translation{"", "Or", 1, translate_binary<OpKind::kOr>},
    Translation{"", "Xor", 1, translate_binary<OpKind::kXor>},
    Translation{"", "Equal", 1, translate_binary<OpKind::kEqual>},
    Translation{"", "Less", 1, translate_binary<OpKind::kLess>},
    Translation{"", "LessOrEqual", 12, translate_binary<OpKind::kLessOrEqual>},
    Translation{"", "Greater", 1, translate_binary<OpKind::kGreater>},
    Translation{"", "GreaterOrEqual", 12, translate_binary<OpKind::kGreaterOrEqual>},
    Translation{"", "BitwiseAnd", 18, translate_plain<OpKind::kBitwiseAnd>},
    Translation{"", "BitwiseOr", 18, translate_plain<OpKind::kBitwiseOr>},
    Translation{"", "BitwiseXor", 18, translate_plain<OpKind::kBitwiseXor>},
    Translation{"", "BitShift", 11, translate_bit_shift},
    Translation{"", "Mod", 10, translate_mod},
    Translation{"", "PRelu", 1, translate_prelu},
    Translation{"", "Where", 9, translate_plain<OpKind::kWhere>},
    Translation{"", "Min", 1, translate_plain<OpKind::kMin>},
    Translation{"", "Max", 1, translate_plain<OpKind::kMax>},
    Translation{"", "Sum", 1, translate_plain<OpKind::kSum>},
    Translation{"", "Mean", 1, translate_plain<OpKind::kMean>},
};

}  // namespace

std::span<const Translation> elementwise_translations() { return kRows; }

}  // namespace vernier::onnx
