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

/// x·Φ(x), Φ the normal distribution: Φ(−a) = 2^Q(a) for a >= 0. Q is the polynomial for
/// log2(erfc(a/√2)/2) that is minimax in a·Φ(−a) on [0, 6] (Lawson's iteration); beyond 6 it falls
/// ever faster, to −∞, so there is nothing to clamp. Absolute error of Q and its evaluation: degree
/// 8 <= 3.2e-8, degree 5 <= 4.7e-7 (for results of 16 bits); ex2.approx adds 2^-22 relative.
/// Within 2e-7 or 7e-7 times max(|x|, 1).
template <int kDegree>
__device__ __forceinline__ float gelu_erf(float x) {
  const float a = fabsf(x);
  float q;
  if constexpr (kDegree == 5) {
    q = fmaf(-4.7329466789960861e-04f, a, 7.0844660513103008e-03f);
    q = fmaf(q, a, -5.1827181130647659e-02f);
    q = fmaf(q, a, -4.5999264717102051e-01f);
    q = fmaf(q, a, -1.1507878303527832f);
    q = fmaf(q, a, -1.0000376701354980f);
  } else {
    q = fmaf(-1.6904027384231456e-06f, a, 2.5083323635044508e-05f);
    q = fmaf(q, a, -1.1446278222138062e-04f);
    q = fmaf(q, a, -3.2334181014448404e-04f);
    q = fmaf(q, a, 7.3333834297955036e-03f);
    q = fmaf(q, a, -5.2714198827743530e-02f);
    q = fmaf(q, a, -4.5911544561386108e-01f);
    q = fmaf(q, a, -1.1511232852935791f);
    q = fmaf(q, a, -9.9999886751174927e-01f);
  }
  const float tail = exp2_approximate(q);        // Φ(−|x|)
  const float complement = x < 0 ? 0.0f : 1.0f;  // one instruction (FSET)
  return x * fabsf(complement - tail);
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
/// `activation`: Activation of core/attrs.h; kDegree: of erf GELU.
template <int kDegree, int kCount>
__device__ __forceinline__ void activate(float (&v)[kCount], int activation) {
  switch (activation) {
    case 1:
      for_each(v, [](float x) { return gelu_erf<kDegree>(x); });
      break;
    case 2:
      for_each(v, [](float x) { return gelu_tanh(x); });
      break;
    case 3:
      for_each(v, [](float x) { return relu(x); });
      break;
    case 4:
      for_each(v, [](float x) { return tanhf(x); });
      break;
    default:
      break;
  }
}

}  // namespace vernier::backend::cuda::epilogue
