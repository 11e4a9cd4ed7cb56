// Matchers of the decomposed normalizations, shared by their passes and the raise report.
#pragma once
#include "passes/match.h"

namespace vernier::passes {

/// y = (x − mean(x)) / sqrt(var(x) + epsilon) · scale + bias, written in single operators.
struct NormMatch {
  ValueId x = kNoValue, scale = kNoValue, bias = kNoValue;  ///< scale and bias may be absent
  int64_t axis = 0;  ///< first normalized axis, from the front
  double epsilon = 0;
  ValueId out = kNoValue;  ///< the last value the match covers
};

/// Matches from the node that divides by (or multiplies with the inverse of) the deviation.
std::optional<NormMatch> match_layer_norm(const Graph& graph, NodeId anchor,
                                          Trace* trace = nullptr);
/// As match_layer_norm, without mean and bias: y = x / sqrt(mean(x²) + epsilon) · scale.
std::optional<NormMatch> match_rms_norm(const Graph& graph, NodeId anchor, Trace* trace = nullptr);

/// Replaces what was matched by one composite.
void replace_norm(Graph& graph, OpKind op, const NormMatch& match);

}  // namespace vernier::passes
