// The tokens of a row of a mask, on the device: core/token_rows.h says what they are. C++17.
#pragma once
#include "backend/cuda/device/elements.cuh"

namespace vernier::backend::cuda {

/// Is the element of a mask padding? `of_floats`: is the mask one of floats?
__device__ inline bool is_padding(const Array& mask, int64_t padding, int64_t at, bool of_floats) {
  if (of_floats) return load_f64(mask.dtype, mask.data, at) == static_cast<double>(padding);
  return load_integer(mask.dtype, mask.data, at) == padding;
}

struct Span {
  int64_t first, count;
};
/// For all lanes of a warp. The places that are kept of a row, if padding in front and behind is
/// left out; with both, its tokens.
__device__ inline Span tokens_of_row(const Array& mask, int64_t padding, int64_t row,
                                     bool of_floats, bool front = true, bool behind = true) {
  const auto length = static_cast<int>(mask.size[1]);
  int tokens = 0, first = length, end = 0;
  for (int s = static_cast<int>(threadIdx.x % 32); s < length; s += 32) {
    if (is_padding(mask, padding, row * length + s, of_floats)) continue;
    ++tokens;
    first = min(first, s);
    end = s + 1;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    tokens += __shfl_xor_sync(~0u, tokens, offset);
    first = min(first, __shfl_xor_sync(~0u, first, offset));
    end = max(end, __shfl_xor_sync(~0u, end, offset));
  }
  const bool whole =
      tokens == 0 || tokens != end - first || (first > 0 && !front) || (end < length && !behind);
  return whole ? Span{0, length} : Span{first, tokens};
}

}  // namespace vernier::backend::cuda
