// Translations of operators that move data. Contract: node_context.h, translations.h.
#include <algorithm>
#include <array>

#include "core/attrs.h"
#include "onnx/attention.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

void translate_concat(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kConcat, node.all_inputs(),
                               AxisAttrs{node.attrs().required_integer("axis")}));
}

// Sizes are an attribute before opset 13, then input 1; equal parts if neither is given.
void translate_split(NodeContext& node) {
  SplitAttrs attrs;
  attrs.axis = node.attrs().integer("axis", 0);
  attrs.num_outputs = static_cast<int64_t>(node.num_outputs());
  std::vector<ir::ValueId> inputs{node.input(0)};
  if (node.opset() < 13) {
    attrs.sizes = node.attrs().integers("split");
  } else if (node.has_input(1)) {
    const ir::ValueId sizes = node.input(1);
    if (const auto known = node.integers(sizes)) {
      attrs.sizes = *known;
    } else {
      inputs.push_back(sizes);
    }
  }
  if (node.opset() >= 18) {
    const int64_t declared = node.attrs().integer("num_outputs", attrs.num_outputs);
    if (declared != attrs.num_outputs) {
      node.fail("attribute 'num_outputs' is " + std::to_string(declared) + ", but the node has " +
                std::to_string(attrs.num_outputs) + " outputs");
    }
  }
  const auto outputs =
      node.emit_all(OpKind::kSplit, std::move(inputs), encode(attrs), node.num_outputs());
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

// starts, ends and axes are attributes before opset 10.
void translate_slice(NodeContext& node) {
  if (node.opset() >= 10) {
    node.set_output(0, node.emit(OpKind::kSlice, node.all_inputs(), SliceAttrs{}));
    return;
  }
  const ir::ValueId starts = node.constant_i64(node.attrs().integers("starts"));
  const ir::ValueId ends = node.constant_i64(node.attrs().integers("ends"));
  std::vector<ir::ValueId> inputs{node.input(0), starts, ends};
  if (const auto axes = node.attrs().optional_integers("axes")) {
    inputs.push_back(node.constant_i64(*axes));
  }
  node.set_output(0, node.emit(OpKind::kSlice, std::move(inputs), SliceAttrs{}));
}

template <OpKind kOp>
void translate_axis(NodeContext& node) {
  node.set_output(0, node.emit(kOp, node.all_inputs(), AxisAttrs{node.attrs().integer("axis", 0)}));
}

void translate_gather_nd(NodeContext& node) {
  GatherNDAttrs attrs;
  if (node.opset() >= 12) attrs.batch_dims = node.attrs().integer("batch_dims", 0);
  node.set_output(0, node.emit(OpKind::kGatherND, node.all_inputs(), attrs));
}

ScatterReduction scatter_reduction(NodeContext& node) {
  const std::string text = node.opset() >= 16 ? node.attrs().text("reduction", "none") : "none";
  if (text == "none") return ScatterReduction::kNone;
  if (text == "add") return ScatterReduction::kAdd;
  if (text == "mul") return ScatterReduction::kMul;
  if (text == "min" && node.opset() >= 18) return ScatterReduction::kMin;
  if (text == "max" && node.opset() >= 18) return ScatterReduction::kMax;
  node.fail("attribute 'reduction' is '" + text + "'; expected none, add, mul, min or max");
}

void translate_scatter_elements(NodeContext& node) {
  ScatterAttrs attrs;
  attrs.axis = node.attrs().integer("axis", 0);
  attrs.reduction = scatter_reduction(node);
  node.set_output(0, node.emit(OpKind::kScatterElements, node.all_inputs(), attrs));
}

// A cache [B, …] with `update` written along an axis from write_indices[b] on.
void translate_tensor_scatter(NodeContext& node) {
  const ir::ValueId cache = node.input(0), update = node.input(1);
  const SymShape shape = node.shape(update);
  const int64_t rank = node.rank(cache);
  int64_t axis = node.attrs().integer("axis", -2);
  if (axis < 0) axis += rank;
  if (axis < 1 || axis >= rank || std::ssize(shape) != rank)
    node.fail("the axis " + std::to_string(axis) +
              " is not one of [1, rank), or the inputs differ "
              "in rank");
  const std::string mode = node.attrs().text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    node.fail("attribute 'mode' is '" + mode + "'; expected linear or circular");
  SymShape along(shape.size(), 1), by_row(shape.size(), 1);
  along[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  by_row[0] = shape[0];
  ir::ValueId places = positions(node, 0, shape[static_cast<size_t>(axis)], along);
  if (node.has_input(2))
    places = node.emit(OpKind::kAdd, {places, node.reshape(node.input(2), by_row)});
  if (mode == "circular") {
    const Dim size = node.shape(cache)[static_cast<size_t>(axis)];
    places = node.emit(OpKind::kMod, {places, size_number(node, size)}, ModAttrs{});
  }
  const ir::ValueId each =
      node.emit(OpKind::kExpand, {places}, ShapeAttrs{.shape = shape, .has_shape = true});
  node.set_output(
      0, node.emit(OpKind::kScatterElements, {cache, each, update}, ScatterAttrs{.axis = axis}));
}

// The middle of x, or x in the middle of zeros, on each axis.
void translate_center_crop_pad(NodeContext& node) {
  ir::ValueId x = node.input(0);
  const auto sizes = node.integers(node.input(1));
  if (!sizes) node.fail("the sizes in input 1 are not known when the engine is built");
  const int64_t rank = node.rank(x);
  std::vector<int64_t> axes = node.attrs().integers("axes");
  const bool all = axes.empty();
  for (int64_t i = 0; all && i < rank; ++i) axes.push_back(i);
  if (axes.size() != sizes->size())
    node.fail("input 1 has " + std::to_string(sizes->size()) + " sizes for " +
              std::to_string(axes.size()) + " axes");
  std::vector<int64_t> starts, ends, pads_before, pads_after;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) node.fail("axis " + std::to_string(axes[i]) + " does not exist");
    const auto size = node.shape(x)[static_cast<size_t>(axis)].as_constant();
    if (!size) node.fail("the size of axis " + std::to_string(axis) + " is not fixed");
    const int64_t wanted = (*sizes)[i], kept = std::min(*size, wanted), added = wanted - kept;
    starts.push_back((*size - kept) / 2);
    ends.push_back(starts.back() + kept);
    pads_before.push_back(added / 2);
    pads_after.push_back(added - added / 2);
  }
  const ir::ValueId along = node.constant_i64(axes);
  x = node.emit(OpKind::kSlice, {x, node.constant_i64(starts), node.constant_i64(ends), along},
                SliceAttrs{});
  std::vector<int64_t> pads = pads_before;
  pads.insert(pads.end(), pads_after.begin(), pads_after.end());
  const ir::ValueId zero = node.constant(Tensor::scalar(node.dtype(x), 0));
  node.set_output(0,
                  node.emit(OpKind::kPad, {x, node.constant_i64(pads), zero, along}, PadAttrs{}));
}

void translate_scatter_nd(NodeContext& node) {
  ScatterAttrs attrs;
  attrs.reduction = scatter_reduction(node);
  node.set_output(0, node.emit(OpKind::kScatterND, node.all_inputs(), attrs));
}

PadMode pad_mode(NodeContext& node) {
  const std::string text = node.attrs().text("mode", "constant");
  if (text == "constant") return PadMode::kConstant;
  if (text == "reflect") return PadMode::kReflect;
  if (text == "edge") return PadMode::kEdge;
  if (text == "wrap" && node.opset() >= 19) return PadMode::kWrap;
  node.fail("attribute 'mode' is '" + text + "'; expected constant, reflect, edge or wrap");
}

// pads and value are attributes before opset 11.
void translate_pad(NodeContext& node) {
  const PadAttrs attrs{pad_mode(node)};
  if (node.opset() >= 11) {
    node.set_output(0, node.emit(OpKind::kPad, node.all_inputs(), attrs));
    return;
  }
  const ir::ValueId x = node.input(0);
  const ir::ValueId pads = node.constant_i64(node.attrs().integers("pads"));
  const double fill = node.attrs().number("value", 0.0F);
  const ir::ValueId value = node.constant(Tensor::scalar(node.dtype(x), fill));
  node.set_output(0, node.emit(OpKind::kPad, {x, pads, value}, attrs));
}

void translate_trilu(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kTrilu, node.all_inputs(),
                               TriluAttrs{.upper = node.attrs().flag("upper", 1)}));
}

void translate_one_hot(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kOneHot, node.all_inputs(),
                               OneHotAttrs{node.attrs().integer("axis", -1)}));
}

void translate_compress(NodeContext& node) {
  CompressAttrs attrs;
  attrs.flat = !node.attrs().has("axis");
  attrs.axis = node.attrs().integer("axis", 0);
  node.set_output(0, node.emit(OpKind::kCompress, node.all_inputs(), attrs));
}

void translate_unique(NodeContext& node) {
  UniqueAttrs attrs;
  attrs.flat = !node.attrs().has("axis");
  attrs.axis = node.attrs().integer("axis", 0);
  attrs.sorted = node.attrs().flag("sorted", 1);
  const auto outputs =
      node.emit_all(OpKind::kUnique, node.all_inputs(), encode(attrs), node.num_outputs());
  for (size_t i = 0; i < outputs.size(); ++i) node.set_output(i, outputs[i]);
}

void translate_non_max_suppression(NodeContext& node) {
  const NonMaxSuppressionAttrs attrs{node.attrs().flag("center_point_box", 0)};
  node.set_output(0, node.emit(OpKind::kNonMaxSuppression, node.all_inputs(), attrs));
}

// Blocks are the inner axis of each channel, instead of channels of each block:
//   [n, c, h, w] -> [n, c, h/b, b, w/b, b] -> [n, c, b, b, h/b, w/b] -> [n, c·b·b, h/b, w/b]
void space_to_depth_crd(NodeContext& node, int64_t block) {
  const ir::ValueId x = node.input(0);
  const SymShape shape = node.shape(x);
  if (shape.size() != 4 || block < 1) node.fail("expected input [N, C, H, W] and blocksize >= 1");
  const Dim rows = floordiv(shape[2], Dim(block)), cols = floordiv(shape[3], Dim(block));
  const ir::ValueId split = node.reshape(x, {shape[0], shape[1], rows, block, cols, block});
  const ir::ValueId ordered = node.transpose(split, {0, 1, 3, 5, 2, 4});
  node.set_output(0, node.reshape(ordered, {shape[0], shape[1] * Dim(block * block), rows, cols}));
}

// mode exists from opset 11 for DepthToSpace and from 28 for SpaceToDepth.
template <OpKind kOp>
void translate_blocks(NodeContext& node) {
  BlockSizeAttrs attrs;
  attrs.block_size = node.attrs().required_integer("blocksize");
  const std::string mode = node.attrs().text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") {
    node.fail("attribute 'mode' is '" + mode + "'; expected DCR or CRD");
  }
  attrs.crd = mode == "CRD";
  if (attrs.crd && kOp == OpKind::kSpaceToDepth) return space_to_depth_crd(node, attrs.block_size);
  node.set_output(0, node.emit(kOp, node.all_inputs(), attrs));
}

void translate_reverse_sequence(NodeContext& node) {
  ReverseSequenceAttrs attrs;
  attrs.batch_axis = node.attrs().integer("batch_axis", 1);
  attrs.time_axis = node.attrs().integer("time_axis", 0);
  node.set_output(0, node.emit(OpKind::kReverseSequence, node.all_inputs(), attrs));
}

constexpr std::array kRows{
    Translation{"", "Concat", 4, translate_concat},
    Translation{"", "Split", 2, translate_split},
    Translation{"", "Slice", 1, translate_slice},
    Translation{"", "Gather", 1, translate_axis<OpKind::kGather>},
    Translation{"", "GatherElements", 11, translate_axis<OpKind::kGatherElements>},
    Translation{"", "GatherND", 11, translate_gather_nd},
    Translation{"", "Scatter", 9, translate_scatter_elements},  // the name before opset 11
    Translation{"", "ScatterElements", 11, translate_scatter_elements},
    Translation{"", "TensorScatter", 24, translate_tensor_scatter},
    Translation{"", "CenterCropPad", 18, translate_center_crop_pad},
    Translation{"", "ScatterND", 11, translate_scatter_nd},
    Translation{"", "Tile", 6, translate_plain<OpKind::kTile>},
    Translation{"", "Pad", 2, translate_pad},
    Translation{"", "Trilu", 14, translate_trilu},
    Translation{"", "OneHot", 9, translate_one_hot},
    Translation{"", "NonZero", 9, translate_plain<OpKind::kNonZero>},
    Translation{"", "Compress", 9, translate_compress},
    Translation{"", "Unique", 11, translate_unique},
    Translation{"", "NonMaxSuppression", 10, translate_non_max_suppression},
    Translation{"", "DepthToSpace", 1, translate_blocks<OpKind::kDepthToSpace>},
    Translation{"", "SpaceToDepth", 1, translate_blocks<OpKind::kSpaceToDepth>},
    Translation{"", "ReverseSequence", 10, translate_reverse_sequence},
};

}  // namespace

std::span<const Translation> movement_translations() { return kRows; }

}  // namespace vernier::onnx
