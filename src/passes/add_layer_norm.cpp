// LayerNorm(x + r, scale, bias) ⇒ AddLayerNorm(x, r, scale, bias), with x + r as second output if
//   the sum has other uses.
//   requires: x and r have the sum's shape and type; one request satisfies both nodes
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

bool fuse(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op != OpKind::kLayerNorm || n.outputs.size() != 1) return false;
  const ValueId sum = n.inputs[0];
  const Node* add = producer_of(graph, sum, OpKind::kAdd);
  if (!add) return false;
  for (ValueId operand : add->inputs) {
    if (!same_shape(shape_of(graph, operand), shape_of(graph, sum)) || constant_of(graph, operand))
      return false;
  }
  const auto attrs = n.attrs_as<NormAttrs>();
  // The fused operator needs parameters of exactly the normalized axes.
  const auto axes =
      static_cast<size_t>(attrs.axis < 0 ? -attrs.axis : rank_of(graph, sum) - attrs.axis);
  std::vector<ValueId> inputs = add->inputs;
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (n.has_input(i) && shape_of(graph, n.inputs[i]).size() != axes) return false;
    inputs.push_back(n.inputs[i]);
  }
  const bool keeps_sum = !graph.single_use(sum);
  // A sum that is kept is stored in the result's type.
  const auto request = keeps_sum ? common_request(n.request, add->request) : fused_request(*add, n);
  if (!request) return false;
  OriginSet origins;
  origins.add(graph, add, "sum");
  origins.add(graph, &n);
  const ValueId out = ops::emit(graph, OpKind::kAddLayerNorm, std::move(inputs), attrs,
                                origins.list(), keeps_sum ? 2 : 1);
  graph.producer(out)->request = *request;
  graph.replace_uses(graph.node(id).outputs[0], out);
  if (keeps_sum) {
    graph.set_inputs(id, {});  // the norm is dead; its use of the sum must not be replaced
    graph.replace_uses(sum, graph.producer(out)->outputs[1]);
  }
  const NodeId sum_node = graph.value(sum).producer;
  graph.drop_dead(id);
  graph.drop_dead(sum_node);
  return true;
}

}  // namespace

int fuse_add_layer_norm(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += fuse(graph, id);
  }
  graph.remove_dead();
  return found;
}

}  // namespace vernier::passes
