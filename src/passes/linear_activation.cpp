// f(Linear(x, w, b)) ⇒ Linear{activation = f}(x, w, b)   f: Gelu (erf, tanh), Relu, Tanh
//   requires: the product used once; no activation or residual yet; one request that satisfies both
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {

std::optional<Activation> activation_of(const Node& n) {
  switch (n.op) {
    case OpKind::kGelu:
      return n.attrs_as<GeluAttrs>().kind == GeluKind::kErf ? Activation::kGeluErf
                                                            : Activation::kGeluTanh;
    case OpKind::kRelu:
      return Activation::kRelu;
    case OpKind::kTanh:
      return Activation::kTanh;
    default:
      return std::nullopt;
  }
}

namespace {

bool fuse(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  const auto activation = activation_of(n);
  if (!activation) return false;
  const Node* linear = producer_of(graph, n.inputs[0], OpKind::kLinear);
  if (!linear || linear->inputs.size() > 3 || !graph.single_use(n.inputs[0])) return false;
  auto attrs = linear->attrs_as<LinearAttrs>();
  if (attrs.activation != Activation::kNone) return false;
  const auto request = fused_request(*linear, n);
  if (!request) return false;
  attrs.activation = *activation;
  const std::vector<ValueId> inputs = linear->inputs;
  OriginSet origins;
  origins.add(graph, linear);
  origins.add(graph, &n);
  mutate(graph, id, OpKind::kLinear, inputs, attrs);
  graph.node(id).origins = origins.list();
  graph.node(id).request = *request;
  return true;
}

}  // namespace

int fuse_linear_activation(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += fuse(graph, id);
  }
  return found;
}

}  // namespace vernier::passes
