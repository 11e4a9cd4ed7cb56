// Translations of the normalization operators. Contract: node_context.h, translations.h.
#include <array>
#include <utility>

#include "core/attrs.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// The type requested for statistics: f32 (1), f64 (11) or none (0). Ours are at least f32.
void check_stash_type(NodeContext& node) {
  const int64_t stash_type = node.attrs().integer("stash_type", 1);
  if (stash_type != 0 && stash_type != 1 && stash_type != 11) {
    node.unsupported("its stash_type is " + std::to_string(stash_type) +
                     "; only 1 (FLOAT) is supported");
  }
}

NormAttrs norm_attrs(NodeContext& node) {
  check_stash_type(node);
  return {.axis = node.attrs().integer("axis", -1),
          .epsilon = node.attrs().number("epsilon", 1e-5F)};
}

void translate_layer_norm(NodeContext& node) {
  const NormAttrs attrs = norm_attrs(node);
  size_t count = 1;  // mean and inverse deviation only where they are named
  for (size_t i = 1; i < 3; ++i) {
    if (node.wants_output(i)) count = i + 1;
  }
  const auto outputs = node.emit_all(OpKind::kLayerNorm, node.all_inputs(), encode(attrs), count);
  for (size_t i = 0; i < count; ++i) node.set_output(i, outputs[i]);
}

void translate_rms_norm(NodeContext& node) {
  const NormAttrs attrs = norm_attrs(node);
  node.set_output(0, node.emit(OpKind::kRMSNorm, node.all_inputs(), attrs));
}

// Training, in f32 or wider, with the mean and the variance of each channel of this batch:
//   y = (x − mean) / √(variance + epsilon)·scale + bias
//   running mean = input mean·momentum + mean·(1 − momentum), and so the running variance
void batch_norm_of_own_statistics(NodeContext& node, double epsilon, double momentum) {
  const ir::ValueId x = node.input(0);
  const SymShape shape = node.shape(x);
  if (shape.size() < 2) node.fail("input 0 has shape " + str(shape) + "; expected [N, C, ...]");
  const DType type = node.dtype(x), inner = type == DType::kF64 ? type : DType::kF32;
  const auto number = [&](double value) { return node.constant(Tensor::scalar(inner, value)); };
  const auto of_channels = [&](size_t input) {  // [C] as [C, 1, …], which broadcasts to x
    if (node.rank(node.input(input)) != 1)
      node.fail("input " + std::to_string(input) + " has shape " +
                str(node.shape(node.input(input))) + "; expected one number for each channel");
    SymShape column(shape.size() - 1, 1);
    column[0] = node.shape(node.input(input))[0];
    return node.reshape(node.cast(node.input(input), inner), column);
  };
  ReduceAttrs over;
  for (int64_t axis = 0; axis < node.rank(x); ++axis)
    if (axis != 1) over.axes.push_back(axis);
  const ir::ValueId wide = node.cast(x, inner);
  const ir::ValueId mean = node.emit(OpKind::kReduceMean, {wide}, over);
  const ir::ValueId centered = node.emit(OpKind::kSub, {wide, mean});
  const ir::ValueId squares = node.emit(OpKind::kMul, {centered, centered});
  const ir::ValueId variance = node.emit(OpKind::kReduceMean, {squares}, over);
  const ir::ValueId deviation =
      node.emit(OpKind::kSqrt, {node.emit(OpKind::kAdd, {variance, number(epsilon)})});
  const ir::ValueId unit = node.emit(OpKind::kDiv, {centered, deviation});
  const ir::ValueId scaled = node.emit(OpKind::kMul, {unit, of_channels(1)});
  const ir::ValueId y = node.emit(OpKind::kAdd, {scaled, of_channels(2)});
  node.set_output(0, node.cast(y, type));
  for (const auto& [input, own] : {std::pair{size_t{3}, mean}, std::pair{size_t{4}, variance}}) {
    const ir::ValueId before = node.input(input);
    if (!node.wants_output(input - 2)) continue;
    const ir::ValueId kept = node.emit(OpKind::kMul, {node.cast(before, inner), number(momentum)});
    const ir::ValueId added =
        node.emit(OpKind::kMul, {node.reshape(own, node.shape(before)), number(1 - momentum)});
    const ir::ValueId after = node.emit(OpKind::kAdd, {kept, added});
    node.set_output(input - 2, node.cast(after, node.dtype(before)));
  }
}

void translate_batch_norm(NodeContext& node) {
  BatchNormAttrs attrs;
  attrs.epsilon = node.attrs().number("epsilon", 1e-5F);
  const double momentum = node.attrs().number("momentum", 0.9F);
  if (node.opset() < 7) node.attrs().ignore("is_test");
  if (node.opset() < 9 && node.attrs().integer("spatial", 1) != 1) {
    node.unsupported("it has spatial=0 (statistics per element)");
  }
  if (node.opset() >= 14 && node.attrs().flag("training_mode", 0))
    return batch_norm_of_own_statistics(node, attrs.epsilon, momentum);
  node.set_output(0, node.emit(OpKind::kBatchNormalization, node.all_inputs(), attrs));
}

void translate_instance_norm(NodeContext& node) {
  GroupNormAttrs attrs;  // groups 0: one per channel
  attrs.epsilon = node.attrs().number("epsilon", 1e-5F);
  node.set_output(0, node.emit(OpKind::kGroupNormalization, node.all_inputs(), attrs));
}

// scale and bias hold one value per group before opset 21, one per channel afterwards:
//   [groups] -> [groups, 1] -> [groups, channels / groups] -> [channels]
ir::ValueId per_channel(NodeContext& node, ir::ValueId value, int64_t groups, const Dim& channels) {
  const ir::ValueId column = node.reshape(value, {groups, 1});
  const ir::ValueId wide =
      node.emit(OpKind::kExpand, {column},
                ShapeAttrs{.shape = {groups, floordiv(channels, Dim(groups))}, .has_shape = true});
  return node.reshape(wide, {channels});
}

void translate_group_norm(NodeContext& node) {
  GroupNormAttrs attrs;
  attrs.epsilon = node.attrs().number("epsilon", 1e-5F);
  attrs.num_groups = node.attrs().required_integer("num_groups");
  const ir::ValueId x = node.input(0);
  ir::ValueId scale = node.input(1), bias = node.input(2);
  if (node.opset() >= 21) {
    check_stash_type(node);
  } else {
    if (node.rank(x) < 2)
      node.fail("input 0 has shape " + str(node.shape(x)) + "; expected [N, C, ...]");
    if (attrs.num_groups < 1) node.fail("attribute 'num_groups' must be at least 1");
    scale = per_channel(node, scale, attrs.num_groups, node.shape(x)[1]);
    bias = per_channel(node, bias, attrs.num_groups, node.shape(x)[1]);
  }
  node.set_output(0, node.emit(OpKind::kGroupNormalization, {x, scale, bias}, attrs));
}

// (x − mean) / (√(mean of squared deviations) + 1e-9)
void translate_mean_variance(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  ReduceAttrs over;
  over.axes = node.attrs().optional_integers("axes").value_or(std::vector<int64_t>{0, 2, 3});
  const ir::ValueId mean = node.emit(OpKind::kReduceMean, {x}, over);
  const ir::ValueId centered = node.emit(OpKind::kSub, {x, mean});
  const ir::ValueId squares = node.emit(OpKind::kMul, {centered, centered});
  const ir::ValueId variance = node.emit(OpKind::kReduceMean, {squares}, over);
  const ir::ValueId deviation = node.emit(OpKind::kSqrt, {variance});
  const ir::ValueId epsilon = node.constant(Tensor::scalar(node.dtype(x), 1e-9));
  node.set_output(
      0, node.emit(OpKind::kDiv, {centered, node.emit(OpKind::kAdd, {deviation, epsilon})}));
}

// x / (bias + alpha·mean)^beta; the mean of x² over `size` channels, of which those outside are 0:
//   [n, c, …] -> [n, 1, c, product of the rest], pooled along c
void translate_lrn(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  const SymShape shape = node.shape(x);
  const int64_t size = node.attrs().required_integer("size");
  if (shape.size() < 2) node.fail("input 0 has shape " + str(shape) + "; expected [N, C, ...]");
  if (size < 1) node.fail("size is " + std::to_string(size) + "; expected 1 or more");
  const auto number = [&](const char* name, float absent) {
    return node.constant(Tensor::scalar(node.dtype(x), node.attrs().number(name, absent)));
  };
  PoolAttrs attrs;
  attrs.kernel_shape = {size, 1};
  attrs.pads = {(size - 1) / 2, 0, size / 2, 0};
  attrs.count_include_pad = true;
  const SymShape rest(shape.begin() + 2, shape.end());
  const ir::ValueId squares = node.emit(OpKind::kMul, {x, x});
  const ir::ValueId planes = node.reshape(squares, {shape[0], 1, shape[1], product(rest)});
  const ir::ValueId mean = node.reshape(node.emit(OpKind::kAveragePool, {planes}, attrs), shape);
  const ir::ValueId scaled = node.emit(OpKind::kMul, {mean, number("alpha", 1e-4F)});
  const ir::ValueId base = node.emit(OpKind::kAdd, {scaled, number("bias", 1.0F)});
  const ir::ValueId power = node.emit(OpKind::kPow, {base, number("beta", 0.75F)});
  node.set_output(0, node.emit(OpKind::kDiv, {x, power}));
}

constexpr std::array kRows{
    // Since opset 17; ONNX Runtime's optimizer writes it into models of any opset.
    Translation{"", "LayerNormalization", 1, translate_layer_norm},
    Translation{"", "RMSNormalization", 23, translate_rms_norm},
    // ONNX Runtime's name for it, likewise.
    Translation{"", "SimplifiedLayerNormalization", 1, translate_rms_norm},
    Translation{"", "BatchNormalization", 1, translate_batch_norm},
    Translation{"", "InstanceNormalization", 1, translate_instance_norm},
    Translation{"", "GroupNormalization", 18, translate_group_norm},
    Translation{"", "MeanVarianceNormalization", 9, translate_mean_variance},
    Translation{"", "LRN", 1, translate_lrn},
};

}  // namespace

std::span<const Translation> normalization_translations() { return kRows; }

}  // namespace vernier::onnx
