// Attention(q, repeat(k), repeat(v)) ⇒ Attention(q, k, v)
//   repeat: [B, S, Hk, 1, D] expanded to [B, S, Hk, G, D], seen as [B, S, Hk·G, D];
//           or, of one head, [B, S, 1, D] expanded to [B, S, G, D]
//   requires: k and v repeated in the same way; Hk constant. Attention itself shares key heads.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

// The value [B, S, 1, D] that is expanded to this one, or kNoValue.
ValueId before_expand(const Graph& graph, ValueId value) {
  const Node* expand = producer_of(graph, value, OpKind::kExpand);
  if (!expand) return kNoValue;
  const SymShape &one = shape_of(graph, expand->inputs[0]), &wide = shape_of(graph, value);
  const bool repeats = one.size() == 4 && wide.size() == 4 && one[0] == wide[0] &&
                       one[1] == wide[1] && one[2] == Dim(1) && one[3] == wide[3];
  return repeats ? expand->inputs[0] : kNoValue;
}

// The value [B, S, Hk, 1, D] or [B, S, 1, D] under a repetition, or kNoValue.
ValueId before_repeat(const Graph& graph, ValueId value) {
  const ValueId one = before_expand(graph, value);
  if (one != kNoValue) return one;
  const Node* view = producer_of(graph, value, OpKind::kReshape);
  const Node* expand = view ? producer_of(graph, view->inputs[0], OpKind::kExpand) : nullptr;
  if (!expand) return kNoValue;
  const SymShape &narrow = shape_of(graph, expand->inputs[0]),
                 &wide = shape_of(graph, view->inputs[0]), &out = shape_of(graph, value);
  if (narrow.size() != 5 || wide.size() != 5 || out.size() != 4) return kNoValue;
  const bool repeats = narrow[3] == Dim(1) && wide[2].is_constant() && narrow[0] == wide[0] &&
                       narrow[1] == wide[1] && narrow[2] == wide[2] && narrow[4] == wide[4];
  const bool merges =
      wide[0] == out[0] && wide[1] == out[1] && wide[2] * wide[3] == out[2] && wide[4] == out[3];
  return repeats && merges ? expand->inputs[0] : kNoValue;
}

ValueId without_group_axis(Graph& graph, ValueId value, const std::vector<Origin>& origins) {
  const SymShape s = shape_of(graph, value);
  if (s.size() == 4) return value;
  return emit_reshape(graph, value, {s[0], s[1], s[2], s[4]}, origins);
}

bool ungroup(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kAttention) return false;
  const ValueId k = before_repeat(graph, n.inputs[1]), v = before_repeat(graph, n.inputs[2]);
  if (k == kNoValue || v == kNoValue) return false;
  if (!(shape_of(graph, k)[2] == shape_of(graph, v)[2])) return false;
  std::vector<ValueId> inputs = n.inputs;
  OriginSet origins;
  origins.add(graph, &n);
  for (size_t i : {size_t{1}, size_t{2}}) {
    const char* part = i == 1 ? "k" : "v";
    const Node* repeat = graph.producer(inputs[i]);
    origins.add(graph, repeat, part);
    if (repeat->op == OpKind::kReshape) origins.add(graph, graph.producer(repeat->inputs[0]), part);
  }
  inputs[1] = without_group_axis(graph, k, {});
  inputs[2] = without_group_axis(graph, v, {});
  graph.node(id).origins = origins.list();
  mutate(graph, id, OpKind::kAttention, std::move(inputs), graph.node(id).attrs);
  return true;
}

}  // namespace

int raise_grouped_heads(Graph& graph) {
  static constexpr Rule kRules[] = {&ungroup};
  const int found = apply_rules(graph, kRules);
  return found == 0 ? 0 : found + canonicalise(graph);
}

}  // namespace vernier::passes
