// Host-side entry of token_index.cu in plain types. What is computed: TokenIndexAttrs in
// core/attrs.h.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

/// `counts`: room for the places that are kept of each row. Outputs may be absent. All arrays
/// dense.
struct TokenIndexLaunch {
  Array mask, rows, positions, starts, places, ordinals, kept;
  int32_t* counts;
  int64_t padding;
  bool front, behind;  // where padding is left out
};
/// Tokens beyond the places of `rows`, `positions` and `kept` are left out, and no row starts
/// behind them.
cudaError_t index_tokens(const TokenIndexLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
