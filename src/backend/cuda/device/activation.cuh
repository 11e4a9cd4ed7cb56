// The activations of Linear on one f32 value, as fast as an epilogue needs them; NaN gives NaN, and
// infinities what the FP64 evaluators give. Meaning: reference/activations.cpp. C++17.
#pragma once
#include <cuda_runtime.h>

namespace vernier::backend::cuda::epilogue {

__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// x·Φ(x) of h = x/2, Φ the normal distribution: Φ(−a) = 2^Q(a) for a >= 0, and
/// x·Φ(x) = h + |h|·(1 − 2^(Q + 1)). Q is the polynomial for log2(erfc(a/√2)/2) that is minimax in
/// a·Φ(−a) on [0, 6] (Lawson's iteration), here in |h|; beyond 6 it falls ever faster, to −∞, so
/// there is nothing to clamp, and from 5.6 on the difference is 1. Absolute error of Q and its
/// evaluation: degree 8 <= 3.2e-8, degree 5 <= 4.7e-7 (for results of 16 bits); ex2.approx adds
/// 2^-22 relative, the difference 2^-25. Within 2e-7 or 7e-7 times max(|x|, 1).
template <int kDegree>
__device__ __forceinline__ float gelu_erf_of_half(float h) {
  const float a = fabsf(h);
  float q;  // Q + 1
  if constexpr (kDegree == 5) {
    q = fmaf(-1.5145429410040379e-02f, a, 1.1335145682096481e-01f);
    q = fmaf(q, a, -4.1461744904518127e-01f);
    q = fmaf(q, a, -1.8399705886840820e+00f);
    q = fmaf(q, a, -2.3015756607055664e+00f);
    q = fmaf(q, a, -3.7670135498046875e-05f);
  } else {
    q = fmaf(-4.3274310883134604e-04f, a, 3.2106654252856970e-03f);
    q = fmaf(q, a, -7.3256180621683598e-03f);
    q = fmaf(q, a, -1.0346937924623489e-02f);
    q = fmaf(q, a, 1.1733413487672806e-01f);
    q = fmaf(q, a, -4.2171359062194824e-01f);
    q = fmaf(q, a, -1.8364617824554443e+00f);
    q = fmaf(q, a, -2.3022465705871582e+00f);
    q = fmaf(q, a, 1.1324882507324219e-06f);
  }
  return fmaf(a, 1.0f - exp2_approximate(q), h);
}
template <int kDegree>
__device__ __forceinline__ float gelu_erf(float x) {
  return gelu_erf_of_half<kDegree>(0.5f * x);
}

/// x·(1 + tanh u)/2 = x / (1 + exp(−2u)), u = √(2/π)·(x + 0.044715·x³). Within 2e-7·max(|x|, 1).
__device__ __forceinline__ float gelu_tanh(float x) {
  constexpr float kLinear = -2.3022082f;  // −2·√(2/π)·log2 e
  constexpr float kCubic = -0.10294324f;  // the same times 0.044715
  const float exponent = x * fmaf(kCubic, x * x, kLinear);
  return x * reciprocal_approximate(1.0f + exp2_approximate(exponent));
}

/// max(x, 0), NaN for NaN.
__device__ __forceinline__ float relu(float x) { return x < 0 ? 0.0f : x; }

template <int kCount, class Function>
__device__ __forceinline__ void for_each(float (&v)[kCount], const Function& function) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) v[i] = function(v[i]);
}
/// Activation::kGeluErf of core/attrs.h, which device code does not include.
inline constexpr int kGeluErf = 1;
/// `activation`: Activation of core/attrs.h, but for erf GELU, of which the caller knows more.
template <int kCount>
__device__ __forceinline__ void activate(float (&v)[kCount], int activation) {
  // Most products have none. By `<=`: of five equalities the compiler makes a jump by a table,
  // which a kernel of few rows waits for.
  if (activation <= kGeluErf) return;
  if (activation == 2)
    for_each(v, [](float x) { return gelu_tanh(x); });
  else if (activation == 3)
    for_each(v, [](float x) { return relu(x); });
  else
    for_each(v, [](float x) { return tanhf(x); });
}

}  // namespace vernier::backend::cuda::epilogue
