// Host-side entry of l2_norm.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/arrays.h"

namespace vernier::backend::cuda {

/// `rows` rows of `cols` elements: row r of x begins at x_rows of r, y is dense.
struct L2NormLaunch {
  AnyArray x, y;
  StridedIndex x_rows;
  int64_t rows = 0, cols = 0;
  double minimum = 0;
  bool is_aligned = false;         ///< vectors are in both arrays
  DType type = DType::kUndefined;  ///< of x and y; kUndefined: they differ
};

/// y = x / max(√(Σ x²), minimum) per row. f32, f16, bf16 and f64 in any mix, rounded once. Squares
/// are summed in f64, as ReduceL2 does: none of an f32 overflows; norm and quotient are f32, or f64
/// where x or y is; so a row whose norm is beyond f32's range becomes 0, and where the divisor is
/// below its smallest number infinite or NaN. A NaN makes its row NaN; beside an infinite element,
/// which becomes NaN, numbers become 0. Error  <= 2^-23 of y before its rounding: the roundings of
/// the norm and of the quotient. Order of sums: by cols and types only. Cost: x read once where
/// cols <= 8192 and nothing is f64, else twice; y written once. No workspace.
cudaError_t launch_l2_norm(const L2NormLaunch& launch, cudaStream_t stream);

}  // namespace vernier::backend::cuda
