// Translations of the operators of domain com.microsoft that ONNX Runtime's quantizer writes in its
// QOperator format, as Q/DQ: QuantizeLinear(f(DequantizeLinear(a), …)). Source: ONNX Runtime's
// docs/ContribOperators.md. QAttention is in microsoft_attention.cpp. Contract: node_context.h,
// translations.h.
#include <algorithm>
#include <array>

#include "core/attrs.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// Inputs of a quantized operand, by place.
struct Operand {
  size_t value, scale, zero;
};

int64_t last_axis(NodeContext& node, ir::ValueId value) {
  return std::max<int64_t>(node.rank(value) - 1, 0);
}

// The numbers that a quantized operand stands for; scales along `axis` where they are a list.
ir::ValueId real(NodeContext& node, const Operand& operand, int64_t axis) {
  QuantizeAttrs attrs;
  attrs.axis = axis;
  std::vector<ir::ValueId> inputs{node.input(operand.value), node.input(operand.scale)};
  if (const ir::ValueId zero = node.optional_input(operand.zero); zero != ir::kNoValue)
    inputs.push_back(zero);
  return node.emit(OpKind::kDequantizeLinear, std::move(inputs), attrs);
}
ir::ValueId real(NodeContext& node, const Operand& operand) {
  return real(node, operand, last_axis(node, node.input(operand.value)));
}

// y / scale + zero, in the type of its zero point, else of input `like`.
ir::ValueId quantized(NodeContext& node, ir::ValueId y, size_t scale, size_t zero, size_t like) {
  QuantizeAttrs attrs;
  attrs.axis = last_axis(node, y);
  const ir::ValueId zero_point = node.optional_input(zero);
  attrs.dtype = node.dtype(zero_point == ir::kNoValue ? node.input(like) : zero_point);
  std::vector<ir::ValueId> inputs{y, node.input(scale)};
  if (zero_point != ir::kNoValue) inputs.push_back(zero_point);
  return node.emit(OpKind::kQuantizeLinear, std::move(inputs), attrs);
}

// A and B with their scales and zero points, then C's.
template <OpKind kOp>
void translate_binary(NodeContext& node) {
  const ir::ValueId y = node.emit(kOp, {real(node, {0, 1, 2}), real(node, {3, 4, 5})});
  node.set_output(0, quantized(node, y, 6, 7, 0));
}

// X with its scale and zero point, then Y's.
void translate_sigmoid(NodeContext& node) {
  const ir::ValueId y = node.emit(OpKind::kSigmoid, {real(node, {0, 1, 2})});
  node.set_output(0, quantized(node, y, 3, 4, 0));
}
void translate_leaky_relu(NodeContext& node) {
  ActivationAttrs attrs;
  attrs.alpha = node.attrs().number("alpha", 0.01F);
  const ir::ValueId y = node.emit(OpKind::kLeakyRelu, {real(node, {0, 1, 2})}, attrs);
  node.set_output(0, quantized(node, y, 3, 4, 0));
}

// Before opset 13 of ai.onnx the axes from `axis` on are one.
void translate_softmax(NodeContext& node) {
  const ir::ValueId x = real(node, {0, 1, 2});
  const int64_t axis = node.attrs().integer("axis", -1), rank = node.rank(x);
  const bool flattens = node.attrs().required_integer("opset") < 13;
  ir::ValueId y = ir::kNoValue;
  if (!flattens || axis == -1 || axis == rank - 1) {
    y = node.emit(OpKind::kSoftmax, {x}, AxisAttrs{axis});
  } else {
    const ir::ValueId flat = node.emit(OpKind::kFlatten, {x}, AxisAttrs{axis});
    y = node.reshape(node.emit(OpKind::kSoftmax, {flat}, AxisAttrs{1}), node.shape(x));
  }
  node.set_output(0, quantized(node, y, 3, 4, 0));
}

// Y's scale and zero point, then three inputs for each part.
void translate_concat(NodeContext& node) {
  constexpr size_t kFirst = 2, kEach = 3;
  if (node.num_inputs() < kFirst + kEach || (node.num_inputs() - kFirst) % kEach != 0)
    node.fail("has " + std::to_string(node.num_inputs()) +
              " inputs; expected a scale and a zero point, then a value, a scale and a zero point "
              "for each part");
  std::vector<ir::ValueId> parts;
  for (size_t i = kFirst; i < node.num_inputs(); i += kEach)
    parts.push_back(real(node, {i, i + 1, i + 2}));
  const ir::ValueId y = node.emit(OpKind::kConcat, std::move(parts),
                                  AxisAttrs{node.attrs().required_integer("axis")});
  node.set_output(0, quantized(node, y, 0, 1, kFirst));
}

// A and B with their scales and zero points, C in i32, Y's scale and zero point; without the last
// two the result is a float. C is in units of alpha times the scales of A and B.
void translate_gemm(NodeContext& node) {
  constexpr size_t kScaleA = 1, kScaleB = 4, kC = 6, kScaleY = 7, kZeroY = 8;
  GemmAttrs attrs;
  attrs.alpha = node.attrs().number("alpha", 1.0F);
  attrs.trans_a = node.attrs().flag("transA", 0);
  attrs.trans_b = node.attrs().flag("transB", 0);
  const ir::ValueId a = real(node, {0, kScaleA, 2});
  std::vector<ir::ValueId> inputs{a, real(node, {3, kScaleB, 5}, attrs.trans_b ? 0 : 1)};
  if (const ir::ValueId c = node.optional_input(kC); c != ir::kNoValue) {
    ir::ValueId scale = node.emit(OpKind::kMul, {node.input(kScaleA), node.input(kScaleB)});
    if (attrs.alpha != 1) {
      const Tensor alpha = Tensor::scalar(node.dtype(scale), attrs.alpha);
      scale = node.emit(OpKind::kMul, {scale, node.constant(alpha)});
    }
    QuantizeAttrs along;
    along.axis = last_axis(node, c);
    inputs.push_back(node.emit(OpKind::kDequantizeLinear, {c, scale}, along));
  }
  const ir::ValueId y = node.emit(OpKind::kGemm, std::move(inputs), attrs);
  const bool is_float = node.optional_input(kScaleY) == ir::kNoValue;
  if (is_float) node.optional_input(kZeroY);
  node.set_output(0, is_float ? y : quantized(node, y, kScaleY, kZeroY, 0));
}

constexpr std::string_view kDomain = "com.microsoft";
constexpr std::array kRows{
    Translation{kDomain, "QLinearAdd", 1, translate_binary<OpKind::kAdd>},
    Translation{kDomain, "QLinearMul", 1, translate_binary<OpKind::kMul>},
    Translation{kDomain, "QLinearSigmoid", 1, translate_sigmoid},
    Translation{kDomain, "QLinearLeakyRelu", 1, translate_leaky_relu},
    Translation{kDomain, "QLinearSoftmax", 1, translate_softmax},
    Translation{kDomain, "QLinearConcat", 1, translate_concat},
    Translation{kDomain, "QGemm", 1, translate_gemm},
};

}  // namespace

std::span<const Translation> microsoft_quantization_translations() { return kRows; }

}  // namespace vernier::onnx
