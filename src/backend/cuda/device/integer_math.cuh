// Integer arithmetic of elementwise_formulas.def as the evaluators define it: in 64 bits, wrapping;
// u64 keeps its bits in int64_t. Division by zero gives 0. C++17.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "vernier/dtype.h"

namespace vernier::backend::cuda {

__device__ inline bool is_float_type(DType t) { return t >= DType::kF32 && t <= DType::kTF32; }
__device__ inline bool is_signed(DType t) {
  return t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64;
}
__device__ inline int bits_of(DType t) {
  switch (t) {
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 8;
    case DType::kI16:
    case DType::kU16:
      return 16;
    case DType::kI32:
    case DType::kU32:
      return 32;
    default:
      return 64;
  }
}
/// v wrapped into the range of integer or bool type t.
__device__ inline int64_t wrap(DType t, int64_t v) {
  if (t == DType::kBool) return v != 0;
  const int shift = 64 - bits_of(t);
  const auto high = static_cast<uint64_t>(v) << shift;
  return is_signed(t) ? static_cast<int64_t>(high) >> shift : static_cast<int64_t>(high >> shift);
}

__device__ inline int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
__device__ inline int64_t wrapping_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
__device__ inline int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
__device__ inline bool less(DType t, int64_t a, int64_t b) {
  return t == DType::kU64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}
__device__ inline int64_t clip_integer(DType t, int64_t x, int64_t low, int64_t high, bool has_low,
                                       bool has_high) {
  if (has_low && less(t, x, low)) x = low;
  return has_high && less(t, high, x) ? high : x;
}
// Truncates toward zero.
__device__ inline int64_t divide_integers(DType t, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (t == DType::kU64)
    return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == -1 ? wrapping_sub(0, a) : a / b;
}
// The sign of the divisor, or (variant 1, fmod) of the dividend.
__device__ inline int64_t modulo_integers(DType t, int64_t a, int64_t b, int variant) {
  if (b == 0) return 0;
  if (t == DType::kU64)
    return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  const int64_t r = b == -1 ? 0 : a % b;
  return variant == 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/// One past the largest value of integer type t, as double.
__device__ inline double limit_of(DType t) {
  return ldexp(1.0, bits_of(t) - (is_signed(t) ? 1 : 0));
}
/// v as integer type t: truncated toward zero, saturated to its range; NaN gives 0, and true.
__device__ inline int64_t double_to_integer(DType t, double v) {
  if (t == DType::kBool) return v != 0;
  if (v != v) return 0;
  const double limit = limit_of(t);
  const int shift = 64 - bits_of(t);
  if (v >= limit) {
    return is_signed(t) ? INT64_MAX >> shift
                        : static_cast<int64_t>(~static_cast<uint64_t>(0) >> shift);
  }
  if (v < (is_signed(t) ? -limit : 0.0)) return is_signed(t) ? INT64_MIN >> shift : 0;
  if (t == DType::kU64) return static_cast<int64_t>(static_cast<uint64_t>(v));
  return static_cast<int64_t>(v);
}
__device__ inline double integer_to_double(DType t, int64_t v) {
  return t == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(v)) : static_cast<double>(v);
}
// Exact modulo 2^bits for exponents >= 0, else through double.
__device__ inline int64_t power_integers(DType t, int64_t base, int64_t exponent) {
  if (less(t, exponent, 0)) {
    const double power = pow(integer_to_double(t, base), static_cast<double>(exponent));
    return double_to_integer(t, power);
  }
  int64_t result = 1;
  for (auto e = static_cast<uint64_t>(exponent); e > 0; e >>= 1) {
    if (e & 1) result = wrapping_mul(result, base);
    base = wrapping_mul(base, base);
  }
  return result;
}
// Right shifts of signed types fill with the sign. A shift by the width or more, or by a negative
// number, leaves the fill alone. variant 1: left.
__device__ inline int64_t shift(DType t, int64_t a, int64_t b, int variant) {
  const auto width = static_cast<uint64_t>(bits_of(t)), by = static_cast<uint64_t>(b);
  const bool arithmetic = variant == 0 && is_signed(t);
  if (by >= width) return arithmetic && a < 0 ? -1 : 0;
  if (arithmetic) return a >> by;
  const auto bits = static_cast<uint64_t>(a);
  return static_cast<int64_t>(variant != 0 ? bits << by : bits >> by);
}

}  // namespace vernier::backend::cuda
