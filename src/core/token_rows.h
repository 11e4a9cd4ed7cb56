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

namespace vernier {

/// The tokens of one row of a mask. `is_padding(s)`: is the place s of the row padding? Of a row of
/// n >= 1 places that are not, and then padding only, the first n. Of any other row (padding in
/// front, holes, nothing but padding) all places.
template <class IsPadding>
int64_t tokens_of_row(int64_t length, const IsPadding& is_padding) {
  int64_t tokens = 0;
  while (tokens < length && !is_padding(tokens)) ++tokens;
  for (int64_t s = tokens; s < length; ++s) {
    if (!is_padding(s)) return length;
  }
  return tokens > 0 ? tokens : length;
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

/// The tokens of all rows of a dense mask [rows, length] in host memory. An element that equals
/// `padding` is padding.
int64_t count_tokens(DType dtype, const std::byte* mask, int64_t rows, int64_t length,
                     int64_t padding);

/// The place b·length + s of each of these tokens, row by row, as count_tokens() counts them.
std::vector<int64_t> places_of_tokens(DType dtype, const std::byte* mask, int64_t rows,
                                      int64_t length, int64_t padding);

/// `values` [rows, length, …], with 0 for every element behind the tokens of its row of `mask`
/// [rows, length].
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
