// Functions of elementwise_formulas.def, in float and double. f32 follows the CUDA library (a few
// ulp) but where said; NaN goes in, NaN comes out. C++17.
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
/// 1/x and 2^x within 2 ulp; results below 2^-126 are 0.
__device__ inline float fast_reciprocal(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
__device__ inline float fast_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

__device__ inline float sigmoid(float x) { return fast_reciprocal(1.0f + expf(-x)); }
__device__ inline double sigmoid(double x) {
  if (x >= 0) return 1.0 / (1.0 + exp(-x));
  const double e = exp(x);
  return e / (1.0 + e);
}

/// x·Φ(x). f32: Φ(−|x|) = t·p(t)·exp(−x²/2)/2 with t = 1/(1 + 0.3275911·|x|/√2).
/// Error <= 4e-7·max(|x·Φ(x)|, 1). Source: Abramowitz and Stegun 7.1.26 (|ε| <= 1.5e-7).
__device__ inline float gelu_erf(float x) {
  constexpr float kMinusHalfLog2E = -0.72134752f;
  const float t = fast_reciprocal(fmaf(0.3275911f * 0.70710678f, fabsf(x), 1.0f));
  float p = fmaf(t, 1.061405429f, -1.453152027f);
  p = fmaf(t, p, 1.421413741f);
  p = fmaf(t, p, -0.284496736f);
  p = fmaf(t, p, 0.254829592f);
  const float tail = 0.5f * t * p * fast_exp2(kMinusHalfLog2E * x * x);
  return x * (x < 0 ? tail : 1.0f - tail);
}
__device__ inline double gelu_erf(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }

/// x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))) = x / (1 + exp(−2·√(2/π)·(…))). Error as above.
__device__ inline float gelu_tanh(float x) {
  constexpr float kScale = -1.5957691216f * 1.4426950409f;  // −2·√(2/π), in powers of 2
  const float u = kScale * (x + 0.044715f * x * x * x);
  return x * fast_reciprocal(1.0f + fast_exp2(u));
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

/// The activation of a product: Activation of core/attrs.h.
__device__ inline float activated(int activation, float x) {
  switch (activation) {
    case 1:
      return gelu_erf(x);
    case 2:
      return gelu_tanh(x);
    case 3:
      return x < 0 ? 0.0f : x;
    case 4:
      return tanhf(x);
    default:
      return x;
  }
}

}  // namespace vernier::backend::cuda
