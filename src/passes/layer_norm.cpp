// (x − mean(x)) / sqrt(mean((x − mean(x))²) + ε) · scale + bias ⇒ LayerNorm(x, scale, bias)
//   requires: both means over the same last axes, kept as 1; scale and bias of those axes' shape.
//   Variants: d·d or Pow(d, 2); Sqrt or Pow ½; Div, Reciprocal, 1/…, or Pow −½; no scale or bias;
//   no ε; TensorFlow's x·i + (bias − mean·i) with i = scale / sqrt(…); Casts between float types
//   anywhere (the wider type is kept as a request).
#include "passes/norms.h"
#include "passes/passes.h"

namespace vernier::passes {

int raise_layer_norm(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!is_live(graph, id) || graph.node(id).apart) continue;
    const auto match = match_layer_norm(graph, id);
    if (!match) continue;
    replace_norm(graph, OpKind::kLayerNorm, *match);
    ++found;
  }
  return found;
}

}  // namespace vernier::passes
