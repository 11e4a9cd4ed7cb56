// Removes sizes from the data flow: the results of a shape chain are known as expressions, so
// operators take their shapes as attributes and the chain becomes dead.
//   Reshape(x, s), Squeeze, Unsqueeze, Flatten ⇒ Reshape{shape}(x)
//   Expand(x, s) ⇒ Expand{shape}(x)
//     requires of all: no size of data that x does not have, here and below
//   ConstantOfShape{c}(s) ⇒ Expand{shape}(c)
//   Slice(x, starts, ends, axes, steps) ⇒ Slice{starts, steps, sizes}(x)
//     requires: constant steps; starts constant, non-negative or of a constant axis
//   Gather(x, i) ⇒ Reshape(Slice(x))   requires: one constant index, non-negative or constant axis
//   Split(x, sizes) ⇒ Split{sizes}(x)  requires: constant sizes
//   Reduce*(x, axes) ⇒ Reduce*{axes}(x)  requires: constant axes
//   a small integer tensor with known contents that is still needed as data ⇒ ShapeValues
//   identities (same type, same shape) are removed
#include <algorithm>

#include "passes/canonicalise.h"

namespace vernier::passes {
namespace {

bool all_equal_to(std::span<const int64_t> list, int64_t wanted) {
  return std::all_of(list.begin(), list.end(), [wanted](int64_t v) { return v == wanted; });
}

// Operators that keep every element in place if the shape does not change. Not the flag kMoves,
// which includes operators that reorder or repeat elements; also sums and the like with one
// operand.
bool keeps_elements(const Graph& graph, const Node& n) {
  switch (n.op) {
    case OpKind::kIdentity:
    case OpKind::kReshape:
    case OpKind::kExpand:
    case OpKind::kSqueeze:
    case OpKind::kUnsqueeze:
    case OpKind::kFlatten:
    case OpKind::kTile:
      return true;
    case OpKind::kCast:
      return n.attrs_as<CastAttrs>().to == dtype_of(graph, n.inputs[0]);
    case OpKind::kTranspose: {
      const auto perm = n.attrs_as<TransposeAttrs>().perm;
      return std::is_sorted(perm.begin(), perm.end());
    }
    case OpKind::kSlice: {
      if (n.attrs_as<SliceAttrs>().inline_starts)
        return all_equal_to(n.attrs_as<SliceAttrs>().steps, 1);
      if (!n.has_input(4)) return true;
      const auto steps = integers_of(graph, n.inputs[4]);
      return steps && all_equal_to(*steps, 1);
    }
    case OpKind::kClip:
      return !n.has_input(1) && !n.has_input(2);
    case OpKind::kConcat:
    case OpKind::kMin:
    case OpKind::kMax:
    case OpKind::kSum:
    case OpKind::kMean:
      return n.inputs.size() == 1;
    case OpKind::kSplit:
      return n.outputs.size() == 1;
    default:
      return false;
  }
}

bool drop_identity(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.inputs.empty() || !n.has_output(0)) return false;
  if (!keeps_elements(graph, n)) return false;
  if (!same_shape(shape_of(graph, n.inputs[0]), shape_of(graph, n.outputs[0]))) return false;
  return replace_by(graph, id, n.inputs[0], "changes nothing");
}

bool take_shape(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  const SymShape shape = n.has_output(0) ? shape_of(graph, n.outputs[0]) : SymShape{};
  const auto brings_sizes = [&] {
    return ops::brings_data_sizes(graph, shape, std::span(n.inputs).first(1));
  };
  switch (n.op) {
    case OpKind::kReshape:
    case OpKind::kExpand:
      if (n.attrs_as<ShapeAttrs>().has_shape || brings_sizes()) return false;
      mutate(graph, id, n.op, {n.inputs[0]}, shape_attrs(shape));
      return true;
    case OpKind::kSqueeze:
    case OpKind::kUnsqueeze:
    case OpKind::kFlatten:
      if (brings_sizes()) return false;
      mutate(graph, id, OpKind::kReshape, {n.inputs[0]}, shape_attrs(shape));
      return true;
    case OpKind::kConstantOfShape:
      return become_uniform(graph, id, n.attrs_as<ConstantOfShapeAttrs>().value);
    default:
      return false;
  }
}

// The start as a position from the front of a non-empty axis; empty if it is not known at build
// time.
std::optional<int64_t> front_position(int64_t start, const Dim& size, int64_t step) {
  const auto known = size.as_constant();
  if (known) {
    const int64_t at = start < 0 ? start + *known : start;
    return step > 0 ? std::clamp<int64_t>(at, 0, *known) : std::clamp<int64_t>(at, 0, *known - 1);
  }
  if (start < 0 || step < 0) return std::nullopt;
  return start;
}

bool inline_slice(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kSlice || n.attrs_as<SliceAttrs>().inline_starts) return false;
  const auto starts = integers_of(graph, n.inputs[1]);
  if (!starts) return false;
  SliceAttrs attrs;
  attrs.inline_starts = true;
  attrs.steps.assign(starts->size(), 1);
  for (size_t i = 0; i < starts->size(); ++i) attrs.axes.push_back(static_cast<int64_t>(i));
  if (n.has_input(3)) {
    const auto axes = integers_of(graph, n.inputs[3]);
    if (!axes) return false;
    attrs.axes = *axes;
  }
  if (n.has_input(4)) {
    const auto steps = integers_of(graph, n.inputs[4]);
    if (!steps) return false;
    attrs.steps = *steps;
  }
  const SymShape &in = shape_of(graph, n.inputs[0]), &out = shape_of(graph, n.outputs[0]);
  if (ops::brings_data_sizes(graph, out, std::span(n.inputs).first(1))) return false;
  const auto rank = static_cast<int64_t>(in.size());
  for (size_t i = 0; i < starts->size(); ++i) {
    attrs.axes[i] = (attrs.axes[i] + rank) % rank;
    const auto axis = static_cast<size_t>(attrs.axes[i]);
    if (in[axis] == Dim(0) || out[axis] == Dim(0)) return false;  // no valid start position
    const auto at = front_position((*starts)[i], in[axis], attrs.steps[i]);
    if (!at) return false;
    attrs.starts.push_back(*at);
    attrs.sizes.push_back(out[axis]);
  }
  mutate(graph, id, OpKind::kSlice, {n.inputs[0]}, attrs);
  return true;
}

bool gather_one(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kGather || graph.value(n.outputs[0]).values) return false;
  const Tensor* index = constant_of(graph, n.inputs[1]);
  if (!index || index->elems() != 1) return false;
  const ValueId data = n.inputs[0];
  const int64_t rank = rank_of(graph, data);
  const int64_t axis = (n.attrs_as<AxisAttrs>().axis + rank) % rank;
  const Dim size = shape_of(graph, data)[axis];
  int64_t at = index->integer_at(0);
  if (at < 0) {
    if (!size.is_constant()) return false;
    at += size.constant();
  }
  if (at < 0 || (size.is_constant() && at >= size.constant())) return false;
  const SymShape out = shape_of(graph, n.outputs[0]);
  SliceAttrs attrs;
  attrs.inline_starts = true;
  attrs.starts = {at};
  attrs.axes = {axis};
  attrs.steps = {1};
  attrs.sizes = {Dim(1)};
  const ValueId slice = ops::emit(graph, OpKind::kSlice, {data}, attrs, n.origins);
  mutate(graph, id, OpKind::kReshape, {slice}, shape_attrs(out));
  return true;
}

bool inline_split(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kSplit) return false;
  auto attrs = n.attrs_as<SplitAttrs>();
  const int64_t rank = rank_of(graph, n.inputs[0]);
  const int64_t axis = (attrs.axis + rank) % rank;
  if (n.inputs.size() == 1 && !attrs.sizes.empty() && attrs.axis == axis) return false;
  SplitAttrs fixed{axis, 0, {}};
  for (ValueId out : n.outputs) {
    if (out == kNoValue) return false;
    const Dim size = shape_of(graph, out)[axis];
    if (!size.is_constant()) return false;
    fixed.sizes.push_back(size.constant());
  }
  graph.set_inputs(id, {n.inputs[0]});
  graph.node(id).attrs = encode(fixed);
  ops::infer_node(graph, id);
  return true;
}

bool is_reduction(OpKind op) {
  for (OpKind kind : {OpKind::kReduceSum, OpKind::kReduceMean, OpKind::kReduceMax,
                      OpKind::kReduceMin, OpKind::kReduceProd, OpKind::kReduceL1, OpKind::kReduceL2,
                      OpKind::kReduceLogSum, OpKind::kReduceLogSumExp, OpKind::kReduceSumSquare}) {
    if (op == kind) return true;
  }
  return false;
}

// Axes as sorted non-negative attributes; "all axes" is written out.
bool inline_reduce_axes(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (!is_reduction(n.op)) return false;
  auto attrs = n.attrs_as<ReduceAttrs>();
  std::vector<int64_t> axes = attrs.axes;
  if (n.has_input(1)) {
    const auto given = integers_of(graph, n.inputs[1]);
    if (!given) return false;
    axes = *given;
  }
  const int64_t rank = rank_of(graph, n.inputs[0]);
  if (axes.empty()) {
    if (attrs.noop_with_empty_axes || rank == 0) return false;
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  for (int64_t& axis : axes) axis = (axis + rank) % rank;
  std::sort(axes.begin(), axes.end());
  if (n.inputs.size() == 1 && axes == attrs.axes) return false;
  attrs.axes = std::move(axes);
  mutate(graph, id, n.op, {n.inputs[0]}, attrs);
  return true;
}

bool to_shape_values(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op == OpKind::kShapeValues || n.outputs.size() != 1 || !n.has_output(0)) return false;
  const ir::Value& v = graph.value(n.outputs[0]);
  if (!v.values || !is_integer(v.dtype) || v.values->empty()) return false;
  if (ops::brings_data_sizes(graph, *v.values, {})) return false;
  const ShapeValuesAttrs attrs{*v.values, v.dtype, v.shape.empty()};
  if (v.shape.size() <= 1) {
    mutate(graph, id, OpKind::kShapeValues, {}, attrs);
    return true;
  }
  if (n.op == OpKind::kReshape && producer_of(graph, n.inputs[0], OpKind::kShapeValues))
    return false;
  const SymShape shape = v.shape;
  const ValueId flat = ops::emit(graph, OpKind::kShapeValues, {}, attrs, n.origins);
  mutate(graph, id, OpKind::kReshape, {flat}, shape_attrs(shape));
  return true;
}

}  // namespace

std::span<const Rule> shape_rules() {
  static constexpr Rule kRules[] = {&drop_identity,     &to_shape_values, &take_shape,
                                    &inline_slice,      &gather_one,      &inline_split,
                                    &inline_reduce_axes};
  return kRules;
}

}  // namespace vernier::passes
