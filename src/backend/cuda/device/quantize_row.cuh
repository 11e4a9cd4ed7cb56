// What the kernels that quantize rows share: the range of a row, its scaling, its bytes. Contract:
// QuantizeRowsAttrs in core/attrs.h, kernels/elementwise/quantize_rows.h. C++17.
#pragma once
#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/device/vectors.cuh"

namespace vernier::backend::cuda {

/// Of the numbers of a row and 0.
struct RowRange {
  float low, high;
};
__device__ inline RowRange shuffled(RowRange range, int offset) {
  return {__shfl_xor_sync(~0u, range.low, offset), __shfl_xor_sync(~0u, range.high, offset)};
}
inline constexpr int kLargestQ8 = 127;
/// q = (x − middle)·first·second + shift, rounded to the nearest of -127 … 127, halves to even;
/// NaN: 0. Of tiny numbers first·second would be infinite.
struct RowScaling {
  float middle, first, second, shift, scale, zero;
  __device__ int rounded(float x) const {
    return __float2int_rn(__fmaf_rn((x - middle) * first, second, shift));
  }
  __device__ int byte(float x) const { return max(-kLargestQ8, min(kLargestQ8, rounded(x))); }
};
/// Four numbers as RowScaling::byte has them, of which these are rounded: `a` is the lowest byte.
__device__ inline uint32_t packed_bytes(int a, int b, int c, int d) {
  const auto pack = [](int low, int high, uint32_t above) {
    uint32_t packed;  // saturates at -128 and 127
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(packed)
        : "r"(max(-kLargestQ8, high)), "r"(max(-kLargestQ8, low)), "r"(above));
    return packed;
  };
  return pack(a, b, pack(c, d, 0));
}

/// The scaling with which the range becomes [-127, 127].
__device__ inline RowScaling scaling_of(const RowRange& range) {
  constexpr double kSteps = 254;
  const double low = range.low, high = range.high;
  const auto scale = static_cast<float>((high - low) / kSteps);
  if (scale == 0) return {0, 0, 1, 0, 0, 0};
  const double middle = (high + low) / 2, factor = kSteps / (high - low);
  const bool tiny = factor >= 1e30;
  return {static_cast<float>(middle),
          static_cast<float>(tiny ? 0x1p100 : factor),
          static_cast<float>(tiny ? factor * 0x1p-100 : 1.0),
          0,
          scale,
          static_cast<float>(-middle * factor)};
}
/// The scaling x / scale + zero.
__device__ inline RowScaling given_scaling(float scale, float zero) {
  return {0, 1, 1 / scale, zero, scale, zero};
}

/// The range of a row of which each of kThreads threads knows a part; NaN if `differences`, the sum
/// of x − x, is not 0 in one of them. `shared` as of combine_row().
template <int kThreads>
__device__ RowRange range_of_row(RowRange range, float differences, RowRange* shared) {
  if (differences != 0) range.low = range.high = __int_as_float(0x7fffffff);
  return combine_row<kThreads>(range, shared, [](const RowRange& a, const RowRange& b) {
    // fminf() would lose a NaN.
    const bool is_nan = a.low != a.low || b.low != b.low;
    const float nan = __int_as_float(0x7fffffff);
    return RowRange{is_nan ? nan : fminf(a.low, b.low), is_nan ? nan : fmaxf(a.high, b.high)};
  });
}

/// v·factors[c, c + kN); null: v. Only the first `count` are there.
template <int kN>
__device__ void multiply_factors(const float* factors, int c, int count, float (&v)[kN]) {
  if (factors == nullptr) return;
  const float* from = factors + c;
  if (count >= kN && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kN; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      v[i] *= four.x, v[i + 1] *= four.y, v[i + 2] *= four.z, v[i + 3] *= four.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    if (i < count) v[i] *= from[i];
  }
}
/// q[at, at + kN) = v, or the first `count` of them where they are not aligned.
template <int kN>
__device__ void store_bytes(int8_t* q, int64_t at, int count, bool aligned, const float (&v)[kN],
                            const RowScaling& by) {
  static_assert(kN % 4 == 0);
  if (aligned) {
    Pack<uint32_t, kN / 4> words;
#pragma unroll
    for (int i = 0; i < kN; i += 4)
      words.element[i / 4] = packed_bytes(by.rounded(v[i]), by.rounded(v[i + 1]),
                                          by.rounded(v[i + 2]), by.rounded(v[i + 3]));
    *reinterpret_cast<Pack<uint32_t, kN / 4>*>(q + at) = words;
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    if (i < count) q[at + i] = static_cast<int8_t>(by.byte(v[i]));
  }
}

}  // namespace vernier::backend::cuda
