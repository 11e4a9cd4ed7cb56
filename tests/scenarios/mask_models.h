// Small Transformers with the masks of well-known ones, node for node as PyTorch's exporter writes
// them, and one attention with any spelling of a mask. Weights are seeded. Used by mask_test.cpp.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "verify/verify.h"

namespace vernier::verify::field {

/// DeBERTa-v2 and v3: disentangled attention, a mask over pairs of positions, so that the queries
/// of padding see nothing.
enum class DebertaMask : uint8_t {
  kMaskedFill,  ///< masked_fill(~mask, finfo.min), softmax
  kXSoftmax     ///< the same, and masked_fill(~mask, 0) behind the softmax
};
enum class DebertaOutput : uint8_t {
  kTokens,         ///< the states of all tokens
  kFirstToken,     ///< that of the first one
  kProbabilities,  ///< of all tokens, and the probabilities, so that no Attention is raised
};
/// Two heads of `head_dim`.
std::string deberta_bytes(DebertaMask mask, DebertaOutput output = DebertaOutput::kTokens,
                          int64_t head_dim = 16);
/// Of rows with these numbers of valid positions, length 7.
NamedTensors deberta_inputs(const std::vector<int64_t>& valid);

/// GPT-2 with a cache: Where(causal, scores, finfo.min) + (1 − attention_mask)·finfo.min, so that
/// some keys are hidden twice.
std::string cached_gpt2_bytes();
/// Rows that are padded on the left by so many positions, two past and five new ones.
NamedTensors cached_gpt2_inputs(const std::vector<int64_t>& padding);

/// An encoder with relative positions as MPNet has them, scores + bias [1, heads, s, s] + (1 −
/// mask)·min, or as T5, scores + (bias + (1 − mask)·min). Output: the first token of each row.
enum class RelativeBias : uint8_t { kMpnet, kT5 };
std::string relative_bias_bytes(RelativeBias spelling);
/// A causal encoder whose answer is the last token of each row, at mask.sum(1) − 1, or its last
/// place, so that rows are padded in front. It has no positions but the order of tokens.
enum class LastToken : uint8_t {
  kPairs,     ///< x[arange(b), place]
  kGather,    ///< torch.gather(x, 1, place [b, 1, hidden])
  kLastPlace  ///< x[:, -1]
};
std::string last_token_bytes(LastToken spelling, int64_t vocabulary = 40);

/// How a padding mask over [batch, keys] hides scores.
enum class Spelling : uint8_t {
  kWhereFill,      ///< Where(mask, scores, F)
  kMaskedFill,     ///< Where(Not(mask), F, scores)
  kAdditive,       ///< scores + (1 − mask)·F
  kAdditiveWhere,  ///< scores + Where(mask, 0, F)
  kExpanded,  ///< scores + Where(Cast(1 − Expand(mask)), F, 1 − Expand(mask)), as BART has it
  kTwice,     ///< scores + (1 − mask)·F + (1 − mask)·F
  kMaximum,   ///< Max(scores + (1 − mask)·F + (1 − mask)·F, F), as OPT has it
  kWithBias   ///< scores + (position bias + (1 − mask)·F), as T5 has it
};
inline constexpr const char* kSpellingNames[] = {"where",          "masked_fill", "additive",
                                                 "additive_where", "expanded",    "twice",
                                                 "maximum",        "with_bias"};
/// One attention over [batch, 6, 16] with 2 heads. Shown: the probabilities are an output too, so
/// that no Attention is raised.
enum class Probabilities : uint8_t { kInside, kShown };
std::string masked_attention_bytes(Spelling spelling, double fill, Probabilities probabilities);
/// Rows with these numbers of valid keys (0 to 6).
NamedTensors masked_attention_inputs(const std::vector<int64_t>& valid);

}  // namespace vernier::verify::field
