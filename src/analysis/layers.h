// The layers of a Transformer: which nodes of a raised graph make one, which lie before and behind
// them, and what each layer adds up. Structure, never names: positions relative to raised
// Attentions and residual sums. The one definition: of roles, of `layer:` and of `inspect
// --raised`.
#pragma once
#include <vector>

#include "analysis/facts.h"

namespace vernier::analysis {

using NodeSet = std::vector<bool>;  ///< by NodeId

/// By NodeId (removed nodes: none). A layer is an Attention with the norm and projections that feed
/// only it, and what follows it up to the next one. Self and cross attention without a feed-forward
/// branch between share a layer. Layers count from 0 along the depth. A norm behind the last
/// residual sum belongs to the last layer where norms follow the sums, else to none.
struct Layers {
  static constexpr int kNone = -1;
  int count = 0;
  std::vector<int> of;  ///< the layer that a node stands in, or kNone
  /// Of a residual sum (Add of a branch to the value that the branch was computed from): the
  /// operand that is no branch; kNoValue of every other node.
  std::vector<ValueId> skip;
  NodeSet ffn_up;    ///< Linear layers that open a feed-forward branch, the gate's too
  NodeSet ffn_down;  ///< the Linear layer that ends it
  /// What q, k and v of the first layers come from; without any layer, lookups in constant tables.
  NodeSet before;
  NodeSet behind;  ///< what descends from a layer and leads to no further one

  bool is_residual(NodeId node) const { return skip[static_cast<size_t>(node)] != kNoValue; }
};
/// Reads them. Linear in the graph's size times its attentions.
Layers layers_of(const Graph& raised);

}  // namespace vernier::analysis
