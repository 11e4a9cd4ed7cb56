// The matcher of scaled dot-product attention, shared by its pass and the raise report. Formula and
// conditions: attention.cpp.
#pragma once
#include "passes/match.h"

namespace vernier::passes {

/// One term between the scaled products and the softmax, innermost first.
struct ScoreTerm {
  enum class Kind : uint8_t { kBias, kKeep } kind = Kind::kBias;
  ValueId value = kNoValue;  ///< what is added, or the condition
  double factor = 1;         ///< bias: the factor that follows it
  bool negated = false;      ///< keep: the condition is true where scores are hidden
  double fill = 0;           ///< keep: the score where it is hidden
};

/// Scores by relative position: GatherElements(positions, index) along the last axis, of queries
/// [.., Sq, P] with an index [.., Sq, Sk], or of keys [.., Sk, P] with one [.., Sk, Sq],
/// transposed.
struct PositionTerm {
  ValueId positions = kNoValue, index = kNoValue;
  double factor = 1;
};

struct AttentionMatch {
  ValueId q = kNoValue, k_transposed = kNoValue, v = kNoValue;  ///< operands of the two products
  double scale = 1;
  std::vector<ScoreTerm> terms;
  std::optional<PositionTerm> query_positions, key_positions;
  bool zero_nan_rows = false;
  /// kKeep: where it hides them, probabilities are 0; only beside scores by relative position.
  std::optional<ScoreTerm> zeroed;
  ValueId scores = kNoValue, probs = kNoValue, out = kNoValue;  ///< products and softmax, by value
};

/// Matches around the Softmax node.
std::optional<AttentionMatch> match_attention(const Graph& graph, NodeId softmax,
                                              Trace* trace = nullptr);

}  // namespace vernier::passes
