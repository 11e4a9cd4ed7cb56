// Functions of elementwise_ops.def, in float and double. f32 follows the CUDA library (a few ulp)
// but where said; NaN goes in, NaN comes out. C++17.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vernier::backend::cuda {

template <class T>
__device__ T clamp(T x, T low, T high) {
  return x < low ? low : (x > high ? high : x);
}
template <class T>
__device__ T clip(T x, T low, T high, bool has_low, bool has_high) {
  if (has_low && x < low) x = low;
  return has_high && x > high ? high : x;
}
__device__ inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }
__device__ inline double sigmoid(double x) {
  if (x >= 0) return 1.0 / (1.0 + exp(-x));
  const double e = exp(x);
  return e / (1.0 + e);
}

/// x·Φ(x). f32: Φ(−|x|) = t·p(t)·exp(−x²/2)/2 with t = 1/(1 + 0.3275911·|x|/√2).
/// Error <= 4e-7·max(|x·Φ(x)|, 1). Source: Abramowitz and Stegun 7.1.26 (|ε| <= 1.5e-7).
__device__ inline float gelu_erf(float x) {
  const float t = __fdividef(1.0f, fmaf(0.3275911f * 0.70710678f, fabsf(x), 1.0f));
  float p = fmaf(t, 1.061405429f, -1.453152027f);
  p = fmaf(t, p, 1.421413741f);
  p = fmaf(t, p, -0.284496736f);
  p = fmaf(t, p, 0.254829592f);
  const float tail = 0.5f * t * p * __expf(-0.5f * x * x);
  return x * (x < 0 ? tail : 1.0f - tail);
}
__device__ inline double gelu_erf(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }

/// x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))) = x / (1 + exp(−2·√(2/π)·(…))). Error as above.
__device__ inline float gelu_tanh(float x) {
  const float u = -1.5957691216f * (x + 0.044715f * x * x * x);
  return __fdividef(x, 1.0f + __expf(u));
}
__device__ inline double gelu_tanh(double x) {
  return x / (1.0 + exp(-1.59576912160573071176 * (x + 0.044715 * x * x * x)));
}

template <class T>
__device__ T softplus(T x) {
  return fmax(x, T(0)) + log1p(exp(-fabs(x)));
}
// Squares and cubes as the product, which rounds no worse than pow.
template <class T>
__device__ T power(T a, T b) {
  if (b == T(2)) return a * a;
  if (b == T(3)) return a * a * a;
  return pow(a, b);
}
// The sign of the divisor, or (variant 1, fmod) of the dividend.
template <class T>
__device__ T modulo(T a, T b, int variant) {
  const T r = fmod(a, b);
  return variant == 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

}  // namespace vernier::backend::cuda
