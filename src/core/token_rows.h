// Which places of a padded batch hold tokens: what TokenIndex computes, and how many places a run
// keeps for them.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/tensor.h"
#include "core/token_rule.h"

namespace vernier {

/// Some places of a row that follow each other.
struct TokenSpan {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
};

/// The tokens of one row of a mask, if no padding lies between them: from the first to the last. Of
/// any other row (holes, nothing but padding) all places. `is_padding(s)`: is the place s padding?
template <class IsPadding>
TokenSpan tokens_of_row(int64_t length, const IsPadding& is_padding) {
  int64_t first = 0;
  while (first < length && is_padding(first)) ++first;
  int64_t end = first;
  while (end < length && !is_padding(end)) ++end;
  for (int64_t s = end; s < length; ++s) {
    if (!is_padding(s)) return {0, length};
  }
  return end > first ? TokenSpan{first, end - first} : TokenSpan{0, length};
}

/// The places of a row that are kept: its tokens, if `rule` leaves out all other places, else all.
template <class IsPadding>
TokenSpan kept_of_row(int64_t length, const TokenRule& rule, const IsPadding& is_padding) {
  const TokenSpan tokens = tokens_of_row(length, is_padding);
  const bool is_cut = (rule.front || tokens.first == 0) && (rule.behind || tokens.end() == length);
  return is_cut ? tokens : TokenSpan{0, length};
}

/// Is an element of a mask padding? It need not be a number of the element's type.
template <class T>
bool equals_padding(T element, int64_t padding) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(element) == static_cast<double>(padding);
  else
    return static_cast<int64_t>(element) == padding;
}

/// Can masks of this type be counted?
bool is_token_mask(DType dtype);

/// The places that are kept of all rows of a dense mask [rows, length] in host memory.
int64_t count_tokens(DType dtype, const std::byte* mask, int64_t rows, int64_t length,
                     const TokenRule& rule);

/// The place b·length + s of each of these, row by row, as count_tokens() counts them.
std::vector<int64_t> places_of_tokens(DType dtype, const std::byte* mask, int64_t rows,
                                      int64_t length, const TokenRule& rule);

/// tokens_of_row() of a dense row in host memory.
TokenSpan tokens_of_row(DType dtype, const std::byte* row, int64_t length, int64_t padding);

/// `values` [rows, length, …], with 0 for every element that is not of the tokens of its row of
/// `mask` [rows, length].
Tensor zero_padding(const Tensor& values, const Tensor& mask, int64_t padding);

/// The places that a run keeps for so many tokens of `all` places: at least `tokens`, and one of
/// `parts` numbers between two powers of two, so that runs of nearly as many tokens have one size.
/// `all` only where every place holds a token: then kernels may take the rows as equally long.
inline int64_t token_places(int64_t tokens, int64_t all, int64_t parts) {
  if (tokens == all) return all;
  const auto floor = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens)));
  const int64_t step = std::max<int64_t>(1, floor / parts);
  return std::min(all - 1, (tokens + step - 1) / step * step);
}
/// Of a mask that nobody counts: more than all places, which says nothing of it.
inline int64_t uncounted_token_places(int64_t all) { return all + 1; }

}  // namespace vernier
