// Helpers of patterns: see match.h.
#include "passes/match.h"

#include <algorithm>
#include <set>

namespace vernier::passes {

std::optional<int64_t> reduces_last_axes(const Graph& graph, const Node& node) {
  const auto attrs = node.attrs_as<ReduceAttrs>();
  const int64_t rank = rank_of(graph, node.inputs[0]);
  if (!attrs.keepdims || attrs.axes.empty() || node.inputs.size() != 1) return std::nullopt;
  int64_t expected = rank - static_cast<int64_t>(attrs.axes.size());
  for (int64_t axis : attrs.axes) {
    if ((axis + rank) % rank != expected++) return std::nullopt;
  }
  return rank - static_cast<int64_t>(attrs.axes.size());
}

bool is_clamped(const Graph& graph, ValueId value, ValueId& inner, double& minimum) {
  value = under_casts(graph, value);
  const Node* n = producer_of(graph, value, OpKind::kClip);
  if (!n) n = producer_of(graph, value, OpKind::kMax);
  if (!n || n->inputs.size() < 2) return false;
  const bool is_clip = n->op == OpKind::kClip;
  const bool upper = is_clip && n->inputs.size() > 2 && n->inputs[2] != kNoValue;
  if (upper || (!is_clip && n->inputs.size() != 2)) return false;
  const auto c = n->inputs[1] == kNoValue ? std::nullopt : uniform(graph, n->inputs[1]);
  if (!c || !(*c > 0)) return false;
  inner = n->inputs[0];
  minimum = *c;
  return true;
}

void collect_origins(const Graph& graph, ValueId root, std::span<const ValueId> stop,
                     OriginSet& origins, int limit) {
  std::vector<ValueId> stack{root};
  std::set<ValueId> seen(stop.begin(), stop.end());
  std::set<NodeId> nodes;
  while (!stack.empty() && static_cast<int>(nodes.size()) < limit) {
    const ValueId v = stack.back();
    stack.pop_back();
    if (v == kNoValue || !seen.insert(v).second || !graph.producer(v)) continue;
    nodes.insert(graph.value(v).producer);
    for (ValueId in : graph.producer(v)->inputs) stack.push_back(in);
  }
  for (NodeId id : nodes) origins.add(graph, &graph.node(id));
}

}  // namespace vernier::passes
