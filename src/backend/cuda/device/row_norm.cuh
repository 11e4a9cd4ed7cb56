// What the kernels of LayerNorm share: from sums over a row to its normalization. C++17.
#pragma once
#include <cuda_runtime_api.h>

namespace vernier::backend::cuda {

/// A step of the sums over a row that run over pairs of columns.
__device__ inline float pair_sum(float sum, float a, float b) { return sum + (a + b); }
__device__ inline float pair_squares(float sum, float a, float b) {
  return __fmaf_rn(b, b, __fmaf_rn(a, a, sum));
}

/// total / count, where reciprocal is 1 / count: a quotient and its remainder's, which is the
/// nearest float but for results that are tiny; NaN where total is infinite. Source: Markstein,
/// "Computation of elementary functions on the IBM RISC System/6000", 1990.
__device__ inline float mean_of(float total, float count, float reciprocal) {
  const float quotient = total * reciprocal;
  return __fmaf_rn(__fmaf_rn(-quotient, count, total), reciprocal, quotient);
}

/// A row without its mean, c, is normalized as c · inverse + offset.
struct RowScale {
  float inverse, offset;
};
/// squares: the sum of c²; left: the sum of c, what the rounding of the mean has left. NaN and
/// infinity make the row NaN.
__device__ inline RowScale row_scale(float squares, float left, float cols, float reciprocal,
                                     float epsilon) {
  const float correction = mean_of(left, cols, reciprocal);
  // The correction may leave a variance just below 0.
  const float variance =
      fmaxf(__fmaf_rn(-correction, correction, squares / cols), 0.0f) + (squares - squares);
  const float inverse = 1.0f / sqrtf(variance + epsilon);
  return {inverse, -correction * inverse};
}

}  // namespace vernier::backend::cuda
