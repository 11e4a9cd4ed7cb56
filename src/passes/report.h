// What raising found and what it did not find: the output of `inspect --raised`.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace vernier::passes {

/// Composites of one layer (analysis/layers.h); two attentions where a decoder's layer has self and
/// cross attention.
struct LayerParts {
  int attention = 0, norm = 0, linear = 0, activation = 0;
  friend bool operator==(const LayerParts&, const LayerParts&) = default;
};

/// A node that looks like part of a composite but was not raised.
struct Leftover {
  std::string node;     ///< ONNX name and key
  std::string op;       ///< its operator
  std::string pattern;  ///< the candidate: "Attention", "LayerNorm or RMSNorm", "Gelu"
  std::string stopped;  ///< the node that stopped the match, and what was expected there
};

struct RaiseReport {
  std::map<std::string, int> composites;  ///< by operator name
  std::vector<LayerParts> layers;
  LayerParts outside;   ///< in no layer: embeddings, heads
  int shape_nodes = 0;  ///< nodes that only compute sizes (ShapeValues aside)
  std::vector<Leftover> leftovers;
};

/// `graph`: after Phase::kRaise.
RaiseReport raise_report(const ir::Graph& graph);

/// "12 layers of 1 attention, 2 norms, 6 linears, 1 activation", then the leftovers.
std::string to_text(const RaiseReport& report);

}  // namespace vernier::passes
