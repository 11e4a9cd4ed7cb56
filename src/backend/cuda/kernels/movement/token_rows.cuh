// The tokens of a row of a mask, on the device: core/token_rows.h says what they are. C++17.
#pragma once
#include "backend/cuda/device/elements.cuh"

namespace vernier::backend::cuda {

/// Is the element of a mask padding? `of_floats`: is the mask one of floats?
__device__ inline bool is_padding(const Array& mask, int64_t padding, int64_t at, bool of_floats) {
  if (of_floats) return load_f64(mask.dtype, mask.data, at) == static_cast<double>(padding);
  return load_integer(mask.dtype, mask.data, at) == padding;
}

/// For all lanes of a warp. The tokens are the row's first n places only if n places are no padding
/// and the last of them is the n-th.
__device__ inline int64_t tokens_of_row(const Array& mask, int64_t padding, int64_t row,
                                        bool of_floats) {
  const int64_t length = mask.size[1];
  int tokens = 0, end = 0;
  for (int64_t s = threadIdx.x % 32; s < length; s += 32) {
    if (is_padding(mask, padding, row * length + s, of_floats)) continue;
    ++tokens;
    end = static_cast<int>(s + 1);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    tokens += __shfl_xor_sync(~0u, tokens, offset);
    end = max(end, __shfl_xor_sync(~0u, end, offset));
  }
  return tokens > 0 && tokens == end ? tokens : length;
}

}  // namespace vernier::backend::cuda
