// Linear(x, w, b) + r ⇒ Linear(x, w, b, r)
//   requires: the product used once, no residual yet; r of its shape and type; one request that
//   satisfies both. Sums that feed a LayerNorm belong to AddLayerNorm, whose pass runs earlier.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

bool fuse(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kAdd) return false;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId product = n.inputs[i], residual = n.inputs[1 - i];
    const Node* linear = producer_of(graph, product, OpKind::kLinear);
    if (!linear || linear->inputs.size() > 3 || !graph.single_use(product)) continue;
    if (!same_shape(shape_of(graph, residual), shape_of(graph, product)) ||
        dtype_of(graph, residual) != dtype_of(graph, product))
      continue;
    const auto request = fused_request(*linear, n);
    if (!request) continue;
    std::vector<ValueId> inputs = linear->inputs;
    inputs.resize(3, kNoValue);
    inputs.push_back(residual);
    OriginSet origins;
    origins.add(graph, linear);
    origins.add(graph, &n);
    mutate(graph, id, OpKind::kLinear, std::move(inputs), linear->attrs);
    graph.node(id).origins = origins.list();
    graph.node(id).request = *request;
    return true;
  }
  return false;
}

}  // namespace

int fuse_linear_residual(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += fuse(graph, id);
  }
  return found;
}

}  // namespace vernier::passes
