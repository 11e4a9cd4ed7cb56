// x / max(√(sum x²), c) ⇒ L2Norm{minimum = c}(x)
//   with √(sum x²) as ReduceL2, or as the root of ReduceSumSquare or of ReduceSum of x·x or x²
//   requires: the sum over the last axis, kept as 1; c > 0 constant (Clip or Max); the values
//   between x and the quotient not used elsewhere. canonicalise has removed an Expand of the
//   divisor (canonicalise_expand.cpp).
#include "passes/match.h"
#include "passes/passes.h"

namespace vernier::passes {
namespace {

using enum OpKind;

struct L2Match {
  ValueId x = kNoValue;
  double minimum = 0;
};

// √(sum x²) over the last axis, kept as 1.
bool is_norm_of(const Graph& graph, ValueId value, ValueId x) {
  const Patterns p(graph);
  ValueId sum = kNoValue;  // or the norm, of ReduceL2
  const auto square =
      p.either(p.op<kMul>(p.same(x), p.same(x)), p.op<kPow>(p.same(x), p.scalar(2)));
  const auto squares =
      p.as(sum, p.either(p.op<kReduceSumSquare>(p.same(x)), p.op<kReduceSum>(square)));
  const auto root = p.either(p.op<kSqrt>(squares), p.op<kPow>(squares, p.scalar(0.5)));
  if (!p.either(p.as(sum, p.op<kReduceL2>(p.same(x))), root)(value)) return false;
  const Node& reduction = *graph.producer(under_casts(graph, sum));
  return reduces_last_axes(graph, reduction) == rank_of(graph, x) - 1;
}

// Every value from the divisor up to x has one use. The norm is the first operand of all.
bool is_read_here_only(const Graph& graph, ValueId divisor, ValueId x) {
  const ValueId source = under_casts(graph, x);
  ValueId v = divisor;
  while (!same_value(graph, under_casts(graph, v), source)) {
    if (!graph.single_use(v)) return false;
    v = graph.producer(v)->inputs[0];
  }
  return true;
}

std::optional<L2Match> match(const Graph& graph, const Node& n) {
  if (n.op != kDiv) return std::nullopt;
  L2Match m{.x = n.inputs[0]};
  ValueId norm = kNoValue;
  if (!is_float(dtype_of(graph, m.x)) || !is_clamped(graph, n.inputs[1], norm, m.minimum))
    return std::nullopt;
  if (!is_norm_of(graph, norm, m.x) || !is_read_here_only(graph, n.inputs[1], m.x))
    return std::nullopt;
  // A constant of a higher rank than x would broadcast the quotient.
  if (!same_shape(shape_of(graph, n.outputs[0]), shape_of(graph, m.x))) return std::nullopt;
  return m;
}

}  // namespace

int raise_l2_norm(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!is_live(graph, id) || graph.node(id).apart) continue;
    const auto m = match(graph, graph.node(id));
    if (!m) continue;
    const ValueId out = graph.node(id).outputs[0];
    OriginSet set;
    const ValueId stop[] = {m->x, under_casts(graph, m->x)};
    collect_origins(graph, out, stop, set);
    graph.replace_uses(out, ops::emit(graph, kL2Norm, {m->x}, L2NormAttrs{m->minimum}, set.list()));
    ++found;
  }
  return found;
}

}  // namespace vernier::passes
