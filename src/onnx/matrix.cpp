// Translations of matrix products and convolutions. Contract: node_context.h, translations.h.
#include <array>

#include "onnx/convolution.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

void translate_gemm(NodeContext& node) {
  GemmAttrs attrs;
  attrs.alpha = node.attrs().number("alpha", 1.0F);
  attrs.beta = node.attrs().number("beta", 1.0F);
  attrs.trans_a = node.attrs().flag("transA", 0);
  attrs.trans_b = node.attrs().flag("transB", 0);
  if (node.opset() < 7)
    node.attrs().ignore("broadcast");  // C broadcasts where its shape asks for it
  node.set_output(0, node.emit(OpKind::kGemm, node.all_inputs(), attrs));
}

void translate_einsum(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kEinsum, node.all_inputs(),
                               EinsumAttrs{node.attrs().text("equation", "")}));
}

void translate_conv(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kConv, node.all_inputs(), conv_attrs(node)));
}

void translate_conv_transpose(NodeContext& node) {
  ConvAttrs attrs = conv_attrs(node);
  attrs.output_padding = node.attrs().integers("output_padding");
  attrs.output_shape = node.attrs().integers("output_shape");
  node.set_output(0, node.emit(OpKind::kConvTranspose, node.all_inputs(), attrs));
}

PoolAttrs pool_attrs(NodeContext& node) {
  PoolAttrs attrs;
  attrs.kernel_shape = node.attrs().integers("kernel_shape");
  if (attrs.kernel_shape.empty()) node.fail("attribute 'kernel_shape' is missing");
  attrs.strides = node.attrs().integers("strides");
  attrs.dilations = node.attrs().integers("dilations");
  attrs.pads = node.attrs().integers("pads");
  attrs.auto_pad = auto_pad(node);
  attrs.ceil_mode = node.attrs().flag("ceil_mode", 0);
  return attrs;
}

template <OpKind kOp>
void translate_pool(NodeContext& node) {
  PoolAttrs attrs = pool_attrs(node);
  if (kOp == OpKind::kAveragePool)
    attrs.count_include_pad = node.attrs().flag("count_include_pad", 0);
  node.set_output(0, node.emit(kOp, node.all_inputs(), attrs));
  if (kOp == OpKind::kAveragePool) return;
  const bool column_major = node.attrs().flag("storage_order", 0);  // of the indices, output 1
  if (node.wants_output(1))
    node.set_output(1, node.emit(OpKind::kMaxPoolIndices, node.all_inputs(),
                                 PoolIndicesAttrs{attrs, column_major}));
}

// (sum of |x|^p over the window)^(1/p): the mean, in which padding counts as 0, times the elements.
void translate_lp_pool(NodeContext& node) {
  PoolAttrs attrs = pool_attrs(node);
  if (attrs.ceil_mode) node.unsupported("it has ceil_mode");
  attrs.count_include_pad = true;
  const int64_t p = node.attrs().integer("p", 2);
  if (p < 1) node.fail("p is " + std::to_string(p) + "; expected 1 or more");
  const ir::ValueId x = node.input(0);
  const auto number = [&](double value) {
    return node.constant(Tensor::scalar(node.dtype(x), value));
  };
  ir::ValueId powers = p == 2 ? node.emit(OpKind::kMul, {x, x}) : node.emit(OpKind::kAbs, {x});
  const auto exponent = static_cast<double>(p);
  if (p > 2) powers = node.emit(OpKind::kPow, {powers, number(exponent)});
  double count = 1;
  for (const int64_t size : attrs.kernel_shape) count *= static_cast<double>(size);
  const ir::ValueId mean = node.emit(OpKind::kAveragePool, {powers}, attrs);
  const ir::ValueId sum = node.emit(OpKind::kMul, {mean, number(count)});
  node.set_output(0, p == 1   ? sum
                     : p == 2 ? node.emit(OpKind::kSqrt, {sum})
                              : node.emit(OpKind::kPow, {sum, number(1 / exponent)}));
}

constexpr std::array kRows{
    Translation{"", "MatMul", 1, translate_plain<OpKind::kMatMul>},
    Translation{"", "Det", 11, translate_plain<OpKind::kDet>},
    Translation{"", "Gemm", 1, translate_gemm},
    Translation{"", "Einsum", 12, translate_einsum},
    Translation{"", "Conv", 1, translate_conv},
    Translation{"", "ConvTranspose", 1, translate_conv_transpose},
    Translation{"", "MaxPool", 1, translate_pool<OpKind::kMaxPool>},
    Translation{"", "AveragePool", 1, translate_pool<OpKind::kAveragePool>},
    Translation{"", "LpPool", 2, translate_lp_pool},
    Translation{"", "GlobalAveragePool", 1, translate_plain<OpKind::kGlobalAveragePool>},
    Translation{"", "GlobalMaxPool", 1, translate_plain<OpKind::kGlobalMaxPool>},
};

}  // namespace

int64_t auto_pad(NodeContext& node) {
  const std::string text = node.attrs().text("auto_pad", "NOTSET");
  constexpr std::array kModes{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  for (size_t i = 0; i < kModes.size(); ++i) {
    if (text == kModes[i]) return static_cast<int64_t>(i);
  }
  node.fail("attribute 'auto_pad' is '" + text +
            "'; expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
}

ConvAttrs conv_attrs(NodeContext& node) {
  ConvAttrs attrs;
  attrs.kernel_shape = node.attrs().integers("kernel_shape");
  attrs.strides = node.attrs().integers("strides");
  attrs.dilations = node.attrs().integers("dilations");
  attrs.pads = node.attrs().integers("pads");
  attrs.group = node.attrs().integer("group", 1);
  attrs.auto_pad = auto_pad(node);
  return attrs;
}

std::span<const Translation> matrix_translations() { return kRows; }

}  // namespace vernier::onnx
