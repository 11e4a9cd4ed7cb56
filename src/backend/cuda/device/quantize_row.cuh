// What the kernels that quantize rows share: the range of a row, its scaling, its bytes. Contract:
// QuantizeRowsAttrs in core/attrs.h, kernels/elementwise/quantize_rows.h. C++17.
#pragma once
#include <cuda_fp8.h>

#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/device/vectors.cuh"

namespace vernier::backend::cuda {

/// Brings a constant into the second-level cache, while the kernel before may still run.
__device__ inline void fetch_line(const void* constant) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(constant));
}

/// Of the numbers of a row and 0.
struct RowRange {
  float low, high;
};
__device__ inline RowRange shuffled(RowRange range, int offset) {
  return {__shfl_xor_sync(~0u, range.low, offset), __shfl_xor_sync(~0u, range.high, offset)};
}
/// What a thread knows of its part of a row.
struct PartRange {
  RowRange range{0, 0};
  float differences = 0;  ///< the sum of x − x: 0 or NaN
  __device__ void add(float x) {
    range = {fminf(range.low, x), fmaxf(range.high, x)};
    differences += x - x;
  }
};
inline constexpr int kLargestQ8 = 127;
/// q = x·factor + zero, of a whole zero, to the nearest of -127 … 127, halves to even; NaN: -127.
/// Before that it is rounded to a 2^-16th at most. No conversion, of which a multiprocessor does
/// few, and little but multiplications and additions, of which it does the most: a saturating one
/// is the lower limit; at 1.5·2^23, where neighbors are 1 apart, another rounds, and the low bytes
/// are q; the upper limit is one instruction for two numbers.
class GivenRounding {
 public:
  __device__ GivenRounding(float factor, float zero)
      : factor_(factor / kRange), zero_((zero + kLargestQ8) / kRange) {}
  /// The low 16 bits are q, which may be above 127.
  __device__ int with_16_bits(float x) const {
    constexpr float kWhole = 0x1.8p23f - kLargestQ8;
    return __float_as_int(__fmaf_rn(__saturatef(__fmaf_rn(x, factor_, zero_)), kRange, kWhole));
  }
  __device__ int8_t byte(float x) const {
    return static_cast<int8_t>(
        min(static_cast<int16_t>(with_16_bits(x)), static_cast<int16_t>(kLargestQ8)));
  }
  /// Of four numbers; `a` is the lowest byte.
  __device__ uint32_t bytes(float a, float b, float c, float d) const {
    return __byte_perm(two(a, b), two(c, d), 0x6420);
  }

 private:
  static constexpr float kRange = 256;  // of q + 127 before the upper limit
  __device__ uint32_t two(float a, float b) const {
    constexpr uint32_t kLargest = kLargestQ8 * 0x10001;
    return __vmins2(__byte_perm(with_16_bits(a), with_16_bits(b), 0x5410), kLargest);
  }
  float factor_, zero_;
};
/// q = (x − middle)·first·second + shift, rounded to the nearest of -127 … 127, halves to even;
/// NaN: 0. Or, where `to_f8`, to the nearest number of f8e4m3, of which 448 is the largest. Of tiny
/// numbers first·second would be infinite. Where the scale is `given`, for all rows, it is
/// GivenRounding, if not to_f8.
struct RowScaling {
  float middle, first, second, shift, scale, zero;
  bool to_f8 = false, given = false;
  __device__ float scaled(float x) const { return __fmaf_rn((x - middle) * first, second, shift); }
  __device__ int rounded(float x) const { return __float2int_rn(scaled(x)); }
  __device__ int8_t byte(float x) const {
    if (to_f8)
      return static_cast<int8_t>(__nv_cvt_float_to_fp8(scaled(x), __NV_SATFINITE, __NV_E4M3));
    if (given) return GivenRounding(second, shift).byte(x);
    return static_cast<int8_t>(max(-kLargestQ8, min(kLargestQ8, rounded(x))));
  }
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

/// Four numbers as they are, in f8e4m3.
__device__ inline uint32_t packed_f8(float a, float b, float c, float d) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2({a, b}, __NV_SATFINITE, __NV_E4M3);
  const uint32_t high = __nv_cvt_float2_to_fp8x2({c, d}, __NV_SATFINITE, __NV_E4M3);
  return low | high << 16;
}
/// The four bytes of RowScaling::byte.
__device__ inline uint32_t packed_bytes(const RowScaling& by, float a, float b, float c, float d) {
  if (by.to_f8) return packed_f8(by.scaled(a), by.scaled(b), by.scaled(c), by.scaled(d));
  if (by.given) return GivenRounding(by.second, by.shift).bytes(a, b, c, d);
  return packed_bytes(by.rounded(a), by.rounded(b), by.rounded(c), by.rounded(d));
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
/// The scaling to f8e4m3 with which the largest number becomes 448.
__device__ inline RowScaling f8_scaling_of(const RowRange& range) {
  constexpr double kLargest = 448;
  const bool is_nan = range.low != range.low;  // then both are, and fmax() would not say so
  const double largest = is_nan ? range.low : fmax(double{range.high}, -double{range.low});
  const auto scale = static_cast<float>(largest / kLargest);
  if (scale == 0) return {0, 0, 1, 0, 0, 0, true};
  const double factor = kLargest / largest;
  const bool tiny = factor >= 1e30;
  return {0,
          static_cast<float>(tiny ? 0x1p100 : factor),
          static_cast<float>(tiny ? factor * 0x1p-100 : 1.0),
          0,
          scale,
          0,
          true};
}
__device__ inline RowScaling scaling_of(const RowRange& range, bool to_f8) {
  return to_f8 ? f8_scaling_of(range) : scaling_of(range);
}
/// The scaling x / scale + zero, a whole number; of f8e4m3, which has no zero: null.
__device__ inline RowScaling given_scaling(const float* scale, const float* zero, bool to_f8) {
  const float shift = to_f8 ? 0 : *zero;
  return {0, 1, 1 / *scale, shift, *scale, shift, to_f8, true};
}

/// Of numbers of which each range has a part; NaN stays.
__device__ inline RowRange both_ranges(const RowRange& a, const RowRange& b) {
  // fminf() would lose a NaN.
  const bool is_nan = a.low != a.low || b.low != b.low;
  const float nan = __int_as_float(0x7fffffff);
  return RowRange{is_nan ? nan : fminf(a.low, b.low), is_nan ? nan : fmaxf(a.high, b.high)};
}
/// The range of a row of which each of kThreads threads knows a part; NaN if the differences are
/// not 0 in one of them. `shared` as of combine_row().
template <int kThreads>
__device__ RowRange range_of_row(PartRange part, RowRange* shared) {
  if (part.differences != 0) part.range.low = part.range.high = __int_as_float(0x7fffffff);
  return combine_row<kThreads>(
      part.range, shared, [](const RowRange& a, const RowRange& b) { return both_ranges(a, b); });
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
      words.element[i / 4] = packed_bytes(by, v[i], v[i + 1], v[i + 2], v[i + 3]);
    *reinterpret_cast<Pack<uint32_t, kN / 4>*>(q + at) = words;
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    if (i < count) q[at + i] = by.byte(v[i]);
  }
}

}  // namespace vernier::backend::cuda
