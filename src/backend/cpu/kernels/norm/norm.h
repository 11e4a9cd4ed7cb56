// Arguments of the row-wise normalization loops. Contract of the kernels: norm.cpp.
#pragma once
#include <cstdint>

namespace vernier::backend::cpu {

/// One row of `cols` values. Pointers that are null are absent.
struct NormRow {
  const float* x = nullptr;
  const float* addend = nullptr;  ///< AddLayerNorm: x + addend is normalized
  const float* scale = nullptr;
  const float* bias = nullptr;
  float* sum = nullptr;  ///< AddLayerNorm: receives x + addend; may be the same memory as y
  float* y = nullptr;
  float* mean = nullptr;     ///< one value
  float* inv_std = nullptr;  ///< one value
  int64_t cols = 0;
  float epsilon = 0;
};

/// For other kernels that end in a normalization (embedding): all Highway targets, dispatched.
void layer_norm_row(const NormRow& row);

}  // namespace vernier::backend::cpu
