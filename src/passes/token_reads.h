// What is computed from a padding mask alone, found by evaluating it on masks: biases that hide
// padding, and places that are read (the last token of each row, as causal embedders pool).
#pragma once
#include "passes/token_masks.h"

namespace vernier::passes {

/// `index`, integers: pairs of row and place [B, 2], or a place of each row of the mask [B, S], [B,
/// 1, …]. Is every one a place of a token in every mask whose rows have padding behind their tokens
/// only? The index must depend on nothing but the mask and sizes. Decided by evaluating it on masks
/// of every number of tokens, of rows of up to 9 places; a token is 1 there (of ids another number
/// than the padding id), or 0 where the mask is true at padding.
bool names_tokens(const ir::Graph& graph, ir::ValueId index, const TokenMask& mask);

/// A bias that hides padding: (1 − mask)·F, in whatever words.
struct MaskBias {
  TokenMask mask;
  double fill = 0;  ///< the largest value at padding
  bool operator==(const MaskBias&) const = default;
};
/// `bias` [B, 1, 1, S], computed from one input [B, S] and sizes alone: 0 at tokens and -1e4 or
/// less at padding, in masks as above; nullopt: it is no such bias.
std::optional<MaskBias> mask_bias(const ir::Graph& graph, ir::ValueId bias);

/// A bias of an attention that hides padding, alone or added to one by places.
struct HidingBias {
  MaskBias of_mask;
  ir::ValueId by_places = ir::kNoValue;  ///< the other addend; kNoValue: there is none
};
std::optional<HidingBias> hiding_bias(const ir::Graph& graph, ir::ValueId bias);

}  // namespace vernier::passes
