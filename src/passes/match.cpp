// Helpers for patterns: see match.h.
#include "passes/match.h"

#include <algorithm>
#include <set>

namespace vernier::passes {

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
