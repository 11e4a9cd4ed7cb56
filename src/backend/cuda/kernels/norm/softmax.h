// Host-side entry of softmax.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/arrays.h"

namespace vernier::backend::cuda {

enum class LineKind : uint8_t { kSoftmax, kLogSoftmax, kHardmax, kL1, kL2 };

/// Lines of `size` elements, `x_step` and `y_step` apart; line i begins at x_lines and y_lines of
/// i.
struct LineLaunch {
  FloatArray x, y;
  StridedIndex x_lines, y_lines;
  int64_t lines = 0, size = 0, x_step = 1, y_step = 1;
  bool is_last_axis = true;  ///< then steps are 1
  LineKind kind = LineKind::kSoftmax;
  bool is_aligned = false;         ///< vectors are in both arrays; steps are 1
  DType type = DType::kUndefined;  ///< of x and y; kUndefined: they differ
};

/// Per line:
///   kSoftmax     exp(x − max) / Σ exp(x − max)
///   kLogSoftmax  x − max − ln Σ exp(x − max)
///   kHardmax     1 at the first largest element, 0 elsewhere; NaN throughout where there is a NaN
///   kL1, kL2     x / Σ|x|, x / √Σx²; a line of zeros stays zero (sums in f64: no overflow)
/// f32, f16, bf16 in any mix, arithmetic in f32, rounded once. A softmax of a line that holds NaN
/// or +inf, or is all −inf, is NaN. Order of sums: by size, type and axis only (strides depend on
/// how many lines there are). Cost: along the last axis and with size <= 8192 each element is read
/// once and written once; else x is read three times.
cudaError_t launch_lines(const LineLaunch& launch, cudaStream_t stream);

}  // namespace vernier::backend::cuda
