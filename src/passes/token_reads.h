// What is computed from a padding mask alone, found by evaluating it on masks: biases that hide
// padding, and places that are read (the last token of each row, as causal embedders pool).
#pragma once
#include "passes/token_masks.h"

namespace vernier::passes {

/// Is the input one of ids, which rows of a table are gathered by?
bool is_ids(const ir::Graph& graph, ir::ValueId input);

/// Where the padding of a row may lie.
struct Sides {
  bool front = false;  ///< in front of its tokens, or on both sides
  bool behind = true;
  bool operator==(const Sides&) const = default;
};

/// In which masks [B, S] `index` names only tokens: whose rows have padding behind their tokens
/// only; in front of them only, or on both sides. `index` is of integers: pairs of row and place
/// [B, 2], or one place per row [B, 1, …]. It must depend only on the mask and on sizes. Decided by
/// evaluating it on masks with every number of tokens, for rows of up to 9 places. A token is 1 in
/// these masks (for ids: a number that is not the padding id), or 0 if the mask is true at padding.
Sides names_tokens(const ir::Graph& graph, ir::ValueId index, const TokenMask& mask);

/// A bias that hides padding: (1 − mask)·F, in any spelling.
struct MaskBias {
  TokenMask mask;
  double fill = 0;  ///< the largest value at padding
  bool operator==(const MaskBias&) const = default;
};
/// `bias` [B, 1, 1, S], computed from one input [B, S] and sizes alone: 0 at tokens and -1e4 or
/// less at padding, wherever in its row padding lies. Returns nullopt if it is not such a bias.
std::optional<MaskBias> mask_bias(const ir::Graph& graph, ir::ValueId bias);

/// A bias of an attention that hides padding, alone or added to one by places.
struct HidingBias {
  MaskBias of_mask;
  ir::ValueId by_places = ir::kNoValue;  ///< the other addend; kNoValue: there is none
};
std::optional<HidingBias> hiding_bias(const ir::Graph& graph, ir::ValueId bias);

}  // namespace vernier::passes
