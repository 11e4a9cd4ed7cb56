// AddLayerNorm(Linear(x, w, b), r, scale, c) ⇒ LinearAddLayerNorm(x, w, b, r, scale, c), with the
//   addends in either order
//   requires: the product used once, with no activation or residual, and stored in the result's
//   type (a kernel may round it to that type); w constant; the sum not kept; rows of the last axis;
//   one parameter per column; one request that satisfies both, not of int8; a kernel of the
//   device's own
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

// The norm merged with the product that is its addend `i`, or nothing if they stay two nodes.
std::optional<Node> fused(const Graph& graph, const Node& norm, size_t i) {
  const ValueId product = norm.inputs[i], residual = norm.inputs[1 - i];
  const Node* linear = producer_of(graph, product, OpKind::kLinear);
  if (!linear || linear->inputs.size() > 3 || !graph.single_use(product)) return std::nullopt;
  if (is_quantized(linear->request.compute.type)) return std::nullopt;
  const auto attrs = linear->attrs_as<LinearAttrs>();
  if (attrs.activation != Activation::kNone || !constant_of(graph, linear->inputs[1]))
    return std::nullopt;
  if (!same_shape(shape_of(graph, residual), shape_of(graph, product)) ||
      dtype_of(graph, product) != dtype_of(graph, norm.outputs[0]))
    return std::nullopt;
  const auto request = fused_request(*linear, norm);
  if (!request) return std::nullopt;
  Node node = norm;
  node.op = OpKind::kLinearAddLayerNorm;
  node.attrs = encode(
      LinearNormAttrs{.trans_w = attrs.trans_w, .epsilon = norm.attrs_as<NormAttrs>().epsilon});
  node.inputs = linear->inputs;
  node.inputs.resize(3, kNoValue);
  node.inputs.push_back(residual);
  node.inputs.insert(node.inputs.end(), norm.inputs.begin() + 2, norm.inputs.end());
  OriginSet origins;
  origins.add(graph, linear);
  origins.add(graph, &norm);
  node.origins = origins.list();
  node.request = *request;
  return node;
}

bool norms_columns(const Graph& graph, const Node& norm) {
  const SymShape& shape = shape_of(graph, norm.outputs[0]);
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  const int64_t axis = norm.attrs_as<NormAttrs>().axis;
  if (axis != -1 && axis != last) return false;
  return std::all_of(norm.inputs.begin() + 2, norm.inputs.end(), [&](ValueId parameter) {
    return parameter == kNoValue || same_shape(shape_of(graph, parameter), {shape.back()});
  });
}

bool fuse(Graph& graph, NodeId id, const Takes& takes) {
  const Node& norm = graph.node(id);
  if (norm.op != OpKind::kAddLayerNorm || norm.apart || norm.outputs.size() != 1 ||
      !norms_columns(graph, norm))
    return false;
  for (size_t i : {size_t{0}, size_t{1}}) {
    const std::optional<Node> node = fused(graph, norm, i);
    if (!node || !takes(graph, *node)) continue;
    graph.node(id).origins = node->origins;
    graph.node(id).request = node->request;
    mutate(graph, id, node->op, node->inputs, node->attrs);
    return true;
  }
  return false;
}

}  // namespace

int fuse_linear_add_layer_norm(Graph& graph, const PassOptions& options) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id)) found += fuse(graph, id, options.takes);
  }
  return found;
}

}  // namespace vernier::passes
