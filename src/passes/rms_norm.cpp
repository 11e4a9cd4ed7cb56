// x / sqrt(mean(x²) + ε) · scale ⇒ RMSNorm(x, scale)
//   requires: the mean over the last axes, kept as 1; scale of those axes' shape. Variants as in
//   layer_norm.cpp. With a mean subtracted first it is a LayerNorm, whose pass runs earlier.
#include "passes/norms.h"
#include "passes/passes.h"

namespace vernier::passes {

int raise_rms_norm(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!is_live(graph, id) || graph.node(id).apart) continue;
    const auto match = match_rms_norm(graph, id);
    if (!match) continue;
    replace_norm(graph, OpKind::kRMSNorm, *match);
    ++found;
  }
  return found;
}

}  // namespace vernier::passes
