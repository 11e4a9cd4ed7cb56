// Parts of an attention besides its two products: masks, head layout, rotary tables. Formulas and
// conditions: attention.cpp.
#pragma once
#include "passes/attention.h"

namespace vernier::passes {

struct CombinedMasks {
  ValueId bias = kNoValue, keep = kNoValue;
  ValueId keep_queries = kNoValue;  ///< beside scores by relative position: [.., Sq, 1]
  bool causal = false, zero_hidden_rows = false;
  double fill = -__builtin_huge_val();
  std::vector<Origin> origins;  ///< of mask nodes that the composite replaces
};
/// The terms as one bias, one keep mask and a causal flag; emits the nodes that combine them. Empty
/// if their order or fills do not allow it (the trace has the reason).
std::optional<CombinedMasks> combine_terms(Graph& graph, const AttentionMatch& match,
                                           Trace* trace = nullptr);

/// Batch and heads of scores [B, H, Sq, Sk], or of [B·H, Sq, Sk] if q was split from [S, B, H·D];
/// otherwise one head.
struct HeadSplit {
  Dim batch, heads;
};
HeadSplit head_split(const Graph& graph, const AttentionMatch& match);

struct RotaryMatch {
  ValueId q = kNoValue, k = kNoValue, cos = kNoValue, sin = kNoValue;
  bool interleaved = false;
  std::vector<Origin> origins;
};
/// q and k [B, H, S, D], both rotated with the same tables: x·cos + rotate_half(x)·sin.
std::optional<RotaryMatch> match_rotary(const Graph& graph, ValueId q, ValueId k);
/// A table [.., 1, S, D] as Attention takes it, [.., S, 1, D].
ValueId rotary_table(Graph& graph, ValueId table, const std::vector<Origin>& origins);

/// k from kᵀ: the value that the exporter transposed, or a new Transpose.
ValueId untransposed_key(Graph& graph, ValueId k_transposed, const std::vector<Origin>& origins);

}  // namespace vernier::passes
