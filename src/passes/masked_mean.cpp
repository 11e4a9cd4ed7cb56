// ReduceSum(x·m, axis 1) / max(ReduceSum(m, axis 1), c) ⇒ MaskedMean{minimum = c}(x, m)
//   with x [B, S, H] and m [B, S, 1] (or [B, S, H] expanded from it)
//   requires: the same m above and below, the same keepdims; c > 0 constant (Clip or Max)
#include "passes/match.h"
#include "passes/passes.h"

namespace vernier::passes {
namespace {

using enum OpKind;

struct MeanMatch {
  ValueId x = kNoValue, mask = kNoValue;
  double minimum = 0;
};

bool sums_axis_one(const Graph& graph, ValueId value) {
  const Node* n = producer_of(graph, under_casts(graph, value), kReduceSum);
  if (!n || n->inputs.size() != 1 || rank_of(graph, n->inputs[0]) != 3) return false;
  return n->attrs_as<ReduceAttrs>().axes == std::vector<int64_t>{1};
}

std::optional<MeanMatch> match(const Graph& graph, const Node& n) {
  if (n.op != kDiv) return std::nullopt;
  const Patterns p(graph);
  MeanMatch m;
  ValueId count = kNoValue;
  if (!is_clamped(graph, n.inputs[1], count, m.minimum)) return std::nullopt;
  if (!sums_axis_one(graph, n.inputs[0]) || !sums_axis_one(graph, count)) return std::nullopt;
  if (!p.op<kReduceSum>(p.any(m.mask))(count)) return std::nullopt;
  if (!p.op<kReduceSum>(p.op<kMul>(p.same(m.mask), p.any(m.x)))(n.inputs[0])) return std::nullopt;
  const SymShape &x = shape_of(graph, m.x), &mask = shape_of(graph, m.mask);
  const bool fits =
      x.size() == 3 && mask.size() == 3 && mask[0] == x[0] && mask[1] == x[1] && mask[2] == Dim(1);
  const bool typed = dtype_of(graph, m.x) == dtype_of(graph, n.outputs[0]);
  if (!fits || !typed) return std::nullopt;
  return m;
}

}  // namespace

int raise_masked_mean(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!is_live(graph, id) || graph.node(id).apart) continue;
    const auto m = match(graph, graph.node(id));
    if (!m) continue;
    const ValueId out = graph.node(id).outputs[0];
    const SymShape shape = shape_of(graph, out), x = shape_of(graph, m->x);
    OriginSet set;
    const ValueId stop[] = {m->x, m->mask};
    collect_origins(graph, out, stop, set);
    const std::vector<Origin>& origins = set.list();
    const ValueId mask = emit_reshape(graph, m->mask, {x[0], x[1]}, origins);
    const ValueId mean =
        ops::emit(graph, kMaskedMean, {m->x, mask}, MaskedMeanAttrs{m->minimum}, origins);
    graph.replace_uses(out, emit_reshape(graph, mean, shape, origins));
    ++found;
  }
  return found;
}

}  // namespace vernier::passes
