// Functions that replace nodes: see rewrite.h.
#include "passes/rewrite.h"

#include <algorithm>
#include <map>

namespace vernier::passes {
namespace {
// Rounds end when one changes nothing, or at these limits: a rule that moves a node by one position
// per round (a view up a chain) would need as many rounds as there are nodes.
constexpr size_t kMaxRounds = 100;
constexpr size_t kMaxVisits = size_t{1} << 20;
constexpr size_t kChangesPerNode = 4, kFewChanges = 20'000;
}  // namespace

ValueId add_constant_like(Graph& graph, ValueId like, Tensor tensor) {
  const DType type = dtype_of(graph, like);
  const ValueId id = graph.add_constant(std::move(tensor));
  graph.value(id).dtype = type;
  return id;
}

ValueId add_scalar(Graph& graph, DType dtype, double value) {
  if (is_float(dtype)) return graph.add_constant(Tensor::scalar(dtype, value));
  const std::vector<int64_t> one{static_cast<int64_t>(value)};
  return graph.add_constant(Tensor::from(dtype, {}, std::span<const int64_t>(one)));
}

void mutate(Graph& graph, NodeId id, OpKind op, std::vector<ValueId> inputs, AttrBytes attrs) {
  VERNIER_ASSERT(graph.node(id).outputs.size() == 1);
  graph.set_inputs(id, std::move(inputs));
  graph.node(id).op = op;
  graph.node(id).attrs = std::move(attrs);
  ops::infer_node(graph, id);
}

bool replace_by(Graph& graph, NodeId node, ValueId value, const char* why) {
  const ValueId out = graph.node(node).outputs[0];
  const bool from_outside = graph.producer(value) == nullptr;
  if (graph.is_output(out) && from_outside) return false;
  graph.retire(graph.node(node).origins, LedgerState::kRemoved, why);
  graph.replace_uses(out, value);
  return true;
}

bool become(Graph& graph, NodeId node, ValueId value, const char* why) {
  const ValueId out = graph.node(node).outputs[0];
  const SymShape shape = shape_of(graph, out);
  if (same_shape(shape_of(graph, value), shape)) return replace_by(graph, node, value, why);
  if (ops::brings_data_sizes(graph, shape, std::span(&value, 1))) return false;
  mutate(graph, node, OpKind::kExpand, {value}, shape_attrs(shape));
  return true;
}

bool become_uniform(Graph& graph, NodeId node, double c) {
  const ValueId out = graph.node(node).outputs[0];
  const SymShape shape = shape_of(graph, out);
  if (ops::brings_data_sizes(graph, shape, {})) return false;
  const ValueId scalar = add_scalar(graph, dtype_of(graph, out), c);
  mutate(graph, node, OpKind::kExpand, {scalar}, shape_attrs(shape));
  return true;
}

ValueId emit_size(Graph& graph, const Dim& size) {
  return ops::emit(graph, OpKind::kShapeValues, {},
                   ShapeValuesAttrs{.values = {size}, .scalar = true}, {});
}
ValueId emit_size_list(Graph& graph, const Dim& size) {
  return ops::emit(graph, OpKind::kShapeValues, {}, ShapeValuesAttrs{.values = {size}}, {});
}

ShapeAttrs shape_attrs(SymShape shape) {
  ShapeAttrs attrs;
  // A 0 is an empty axis, not "copy from the input".
  attrs.allowzero = std::find(shape.begin(), shape.end(), Dim(0)) != shape.end();
  attrs.shape = std::move(shape);
  attrs.has_shape = true;
  return attrs;
}

ValueId emit_reshape(Graph& graph, ValueId value, SymShape shape,
                     const std::vector<Origin>& origins) {
  if (same_shape(shape_of(graph, value), shape)) return value;
  return ops::emit(graph, OpKind::kReshape, {value}, shape_attrs(std::move(shape)), origins);
}
ValueId emit_transpose(Graph& graph, ValueId value, std::vector<int64_t> perm,
                       const std::vector<Origin>& origins) {
  return ops::emit(graph, OpKind::kTranspose, {value}, TransposeAttrs{std::move(perm)}, origins);
}
ValueId emit_expand(Graph& graph, ValueId value, SymShape shape,
                    const std::vector<Origin>& origins) {
  if (same_shape(shape_of(graph, value), shape)) return value;
  return ops::emit(graph, OpKind::kExpand, {value}, shape_attrs(std::move(shape)), origins);
}

int apply_rules(Graph& graph, std::span<const Rule> rules) {
  int changes = 0;
  size_t visits = 0;
  const size_t max_changes = kFewChanges + kChangesPerNode * graph.order().size();
  for (size_t round = 0; round < kMaxRounds; ++round) {
    int found = merge_duplicates(graph);
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!is_live(graph, id) || graph.node(id).apart) continue;
      const bool changed =
          std::any_of(rules.begin(), rules.end(), [&](Rule rule) { return rule(graph, id); });
      found += changed;
    }
    graph.remove_dead();
    graph.sort();
    ops::apply_substitutions(graph);
    changes += found;
    visits += order.size();
    if (found == 0 || visits > kMaxVisits || static_cast<size_t>(changes) > max_changes) break;
  }
  return changes;
}

namespace {

// Does a result have sizes of data that no operand has? Others may name them.
bool makes_sizes(const Graph& graph, const Node& n) {
  return std::ranges::any_of(n.outputs, [&](ValueId out) {
    return out != kNoValue && ops::brings_data_sizes(graph, shape_of(graph, out), n.inputs);
  });
}

}  // namespace

int merge_duplicates(Graph& graph) {
  using Key = std::tuple<OpKind, std::vector<ValueId>, size_t, AttrBytes>;
  std::map<Key, NodeId> seen;
  int merged = 0;
  for (NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    if ((flags(n.op) & kDataDependent) != 0 || !n.subgraphs.empty() || !is_live(graph, id) ||
        makes_sizes(graph, n))
      continue;
    const auto [it, fresh] = seen.try_emplace(Key{n.op, n.inputs, n.outputs.size(), n.attrs}, id);
    if (fresh) continue;
    const Node& kept = graph.node(it->second);
    bool same_outputs = true;
    for (size_t i = 0; i < n.outputs.size(); ++i)
      same_outputs = same_outputs && (kept.has_output(i) || !n.has_output(i));
    if (!same_outputs) continue;
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.has_output(i)) graph.replace_uses(n.outputs[i], kept.outputs[i]);
    }
    graph.retire(n.origins, LedgerState::kMerged, "computes the same as another node");
    ++merged;
  }
  return merged;
}

bool can_absorb(const Graph& graph, NodeId node, const Node& inner) {
  return graph.node(node).origins.size() + inner.origins.size() <= kMaxOrigins;
}

void absorb_origins(Graph& graph, NodeId node, const Node& inner) {
  ir::merge_origins(graph.node(node).origins, inner.origins);
  const ValueId out = inner.outputs[0];
  const bool dies = inner.outputs.size() == 1 && out != kNoValue && graph.single_use(out);
  if (dies) graph.producer(out)->origins.clear();
}

void OriginSet::add(const Graph&, const Node* node, std::string_view part) {
  if (node) add_list(node->origins, part);
}

void OriginSet::add_list(std::vector<Origin> origins, std::string_view part) {
  for (Origin& o : origins) {
    if (o.part.empty()) o.part = part;
  }
  ir::merge_origins(origins_, origins);
}

}  // namespace vernier::passes
