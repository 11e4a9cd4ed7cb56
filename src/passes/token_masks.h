// Which inputs say what is padding: read off the keep masks of attentions.
#pragma once
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "passes/pass.h"

namespace vernier::passes {

/// Added to or put in place of a score, it leaves no probability in f32 beside scores of any use.
inline constexpr double kHidingFill = -1e4;

/// An input [B, S] whose elements `padding` are padding.
struct TokenMask {
  ir::ValueId input = ir::kNoValue;
  int64_t padding = 0;
  bool operator==(const TokenMask&) const = default;
  bool operator<(const TokenMask& other) const {
    return std::tie(input, padding) < std::tie(other.input, other.padding);
  }
};

/// What hides places: false, or 0, where the mask has padding.
struct KeepMask {
  TokenMask mask;
  bool exact = true;  ///< only there
};
/// Of a value (bool, or numbers) whose elements are in the order of an input's. Of `Equal(mask, 1)`
/// padding is 0, though any other number hides its place, too.
std::optional<KeepMask> keep_mask_of(const ir::Graph& graph, ir::ValueId value);
/// Its mask.
std::optional<TokenMask> token_mask_of(const ir::Graph& graph, ir::ValueId value);

/// Those of the attentions of a raised graph that can be counted, each once: of keep masks, and of
/// biases that hide padding (token_reads.h).
std::vector<TokenMask> token_masks(const ir::Graph& graph);

}  // namespace vernier::passes
