// Moves broadcasts down the graph to an operator that broadcasts by itself, so that masks and
// position tables stay small.
//   f(Expand(a), b) ⇒ f(a, b)             f elementwise;  requires: the result keeps its shape
//   f(Expand(a), b) ⇒ Expand(f(a, b))     f elementwise;  otherwise
//   Expand(Expand(a)) ⇒ Expand(a)
//   Reshape(Expand(a)) ⇒ Expand(Reshape(a))      requires: the reshape moves only axes of size 1
//   Transpose(Expand(a)) ⇒ Expand(Transpose(a))
//   Reduce(Expand(a)) ⇒ Expand(Reduce(a))        requires: reduced axes were not expanded
//   Attention(…, Expand(bias), Expand(keep)) ⇒ Attention(…, bias, keep)
//   Gather(x, Expand(i)) ⇒ Expand(Gather(x, i))  requires: axis 0
//   Reshape(Tile(a, [n, 1, …])) ⇒ Expand(Reshape(a))  requires: to [n, the shape of a]
//   a layout change or gather of a uniform tensor ⇒ Expand of its scalar
#include <algorithm>

#include "passes/canonicalise.h"

namespace vernier::passes {
namespace {

const Node* expand_of(const Graph& graph, ValueId value) {
  const Node* n = producer_of(graph, value, OpKind::kExpand);
  return n && n->attrs_as<ShapeAttrs>().has_shape ? n : nullptr;
}

// `shape` with leading ones up to `rank`.
SymShape padded(SymShape shape, size_t rank) {
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), Dim(1));
  return shape;
}

bool sink_through_elementwise(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if ((flags(n.op) & kElementwise) == 0 || n.outputs.size() != 1) return false;
  std::vector<ValueId> inputs = n.inputs;
  bool any = false;
  for (ValueId& in : inputs) {
    if (in == kNoValue || !expand_of(graph, in)) continue;
    in = expand_of(graph, in)->inputs[0];
    any = true;
  }
  if (!any) return false;
  std::vector<SymShape> shapes;
  for (ValueId in : inputs) {
    if (in != kNoValue) shapes.push_back(shape_of(graph, in));
  }
  const auto shape = broadcast_shape(shapes);
  if (!shape) return false;
  const SymShape wanted = shape_of(graph, n.outputs[0]);
  if (same_shape(*shape, wanted)) {
    mutate(graph, id, n.op, std::move(inputs), n.attrs);
    return true;
  }
  const ValueId small = ops::emit(graph, n.op, std::move(inputs), n.attrs, n.origins);
  mutate(graph, id, OpKind::kExpand, {small}, shape_attrs(wanted));
  return true;
}

bool merge_expands(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kExpand || !n.attrs_as<ShapeAttrs>().has_shape) return false;
  const Node* inner = expand_of(graph, n.inputs[0]);
  if (!inner) return false;
  mutate(graph, id, OpKind::kExpand, {inner->inputs[0]}, n.attrs);
  return true;
}

bool sink_through_reshape(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kReshape || !n.attrs_as<ShapeAttrs>().has_shape) return false;
  const Node* expand = expand_of(graph, n.inputs[0]);
  if (!expand) return false;
  const SymShape wide = shape_of(graph, n.inputs[0]);
  const SymShape out = shape_of(graph, n.outputs[0]);
  if (!differ_by_unit_axes(wide, out)) return false;
  const SymShape narrow = padded(shape_of(graph, expand->inputs[0]), wide.size());
  SymShape shape(out.size(), Dim(1));
  size_t next = 0;
  for (size_t axis = 0; axis < out.size(); ++axis) {
    if (out[axis] == Dim(1)) continue;
    while (wide[next] == Dim(1)) ++next;
    shape[axis] = narrow[next++];
  }
  const ValueId small = emit_reshape(graph, expand->inputs[0], std::move(shape), n.origins);
  mutate(graph, id, OpKind::kExpand, {small}, shape_attrs(out));
  return true;
}

bool sink_through_transpose(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kTranspose) return false;
  const Node* expand = expand_of(graph, n.inputs[0]);
  if (!expand) return false;
  const auto perm = n.attrs_as<TransposeAttrs>().perm;
  const ValueId source = expand->inputs[0];
  const ValueId full =
      emit_reshape(graph, source, padded(shape_of(graph, source), perm.size()), n.origins);
  const SymShape out = shape_of(graph, n.outputs[0]);
  const ValueId small = emit_transpose(graph, full, perm, n.origins);
  mutate(graph, id, OpKind::kExpand, {small}, shape_attrs(out));
  return true;
}

bool sink_through_reduce(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kReduceSum && n.op != OpKind::kReduceMean && n.op != OpKind::kReduceMax &&
      n.op != OpKind::kReduceMin)
    return false;
  const auto attrs = n.attrs_as<ReduceAttrs>();
  const Node* expand = expand_of(graph, n.inputs[0]);
  if (!expand || n.inputs.size() != 1 || attrs.axes.empty()) return false;
  const SymShape &wide = shape_of(graph, n.inputs[0]), &narrow = shape_of(graph, expand->inputs[0]);
  if (wide.size() != narrow.size()) return false;
  for (int64_t axis : attrs.axes) {
    const auto at = static_cast<size_t>(axis);
    if (!(wide[at] == narrow[at])) return false;
  }
  const SymShape out = shape_of(graph, n.outputs[0]);
  const ValueId small = ops::emit(graph, n.op, {expand->inputs[0]}, attrs, n.origins);
  mutate(graph, id, OpKind::kExpand, {small}, shape_attrs(out));
  return true;
}

bool sink_through_gather(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kGather || n.attrs_as<AxisAttrs>().axis != 0) return false;
  const Node* expand = expand_of(graph, n.inputs[1]);
  if (!expand) return false;
  const SymShape out = shape_of(graph, n.outputs[0]);
  const ValueId index = expand->inputs[0];
  const size_t index_rank = shape_of(graph, n.inputs[1]).size();
  const ValueId full =
      emit_reshape(graph, index, padded(shape_of(graph, index), index_rank), n.origins);
  const ValueId small = ops::emit(graph, OpKind::kGather, {n.inputs[0], full}, n.attrs, n.origins);
  mutate(graph, id, OpKind::kExpand, {small}, shape_attrs(out));
  return true;
}

bool attention_broadcasts(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kAttention) return false;
  std::vector<ValueId> inputs = n.inputs;
  bool any = false;
  using enum AttentionAttrs::Input;
  for (size_t i : {kBias, kKeep, kKeepQueries}) {
    if (i >= inputs.size()) break;
    const Node* expand = inputs[i] == kNoValue ? nullptr : expand_of(graph, inputs[i]);
    if (!expand) continue;
    inputs[i] = expand->inputs[0];
    any = true;
  }
  if (any) mutate(graph, id, OpKind::kAttention, std::move(inputs), n.attrs);
  return any;
}

bool expand_tile(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kReshape || !n.attrs_as<ShapeAttrs>().has_shape) return false;
  const Node* tile = producer_of(graph, n.inputs[0], OpKind::kTile);
  const auto& repeats = tile ? graph.value(tile->inputs[1]).values : std::nullopt;
  if (!repeats || repeats->empty()) return false;
  SymShape one = shape_of(graph, tile->inputs[0]);
  one.insert(one.begin(), Dim(1));
  SymShape wide = one;
  wide[0] = repeats->front();
  const bool leading = std::all_of(repeats->begin() + 1, repeats->end(),
                                   [](const Dim& times) { return times == Dim(1); });
  if (!leading || !same_shape(wide, shape_of(graph, n.outputs[0]))) return false;
  const ValueId small = emit_reshape(graph, tile->inputs[0], std::move(one), tile->origins);
  mutate(graph, id, OpKind::kExpand, {small}, shape_attrs(std::move(wide)));
  return true;
}

bool spread_uniform(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  // The result of this rule is an Expand of a scalar.
  const bool moves = (flags(n.op) & kMoves) != 0 && n.op != OpKind::kExpand;
  if (!moves || n.outputs.size() != 1 || !n.has_output(0)) return false;
  const auto c = uniform(graph, n.inputs[0]);
  if (!c || graph.value(n.outputs[0]).values) return false;
  return become_uniform(graph, id, *c);
}

}  // namespace

std::span<const Rule> expand_rules() {
  static constexpr Rule kRules[] = {
      &spread_uniform,       &merge_expands,          &sink_through_elementwise,
      &sink_through_reshape, &sink_through_transpose, &sink_through_reduce,
      &sink_through_gather,  &attention_broadcasts,   &expand_tile};
  return kRules;
}

}  // namespace vernier::passes
