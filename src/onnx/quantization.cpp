// Translations of the quantization operators and the integer products. Products of quantized
// numbers are computed on the integers themselves (i32, or f64 where it holds them exactly).
// Contract: node_context.h, translations.h.
#include <algorithm>
#include <array>

#include "core/attrs.h"
#include "onnx/convolution.h"
#include "onnx/element_types.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

ir::ValueId scalar(NodeContext& node, DType type, double value) {
  return node.constant(Tensor::scalar(type, value));
}

// ---- QuantizeLinear, DequantizeLinear -------------------------------------------------------

QuantizeAttrs quantize_attrs(NodeContext& node) {
  QuantizeAttrs attrs;
  attrs.axis = node.attrs().integer("axis", 1);
  attrs.block_size = node.attrs().integer("block_size", 0);
  if (const int64_t type = node.attrs().integer("output_dtype", 0); type != 0)
    attrs.dtype = element_type(type, "attribute 'output_dtype'");
  return attrs;
}

// The type is the zero point's, else output_dtype, else u8.
void translate_quantize(NodeContext& node) {
  QuantizeAttrs attrs = quantize_attrs(node);
  attrs.saturate = node.attrs().flag("saturate", 1);
  std::vector<ir::ValueId> inputs = node.all_inputs();
  // The type of the quotient, by default the scale's: ours is f32 at least.
  if (const int64_t type = node.attrs().integer("precision", 0);
      type != 0 && element_type(type, "attribute 'precision'") == DType::kF64)
    inputs[1] = node.cast(node.input(1), DType::kF64);
  if (attrs.dtype == DType::kUndefined && node.has_input(2))
    attrs.dtype = node.dtype(node.input(2));
  node.set_output(0, node.emit(OpKind::kQuantizeLinear, std::move(inputs), attrs));
}

void translate_dequantize(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kDequantizeLinear, node.all_inputs(), quantize_attrs(node)));
}

// scale = (max(x, 0) − min(x, 0)) / 255, zero point = round(−min / scale); a tensor of zeros has
// scale 1.
void translate_dynamic_quantize(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  const DType type = node.dtype(x);
  ReduceAttrs all;
  all.keepdims = false;
  const ir::ValueId zero = scalar(node, type, 0);
  const ir::ValueId low = node.emit(OpKind::kMin, {node.emit(OpKind::kReduceMin, {x}, all), zero});
  const ir::ValueId high = node.emit(OpKind::kMax, {node.emit(OpKind::kReduceMax, {x}, all), zero});
  const ir::ValueId range = node.emit(OpKind::kSub, {high, low});
  const ir::ValueId step = node.emit(OpKind::kDiv, {range, scalar(node, type, 255)});
  const ir::ValueId flat = node.emit(OpKind::kEqual, {range, zero});
  const ir::ValueId scale = node.emit(OpKind::kWhere, {flat, scalar(node, type, 1), step});
  const ir::ValueId base =
      node.emit(OpKind::kRound, {node.emit(OpKind::kDiv, {node.emit(OpKind::kNeg, {low}), scale})});
  const ir::ValueId zero_point =
      node.cast(node.emit(OpKind::kClip, {base, zero, scalar(node, type, 255)}), DType::kU8);
  QuantizeAttrs attrs;
  attrs.dtype = DType::kU8;
  node.set_output(0, node.emit(OpKind::kQuantizeLinear, {x, scale, zero_point}, attrs));
  node.set_output(1, scale);
  node.set_output(2, zero_point);
}

// ---- products -------------------------------------------------------------------------------

// A list along an axis of `rank` axes as a tensor that broadcasts there; one number stays one.
ir::ValueId along(NodeContext& node, ir::ValueId list, int64_t axis, int64_t rank) {
  const SymShape shape = node.shape(list);
  if (shape.size() != 1) return list;
  if (shape[0] == Dim(1)) return node.reshape(list, {});
  if (axis < 0 || axis >= rank) {
    node.fail("a list of " + shape[0].str() + " zero points or scales belongs to axis " +
              std::to_string(axis) + ", but the array has rank " + std::to_string(rank));
  }
  SymShape spread(static_cast<size_t>(rank), 1);
  spread[axis] = shape[0];
  return node.reshape(list, std::move(spread));
}

// value − zero in `type`, the zero point along `axis`.
ir::ValueId centered(NodeContext& node, ir::ValueId value, ir::ValueId zero, int64_t axis,
                     DType type) {
  const ir::ValueId wide = node.cast(value, type);
  if (zero == ir::kNoValue) return wide;
  const ir::ValueId base = along(node, node.cast(zero, type), axis, node.rank(value));
  return node.emit(OpKind::kSub, {wide, base});
}

// (a − zero of each row)·(b − zero of each column), in i32.
ir::ValueId integer_matmul(NodeContext& node, ir::ValueId a, ir::ValueId a_zero, ir::ValueId b,
                           ir::ValueId b_zero) {
  const ir::ValueId rows =
      centered(node, a, a_zero, std::max<int64_t>(node.rank(a) - 2, 0), DType::kI32);
  const ir::ValueId cols = centered(node, b, b_zero, node.rank(b) - 1, DType::kI32);
  return node.emit(OpKind::kMatMul, {rows, cols});
}

void translate_matmul_integer(NodeContext& node) {
  node.set_output(0, integer_matmul(node, node.input(0), node.optional_input(2), node.input(1),
                                    node.optional_input(3)));
}

// round(value·scale / y_scale) + y_zero
ir::ValueId requantized(NodeContext& node, ir::ValueId value, ir::ValueId y_scale,
                        ir::ValueId y_zero) {
  QuantizeAttrs attrs;
  attrs.axis = node.rank(value) - 1;
  attrs.dtype = y_zero == ir::kNoValue ? DType::kU8 : node.dtype(y_zero);
  std::vector<ir::ValueId> inputs{value, node.cast(y_scale, DType::kF64)};
  if (y_zero != ir::kNoValue) inputs.push_back(y_zero);
  return node.emit(OpKind::kQuantizeLinear, std::move(inputs), attrs);
}

// A constant weight with one scale, or one for each column, is read as Q/DQ: QuantizeLinear(MatMul(
// DequantizeLinear(a), DequantizeLinear(b))). That is what a pass makes an integer product of.
bool read_as_qdq(NodeContext& node) {
  const ir::ValueId b = node.input(3);
  const auto one = [&](size_t i) { return product(node.shape(node.input(i))) == Dim(1); };
  const bool f32 = node.dtype(node.input(1)) == DType::kF32 &&
                   node.dtype(node.input(4)) == DType::kF32 &&
                   node.dtype(node.input(6)) == DType::kF32;
  if (!f32 || !node.value(b).is_constant() || node.rank(b) != 2 || !one(1) || !one(2) ||
      node.rank(node.input(0)) < 2)
    return false;
  const auto real = [&](size_t first, int64_t axis) {
    QuantizeAttrs attrs;
    attrs.axis = axis;
    return node.emit(OpKind::kDequantizeLinear,
                     {node.input(first), node.input(first + 1), node.input(first + 2)}, attrs);
  };
  const ir::ValueId y =
      node.emit(OpKind::kMatMul, {real(0, node.rank(node.input(0)) - 1), real(3, 1)});
  QuantizeAttrs attrs;
  attrs.axis = node.rank(y) - 1;
  attrs.dtype = node.dtype(node.input(7));
  node.set_output(0, node.emit(OpKind::kQuantizeLinear, {y, node.input(6), node.input(7)}, attrs));
  return true;
}

// Inputs: a, its scale and zero point, b, its scale and zero point, scale and zero point of y.
void translate_qlinear_matmul(NodeContext& node) {
  if (read_as_qdq(node)) return;
  const ir::ValueId a = node.input(0), b = node.input(3);
  const ir::ValueId sums = integer_matmul(node, a, node.input(2), b, node.input(5));
  const int64_t rank = node.rank(sums);
  const auto scale = [&](size_t input, int64_t axis) {
    return along(node, node.cast(node.input(input), DType::kF64), std::max<int64_t>(axis, 0),
                 std::max<int64_t>(rank, 1));
  };
  ir::ValueId y = node.cast(sums, DType::kF64);
  y = node.emit(OpKind::kMul, {y, scale(1, rank - 2)});
  y = node.emit(OpKind::kMul, {y, scale(4, rank - 1)});
  node.set_output(0, requantized(node, y, node.input(6), node.input(7)));
}

// Sums of products of 8-bit numbers are exact in f64.
void translate_conv_integer(NodeContext& node) {
  const ir::ValueId x = centered(node, node.input(0), node.optional_input(2), 1, DType::kF64);
  const ir::ValueId w = centered(node, node.input(1), node.optional_input(3), 0, DType::kF64);
  node.set_output(0, node.cast(node.emit(OpKind::kConv, {x, w}, conv_attrs(node)), DType::kI32));
}

// Inputs: x, its scale and zero point, w, its scale and zero point, scale and zero point of y, bias
// (i32, in units of x's scale times w's).
void translate_qlinear_conv(NodeContext& node) {
  const ir::ValueId x = centered(node, node.input(0), node.input(2), 1, DType::kF64);
  const ir::ValueId w = centered(node, node.input(3), node.input(5), 0, DType::kF64);
  std::vector<ir::ValueId> inputs{x, w};
  if (node.has_input(8)) inputs.push_back(node.cast(node.input(8), DType::kF64));
  ir::ValueId y = node.emit(OpKind::kConv, std::move(inputs), conv_attrs(node));
  for (const size_t input : {size_t{1}, size_t{4}}) {
    const ir::ValueId scale = node.cast(node.input(input), DType::kF64);
    y = node.emit(OpKind::kMul, {y, along(node, scale, 1, node.rank(y))});
  }
  node.set_output(0, requantized(node, y, node.input(6), node.input(7)));
}

constexpr std::array kRows{
    Translation{"", "QuantizeLinear", 10, translate_quantize},
    Translation{"", "DequantizeLinear", 10, translate_dequantize},
    Translation{"", "DynamicQuantizeLinear", 11, translate_dynamic_quantize},
    Translation{"", "MatMulInteger", 10, translate_matmul_integer},
    Translation{"", "QLinearMatMul", 10, translate_qlinear_matmul},
    Translation{"", "ConvInteger", 10, translate_conv_integer},
    Translation{"", "QLinearConv", 10, translate_qlinear_conv},
    // ONNX Runtime's own, for 16 bits before ONNX had them.
    Translation{"com.microsoft", "QuantizeLinear", 1, translate_quantize},
    Translation{"com.microsoft", "DequantizeLinear", 1, translate_dequantize},
};

}  // namespace

std::span<const Translation> quantization_translations() { return kRows; }

}  // namespace vernier::onnx
