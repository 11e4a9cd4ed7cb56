// Translations of reductions, operators along one axis and losses. Contract: node_context.h,
// translations.h.
#include <algorithm>
#include <array>

#include "core/attrs.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// axes are an attribute before `kAxesInput` (13 for ReduceSum, 18 for the others), then input 1.
template <OpKind kOp, int64_t kAxesInput>
void translate_reduce(NodeContext& node) {
  ReduceAttrs attrs;
  attrs.keepdims = node.attrs().flag("keepdims", 1);
  std::vector<ir::ValueId> inputs{node.input(0)};
  if (node.opset() < kAxesInput) {
    attrs.axes = node.attrs().integers("axes");
  } else {
    attrs.noop_with_empty_axes = node.attrs().flag("noop_with_empty_axes", 0);
    const ir::ValueId axes = node.optional_input(1);
    if (const auto known = axes == ir::kNoValue ? std::nullopt : node.integers(axes)) {
      attrs.axes = *known;
    } else {
      inputs.push_back(axes);
    }
  }
  node.set_output(0, node.emit(kOp, std::move(inputs), attrs));
}

template <OpKind kOp>
void translate_arg_reduce(NodeContext& node) {
  ArgReduceAttrs attrs;
  attrs.axis = node.attrs().integer("axis", 0);
  attrs.keepdims = node.attrs().flag("keepdims", 1);
  attrs.select_last_index = node.attrs().flag("select_last_index", 0);
  node.set_output(0, node.emit(kOp, node.all_inputs(), attrs));
}

template <OpKind kOp>
void translate_cumulative(NodeContext& node) {
  CumSumAttrs attrs;
  attrs.exclusive = node.attrs().flag("exclusive", 0);
  attrs.reverse = node.attrs().flag("reverse", 0);
  node.set_output(0, node.emit(kOp, node.all_inputs(), attrs));
}

// k is an attribute before opset 10; largest and sorted exist from 11.
void translate_top_k(NodeContext& node) {
  TopKAttrs attrs;
  attrs.axis = node.attrs().integer("axis", -1);
  if (node.opset() >= 11) {
    attrs.largest = node.attrs().flag("largest", 1);
    attrs.sorted = node.attrs().flag("sorted", 1);
  }
  const ir::ValueId k =
      node.opset() < 10 ? node.constant_i64({node.attrs().required_integer("k")}) : node.input(1);
  const auto outputs = node.emit_all(OpKind::kTopK, {node.input(0), k}, encode(attrs), 2);
  node.set_output(0, outputs[0]);
  node.set_output(1, outputs[1]);
}

// Before opset 13 the operator works on the 2-D matrix [product of axes before `axis`, product of
// the rest]:  y = reshape(softmax(flatten(x, axis)), shape of x)
template <OpKind kOp>
void translate_softmax(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  const bool flattens = node.opset() < 13;
  const int64_t rank = node.rank(x);
  const int64_t axis = node.attrs().integer("axis", flattens ? 1 : -1);
  const int64_t from_start = axis < 0 ? axis + rank : axis;
  if (!flattens || from_start == rank - 1) {
    node.set_output(0, node.emit(kOp, {x}, AxisAttrs{axis}));
    return;
  }
  const ir::ValueId flat = node.emit(OpKind::kFlatten, {x}, AxisAttrs{axis});
  const ir::ValueId result = node.emit(kOp, {flat}, AxisAttrs{1});
  node.set_output(0, node.reshape(result, node.shape(x)));
}

void translate_lp_normalization(NodeContext& node) {
  LpNormAttrs attrs;
  attrs.axis = node.attrs().integer("axis", -1);
  attrs.p = node.attrs().integer("p", 2);
  node.set_output(0, node.emit(OpKind::kLpNormalization, node.all_inputs(), attrs));
}

LossAttrs loss_attrs(NodeContext& node) {
  constexpr std::array kReductions{"none", "sum", "mean"};
  LossAttrs attrs;
  const std::string text = node.attrs().text("reduction", "mean");
  const auto found = std::find(kReductions.begin(), kReductions.end(), text);
  if (found == kReductions.end())
    node.fail("attribute 'reduction' is '" + text + "'; expected none, sum or mean");
  attrs.reduction = static_cast<LossReduction>(found - kReductions.begin());
  attrs.ignores = node.attrs().has("ignore_index");
  attrs.ignore_index = node.attrs().integer("ignore_index", 0);
  return attrs;
}

void translate_negative_log_likelihood(NodeContext& node) {
  node.set_output(
      0, node.emit(OpKind::kNegativeLogLikelihoodLoss, node.all_inputs(), loss_attrs(node)));
}

// The loss of log(softmax(scores)) over the classes, which is output 1.
void translate_softmax_cross_entropy(NodeContext& node) {
  std::vector<ir::ValueId> inputs = node.all_inputs();
  inputs[0] = node.emit(OpKind::kLogSoftmax, {node.input(0)}, AxisAttrs{1});
  const ir::ValueId log_probs = inputs[0];
  node.set_output(
      0, node.emit(OpKind::kNegativeLogLikelihoodLoss, std::move(inputs), loss_attrs(node)));
  if (node.wants_output(1)) node.set_output(1, log_probs);
}

constexpr std::array kRows{
    Translation{"", "ReduceSum", 1, translate_reduce<OpKind::kReduceSum, 13>},
    Translation{"", "ReduceMean", 1, translate_reduce<OpKind::kReduceMean, 18>},
    Translation{"", "ReduceMax", 1, translate_reduce<OpKind::kReduceMax, 18>},
    Translation{"", "ReduceMin", 1, translate_reduce<OpKind::kReduceMin, 18>},
    Translation{"", "ReduceProd", 1, translate_reduce<OpKind::kReduceProd, 18>},
    Translation{"", "ReduceL1", 1, translate_reduce<OpKind::kReduceL1, 18>},
    Translation{"", "ReduceL2", 1, translate_reduce<OpKind::kReduceL2, 18>},
    Translation{"", "ReduceLogSum", 1, translate_reduce<OpKind::kReduceLogSum, 18>},
    Translation{"", "ReduceLogSumExp", 1, translate_reduce<OpKind::kReduceLogSumExp, 18>},
    Translation{"", "ReduceSumSquare", 1, translate_reduce<OpKind::kReduceSumSquare, 18>},
    Translation{"", "ArgMax", 1, translate_arg_reduce<OpKind::kArgMax>},
    Translation{"", "ArgMin", 1, translate_arg_reduce<OpKind::kArgMin>},
    Translation{"", "CumSum", 11, translate_cumulative<OpKind::kCumSum>},
    Translation{"", "CumProd", 26, translate_cumulative<OpKind::kCumProd>},
    Translation{"", "TopK", 1, translate_top_k},
    Translation{"", "Softmax", 1, translate_softmax<OpKind::kSoftmax>},
    Translation{"", "LogSoftmax", 1, translate_softmax<OpKind::kLogSoftmax>},
    Translation{"", "Hardmax", 1, translate_softmax<OpKind::kHardmax>},
    Translation{"", "LpNormalization", 1, translate_lp_normalization},
    Translation{"", "NegativeLogLikelihoodLoss", 12, translate_negative_log_likelihood},
    Translation{"", "SoftmaxCrossEntropyLoss", 12, translate_softmax_cross_entropy},
};

}  // namespace

std::span<const Translation> reduction_translations() { return kRows; }

}  // namespace vernier::onnx
