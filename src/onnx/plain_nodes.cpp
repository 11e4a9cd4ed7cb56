// Operators that standard ONNX has, too: see plain_nodes.h. The reading side: the translations of
// elementwise.cpp, movement.cpp, matrix.cpp, …
#include "onnx/plain_nodes.h"

#include <optional>

#include "core/attrs.h"
#include "core/error.h"
#include "onnx/element_types.h"

namespace vernier::onnx {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;
using enum OpKind;

std::string axes_or_nothing(GraphNodes& nodes, const std::vector<int64_t>& axes) {
  return axes.empty() ? std::string() : nodes.integers(axes);
}
int64_t flag(bool value) { return value ? 1 : 0; }
int64_t type_number(DType type) { return static_cast<int64_t>(element_type_number(type)); }

void add_list(MadeAttributes& made, const char* name, const std::vector<int64_t>& list) {
  if (!list.empty()) made.push_back({name, list});
}
void add_auto_pad(MadeAttributes& made, int64_t auto_pad) {
  static constexpr const char* kNames[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  if (auto_pad != 0) made.push_back({"auto_pad", std::string(kNames[auto_pad])});
}
// Kernel, strides, dilations and pads of convolutions and pools.
template <class A>
MadeAttributes window_attributes(const A& attrs) {
  MadeAttributes made;
  add_list(made, "kernel_shape", attrs.kernel_shape);
  add_list(made, "strides", attrs.strides);
  add_list(made, "dilations", attrs.dilations);
  if (attrs.auto_pad == 0) add_list(made, "pads", attrs.pads);
  add_auto_pad(made, attrs.auto_pad);
  return made;
}
MadeAttributes conv_attributes(const Node& node) {
  const auto attrs = node.attrs_as<ConvAttrs>();
  MadeAttributes made = window_attributes(attrs);
  made.push_back({"group", attrs.group});
  if (node.op == kConvTranspose) {
    add_list(made, "output_padding", attrs.output_padding);
    add_list(made, "output_shape", attrs.output_shape);
  }
  return made;
}
MadeAttributes pool_attributes(const Node& node) {
  const auto attrs = node.attrs_as<PoolAttrs>();
  MadeAttributes made = window_attributes(attrs);
  made.push_back({"ceil_mode", flag(attrs.ceil_mode)});
  if (node.op == kAveragePool) made.push_back({"count_include_pad", flag(attrs.count_include_pad)});
  return made;
}

std::string mode_of(PadMode mode) {
  static constexpr const char* kNames[] = {"constant", "reflect", "edge", "wrap"};
  return kNames[static_cast<size_t>(mode)];
}
std::string mode_of(Interpolation mode) {
  static constexpr const char* kNames[] = {"nearest", "linear", "cubic"};
  return kNames[static_cast<size_t>(mode)];
}
std::string mode_of(Padding padding) {
  static constexpr const char* kNames[] = {"zeros", "border", "reflection"};
  return kNames[static_cast<size_t>(padding)];
}
std::string mode_of(ScatterReduction reduction) {
  static constexpr const char* kNames[] = {"none", "add", "mul", "min", "max"};
  return kNames[static_cast<size_t>(reduction)];
}
std::string mode_of(LossReduction reduction) {
  static constexpr const char* kNames[] = {"none", "sum", "mean"};
  return kNames[static_cast<size_t>(reduction)];
}

MadeAttributes resize_attributes(const ResizeAttrs& attrs) {
  MadeAttributes made{{"mode", mode_of(attrs.mode)},
                      {"coordinate_transformation_mode", attrs.coordinate_mode},
                      {"nearest_mode", attrs.nearest_mode},
                      {"keep_aspect_ratio_policy", attrs.aspect_policy},
                      {"cubic_coeff_a", attrs.cubic_a},
                      {"extrapolation_value", attrs.extrapolation_value},
                      {"exclude_outside", flag(attrs.exclude_outside)},
                      {"antialias", flag(attrs.antialias)}};
  add_list(made, "axes", attrs.axes);
  return made;
}

MadeAttributes activation_attributes(const Node& node) {
  const auto attrs = node.attrs_as<ActivationAttrs>();
  switch (node.op) {
    case kSelu:
      return {{"alpha", attrs.alpha}, {"gamma", attrs.beta}};
    case kHardSigmoid:
      return {{"alpha", attrs.alpha}, {"beta", attrs.beta}};
    default:
      return {{"alpha", attrs.alpha}};
  }
}

MadeAttributes quantize_attributes(const Node& node) {
  const auto attrs = node.attrs_as<QuantizeAttrs>();
  MadeAttributes made{{"axis", attrs.axis}, {"block_size", attrs.block_size}};
  if (node.op == kDequantizeLinear) return made;
  made.push_back({"saturate", flag(attrs.saturate)});
  if (!node.has_input(2) && attrs.dtype != DType::kUndefined)
    made.push_back({"output_dtype", type_number(attrs.dtype)});
  return made;
}

// The attributes of operators whose inputs are written as they are.
std::optional<MadeAttributes> attributes_of(const Node& node) {
  switch (node.op) {
    case kGelu: {
      const bool tanh = node.attrs_as<GeluAttrs>().kind == GeluKind::kTanh;
      return MadeAttributes{{"approximate", std::string(tanh ? "tanh" : "none")}};
    }
    case kLeakyRelu:
    case kElu:
    case kCelu:
    case kSelu:
    case kHardSigmoid:
    case kThresholdedRelu:
      return activation_attributes(node);
    case kMod:
      return MadeAttributes{{"fmod", flag(node.attrs_as<ModAttrs>().fmod)}};
    case kBitShift:
      return MadeAttributes{
          {"direction", std::string(node.attrs_as<BitShiftAttrs>().left ? "LEFT" : "RIGHT")}};
    case kIsInf: {
      const auto attrs = node.attrs_as<IsInfAttrs>();
      return MadeAttributes{{"detect_negative", flag(attrs.detect_negative)},
                            {"detect_positive", flag(attrs.detect_positive)}};
    }
    case kCast: {
      const auto attrs = node.attrs_as<CastAttrs>();
      MadeAttributes made{{"to", type_number(attrs.to)}};
      if (is_small_float(attrs.to) && !is_packed(attrs.to))
        made.push_back({"saturate", flag(attrs.saturate)});
      return made;
    }
    case kArgMax:
    case kArgMin: {
      const auto attrs = node.attrs_as<ArgReduceAttrs>();
      return MadeAttributes{{"axis", attrs.axis},
                            {"keepdims", flag(attrs.keepdims)},
                            {"select_last_index", flag(attrs.select_last_index)}};
    }
    case kCumSum: {
      const auto attrs = node.attrs_as<CumSumAttrs>();
      return MadeAttributes{{"exclusive", flag(attrs.exclusive)}, {"reverse", flag(attrs.reverse)}};
    }
    case kTopK: {
      const auto attrs = node.attrs_as<TopKAttrs>();
      return MadeAttributes{
          {"axis", attrs.axis}, {"largest", flag(attrs.largest)}, {"sorted", flag(attrs.sorted)}};
    }
    case kSoftmax:
    case kLogSoftmax:
    case kHardmax:
    case kConcat:
    case kGather:
    case kGatherElements:
    case kFlatten:
      return MadeAttributes{{"axis", node.attrs_as<AxisAttrs>().axis}};
    case kLpNormalization: {
      const auto attrs = node.attrs_as<LpNormAttrs>();
      return MadeAttributes{{"axis", attrs.axis}, {"p", attrs.p}};
    }
    case kGemm: {
      const auto attrs = node.attrs_as<GemmAttrs>();
      return MadeAttributes{{"alpha", attrs.alpha},
                            {"beta", attrs.beta},
                            {"transA", flag(attrs.trans_a)},
                            {"transB", flag(attrs.trans_b)}};
    }
    case kEinsum:
      return MadeAttributes{{"equation", node.attrs_as<EinsumAttrs>().equation}};
    case kConv:
    case kConvTranspose:
      return conv_attributes(node);
    case kMaxPool:
    case kAveragePool:
      return pool_attributes(node);
    case kBatchNormalization:
      return MadeAttributes{{"epsilon", node.attrs_as<BatchNormAttrs>().epsilon}};
    case kQuantizeLinear:
    case kDequantizeLinear:
      return quantize_attributes(node);
    case kNegativeLogLikelihoodLoss: {
      const auto attrs = node.attrs_as<LossAttrs>();
      MadeAttributes made{{"reduction", mode_of(attrs.reduction)}};
      if (attrs.ignores) made.push_back({"ignore_index", attrs.ignore_index});
      return made;
    }
    case kShape: {
      const auto attrs = node.attrs_as<ShapeOfAttrs>();
      return MadeAttributes{{"start", attrs.start}, {"end", attrs.end}};
    }
    case kTranspose:
      return MadeAttributes{{"perm", node.attrs_as<TransposeAttrs>().perm}};
    case kEyeLike: {
      const auto attrs = node.attrs_as<EyeLikeAttrs>();
      MadeAttributes made{{"k", attrs.k}};
      if (attrs.dtype != DType::kUndefined) made.push_back({"dtype", type_number(attrs.dtype)});
      return made;
    }
    case kGatherND:
      return MadeAttributes{{"batch_dims", node.attrs_as<GatherNDAttrs>().batch_dims}};
    case kScatterElements: {
      const auto attrs = node.attrs_as<ScatterAttrs>();
      return MadeAttributes{{"axis", attrs.axis}, {"reduction", mode_of(attrs.reduction)}};
    }
    case kScatterND:
      return MadeAttributes{{"reduction", mode_of(node.attrs_as<ScatterAttrs>().reduction)}};
    case kPad:
      return MadeAttributes{{"mode", mode_of(node.attrs_as<PadAttrs>().mode)}};
    case kTrilu:
      return MadeAttributes{{"upper", flag(node.attrs_as<TriluAttrs>().upper)}};
    case kOneHot:
      return MadeAttributes{{"axis", node.attrs_as<OneHotAttrs>().axis}};
    case kCompress: {
      const auto attrs = node.attrs_as<CompressAttrs>();
      MadeAttributes made;
      if (!attrs.flat) made.push_back({"axis", attrs.axis});
      return made;
    }
    case kUnique: {
      const auto attrs = node.attrs_as<UniqueAttrs>();
      MadeAttributes made{{"sorted", flag(attrs.sorted)}};
      if (!attrs.flat) made.push_back({"axis", attrs.axis});
      return made;
    }
    case kNonMaxSuppression:
      return MadeAttributes{
          {"center_point_box", flag(node.attrs_as<NonMaxSuppressionAttrs>().center_point_box)}};
    case kDepthToSpace: {
      const auto attrs = node.attrs_as<BlockSizeAttrs>();
      return MadeAttributes{{"blocksize", attrs.block_size},
                            {"mode", std::string(attrs.crd ? "CRD" : "DCR")}};
    }
    case kSpaceToDepth:
      return MadeAttributes{{"blocksize", node.attrs_as<BlockSizeAttrs>().block_size}};
    case kReverseSequence: {
      const auto attrs = node.attrs_as<ReverseSequenceAttrs>();
      return MadeAttributes{{"batch_axis", attrs.batch_axis}, {"time_axis", attrs.time_axis}};
    }
    case kGridSample: {
      const auto attrs = node.attrs_as<GridSampleAttrs>();
      return MadeAttributes{{"mode", mode_of(attrs.mode)},
                            {"padding_mode", mode_of(attrs.padding)},
                            {"align_corners", flag(attrs.align_corners)}};
    }
    case kRoiAlign: {
      const auto attrs = node.attrs_as<RoiAlignAttrs>();
      return MadeAttributes{{"coordinate_transformation_mode",
                             std::string(attrs.half_pixel ? "half_pixel" : "output_half_pixel")},
                            {"mode", std::string(attrs.max ? "max" : "avg")},
                            {"output_height", attrs.height},
                            {"output_width", attrs.width},
                            {"sampling_ratio", attrs.sampling_ratio},
                            {"spatial_scale", attrs.spatial_scale}};
    }
    case kResize:
      return resize_attributes(node.attrs_as<ResizeAttrs>());
    default:
      break;
  }
  if ((flags(node.op) & kComposite) != 0) return std::nullopt;
  switch (node.op) {
    case kMatMul:
    case kDet:
    case kGlobalAveragePool:
    case kGlobalMaxPool:
    case kSize:
    case kRange:
    case kTile:
    case kNonZero:
      return MadeAttributes{};
    default:
      break;
  }
  // Elementwise operators without attributes have ONNX's names.
  if ((flags(node.op) & kElementwise) != 0 && node.op != kSwish) return MadeAttributes{};
  return std::nullopt;
}

// ---- operators whose attributes are ONNX's inputs

std::string shape_input(const ShapeAttrs& attrs, const std::vector<std::string>& inputs,
                        GraphNodes& nodes) {
  return attrs.has_shape ? nodes.sizes(attrs.shape) : inputs.at(1);
}

void write_slice(const Node& node, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs, GraphNodes& nodes) {
  const auto attrs = node.attrs_as<SliceAttrs>();
  if (!attrs.inline_starts) return nodes.add("Slice", inputs, outputs);
  SymShape ends;
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    const int64_t step = attrs.steps[i];
    const Dim end = Dim(attrs.starts[i]) + attrs.sizes[i] * Dim(step);
    if (step > 0) {
      ends.push_back(end);
      continue;
    }
    // Before the first element: what is far below 0.
    const auto known = end.as_constant();
    if (!known)
      throw Error(ErrorCode::kInput, "node '" + node.name +
                                         "' (Slice) steps backwards over a size "
                                         "that is not fixed, which is not written");
    ends.emplace_back(*known >= 0 ? *known : -(int64_t{1} << 40));
  }
  nodes.add("Slice",
            {inputs[0], nodes.integers(attrs.starts), nodes.sizes(ends), nodes.integers(attrs.axes),
             nodes.integers(attrs.steps)},
            outputs);
}

void write_split(const Node& node, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs, GraphNodes& nodes) {
  const auto attrs = node.attrs_as<SplitAttrs>();
  MadeAttributes made{{"axis", attrs.axis}};
  std::string sizes = inputs.size() > 1 ? inputs[1] : "";
  if (!attrs.sizes.empty()) sizes = nodes.integers(attrs.sizes);
  if (sizes.empty()) made.push_back({"num_outputs", static_cast<int64_t>(outputs.size())});
  std::vector<std::string> all = outputs;
  for (std::string& name : all)
    if (name.empty()) name = nodes.fresh("unread");
  nodes.add("Split", {inputs[0], sizes}, all, made);
}

void write_shape_values(const Node& node, const std::string& output, GraphNodes& nodes) {
  const auto attrs = node.attrs_as<ShapeValuesAttrs>();
  std::string values = nodes.sizes(attrs.values);
  if (attrs.dtype != DType::kI64)
    values = nodes.make("Cast", {values}, {{"to", type_number(attrs.dtype)}});
  const std::vector<int64_t> none, list{static_cast<int64_t>(attrs.values.size())};
  nodes.add("Reshape", {values, nodes.integers(attrs.scalar ? none : list)}, {output});
}

// QuantizeLinear or DequantizeLinear, whose real numbers are not of f64 in ONNX.
bool write_in_f32(const Graph& graph, const Node& node, std::vector<std::string> inputs,
                  const std::vector<std::string>& outputs, const MadeAttributes& attributes,
                  GraphNodes& nodes) {
  const auto is_f64 = [&](ValueId id) { return graph.value(id).dtype == DType::kF64; };
  const auto to = [](DType type) { return MadeAttributes{{"to", type_number(type)}}; };
  for (const size_t i : {size_t{0}, size_t{1}})
    if (is_f64(node.inputs[i])) inputs[i] = nodes.make("Cast", {inputs[i]}, to(DType::kF32));
  const std::string op(name(node.op));
  if (!is_f64(node.outputs[0])) {
    nodes.add(op, inputs, outputs, attributes);
    return true;
  }
  const std::string y = nodes.make(op, inputs, attributes);
  nodes.add("Cast", {y}, outputs, to(DType::kF64));
  return true;
}

}  // namespace

bool write_plain_node(const Graph& graph, const Node& node, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs, GraphNodes& nodes) {
  if (!node.subgraphs.empty()) return false;
  const auto axes_input = [&](const std::vector<int64_t>& axes) {
    return inputs.size() > 1 && !inputs[1].empty() ? inputs[1] : axes_or_nothing(nodes, axes);
  };
  switch (node.op) {
    case kReduceSum:
    case kReduceMean:
    case kReduceMax:
    case kReduceMin:
    case kReduceProd:
    case kReduceL1:
    case kReduceL2:
    case kReduceLogSum:
    case kReduceLogSumExp:
    case kReduceSumSquare: {
      const auto attrs = node.attrs_as<ReduceAttrs>();
      nodes.add(std::string(name(node.op)), {inputs[0], axes_input(attrs.axes)}, outputs,
                {{"keepdims", flag(attrs.keepdims)},
                 {"noop_with_empty_axes", flag(attrs.noop_with_empty_axes)}});
      return true;
    }
    case kSqueeze:
    case kUnsqueeze: {
      const auto attrs = node.attrs_as<AxesAttrs>();
      nodes.add(std::string(name(node.op)),
                {inputs[0], attrs.given ? axes_input(attrs.axes) : std::string()}, outputs);
      return true;
    }
    case kReshape: {
      const auto attrs = node.attrs_as<ShapeAttrs>();
      const bool as_it_is = attrs.has_shape || attrs.allowzero;
      nodes.add("Reshape", {inputs[0], shape_input(attrs, inputs, nodes)}, outputs,
                {{"allowzero", flag(as_it_is)}});
      return true;
    }
    case kExpand:
      nodes.add("Expand", {inputs[0], shape_input(node.attrs_as<ShapeAttrs>(), inputs, nodes)},
                outputs);
      return true;
    case kConstantOfShape: {
      const auto attrs = node.attrs_as<ConstantOfShapeAttrs>();
      const Tensor value = Tensor::from(attrs.dtype, {1}, std::span(&attrs.value, 1));
      nodes.add("ConstantOfShape", {attrs.has_shape ? nodes.sizes(attrs.shape) : inputs.at(0)},
                outputs, {{"value", value}});
      return true;
    }
    case kShapeValues:
      write_shape_values(node, outputs[0], nodes);
      return true;
    case kSlice:
      write_slice(node, inputs, outputs, nodes);
      return true;
    case kSplit:
      write_split(node, inputs, outputs, nodes);
      return true;
    case kMaxPoolIndices: {
      const auto attrs = node.attrs_as<PoolIndicesAttrs>();
      MadeAttributes made = window_attributes(attrs);
      made.push_back({"ceil_mode", flag(attrs.ceil_mode)});
      made.push_back({"storage_order", flag(attrs.column_major)});
      nodes.add("MaxPool", inputs, {nodes.fresh("unread"), outputs[0]}, made);
      return true;
    }
    case kSwish: {
      const DType type = graph.value(node.inputs[0]).dtype;
      const std::string alpha = nodes.number(type, node.attrs_as<ActivationAttrs>().alpha);
      const std::string gate = nodes.make("Sigmoid", {nodes.make("Mul", {inputs[0], alpha})});
      nodes.add("Mul", {inputs[0], gate}, outputs);
      return true;
    }
    case kGroupNormalization: {
      const auto attrs = node.attrs_as<GroupNormAttrs>();
      MadeAttributes made{{"epsilon", attrs.epsilon}};
      if (attrs.num_groups > 0) made.push_back({"num_groups", attrs.num_groups});
      nodes.add(attrs.num_groups > 0 ? "GroupNormalization" : "InstanceNormalization", inputs,
                outputs, made);
      return true;
    }
    default:
      break;
  }
  const auto attributes = attributes_of(node);
  if (!attributes) return false;
  if (node.op == kQuantizeLinear || node.op == kDequantizeLinear)
    return write_in_f32(graph, node, inputs, outputs, *attributes, nodes);
  nodes.add(std::string(name(node.op)), inputs, outputs, *attributes);
  return true;
}

}  // namespace vernier::onnx
