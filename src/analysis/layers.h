// The layers of a Transformer: which nodes of a raised graph form a layer, which come before and
// after the layers, and the residual sums. Depends on structure, never on names: positions relative
// to raised Attentions and residual sums. The one definition for roles, `layer:` and `inspect
// --raised`.
#pragma once
#include <vector>

#include "analysis/facts.h"

namespace vernier::analysis {

using NodeSet = std::vector<bool>;  ///< by NodeId

/// By NodeId (removed nodes: none). A layer is an Attention with the norm and projections that feed
/// only it, and what follows it up to the next one. Self and cross attention without a feed-forward
/// branch between them share a layer. Layers are numbered from 0 in order of depth. A norm after
/// the last residual sum belongs to the last layer in a post-norm model, else to no layer.
struct Layers {
  static constexpr int kNone = -1;
  int count = 0;
  std::vector<int> of;  ///< the layer of a node, or kNone
  /// For a residual sum (Add of a branch to the value that the branch was computed from) the
  /// operand that is not the branch; kNoValue for every other node.
  std::vector<ValueId> skip;
  NodeSet ffn_up;    ///< Linear layers that begin a feed-forward branch, including its gate
  NodeSet ffn_down;  ///< the Linear layer that ends it
  /// Nodes that q, k and v of the first layers come from; without any layer, lookups in constant
  /// tables.
  NodeSet before;
  NodeSet behind;  ///< nodes that depend on a layer and lead to no further layer

  bool is_residual(NodeId node) const { return skip[node] != kNoValue; }
};
/// Finds the layers. Cost: the graph's size times its attentions.
Layers layers_of(const Graph& raised);

}  // namespace vernier::analysis
