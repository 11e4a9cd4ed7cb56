// Host-side entry of quantize_rows.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/arrays.h"

namespace vernier::backend::cuda {

/// `rows` rows of `cols` elements: row r of x begins at x_rows of r, everything else is dense.
struct QuantizeRowsLaunch {
  FloatArray x;
  int8_t* q = nullptr;
  float *scales = nullptr, *zeros = nullptr;  ///< [rows], or null
  const float* factors = nullptr;             ///< [cols], or null: 1
  /// Of all rows, where `scale` is not null; then `scales` and `zeros` are.
  const float *scale = nullptr, *zero = nullptr;
  StridedIndex x_rows;
  int64_t rows = 0, cols = 0;
  bool is_aligned = false;  ///< vectors are, in x and q
  bool to_f8 = false;       ///< q is f8e4m3, else q8; zeros and zero are null
};

/// q = x·factor / scale + zero of its row, rounded to the nearest of -127 … 127, halves to even:
/// the range [low, high] of the row and 0 becomes [-127, 127] (QuantizeRowsAttrs in core/attrs.h).
/// Of f8e4m3: q = x·factor / scale, rounded to the nearest, the largest |x·factor| of the row / 448
/// its scale. A row of zeros has scale, zero and q 0; NaN or infinity in a row makes its scale NaN.
/// Error scale and zero: an ulp of f32; q: off by 2^-22·127 before rounding. Cost: x read once
/// where cols
/// <= 8192, else twice; a byte per element written. No workspace.
cudaError_t launch_quantize_rows(const QuantizeRowsLaunch& launch, cudaStream_t stream);

}  // namespace vernier::backend::cuda
