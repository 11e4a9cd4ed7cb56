// Reads of single places whose indices are computed from a padding mask alone (the last token of
// each row, as causal embedders pool): do they always lie at tokens?
#pragma once
#include "passes/token_masks.h"

namespace vernier::passes {

/// `index`, integers: pairs of row and place [B, 2], or a place of each row of the mask [B, S], [B,
/// 1, …]. Is every one a place of a token in every mask whose rows have padding behind their tokens
/// only? The index must depend on nothing but the mask and sizes. Decided by evaluating it on masks
/// of every number of tokens, of rows of up to 9 places; a token is 1 there (of ids another number
/// than the padding id), or 0 where the mask is true at padding.
bool names_tokens(const ir::Graph& graph, ir::ValueId index, const TokenMask& mask);

}  // namespace vernier::passes
