// Element types: names, sizes and conversions. Words: docs/architecture.md (storage, compute type).
// tf32, w8 and w4 exist only as compute types; they have no storage size.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "vernier/dtype.h"

namespace vernier {

/// True for q8, i8 and u8: operands of products of 8 bits.
constexpr bool is_8_bits(DType t) { return t == DType::kQ8 || t == DType::kI8 || t == DType::kU8; }
/// True for f8e4m3 and f8e5m2, the floats of 8 bits that kernels take.
constexpr bool is_8_bit_float(DType t) { return t == DType::kF8E4M3 || t == DType::kF8E5M2; }
/// True for i4, u4, i2, u2, f4e2m1, f8e4m3fnuz, f8e5m2fnuz and f8e8m0: only the evaluators compute
/// with them; kernels that move elements copy their bytes.
constexpr bool is_only_evaluated(DType t) { return t >= DType::kI4 && t <= DType::kF8E8M0; }
/// True for the floats of 8 and 4 bits. A model's own are what its Q/DQ operators and Casts
/// quantize to.
constexpr bool is_small_float(DType t) {
  return is_8_bit_float(t) || (is_only_evaluated(t) && is_float(t));
}
/// True for the integers of 4 and 2 bits.
constexpr bool is_small_integer(DType t) { return is_only_evaluated(t) && is_integer(t); }
/// Bits of an element as ONNX counts them: 4 and 2 for types that take a byte here.
size_t element_bits(DType t);
/// True for w8 and w4: only the weight of a product is quantized.
constexpr bool is_weight_only(DType t) { return t == DType::kW8 || t == DType::kW4; }
/// True for the types of 8 bits in which an engine multiplies numbers that it has quantized.
constexpr bool is_quantized_operand(DType t) { return t == DType::kQ8 || t == DType::kF8E4M3; }
/// True for the compute types of products that a build quantizes.
constexpr bool is_quantized(DType t) { return is_quantized_operand(t) || is_weight_only(t); }

/// IEEE round-to-nearest-even conversions. NaN stays NaN; overflow of f16 and bf16 gives infinity,
/// of f8e4m3 gives NaN (the type has no infinity), of f8e5m2 gives infinity. q8, q4 and f4e2m1
/// store NaN as 0.
uint16_t f32_to_f16(float x);
float f16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float x);
constexpr float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
uint8_t f32_to_f8e4m3(float x);
float f8e4m3_to_f32(uint8_t bits);
uint8_t f32_to_f8e5m2(float x);
float f8e5m2_to_f32(uint8_t bits);

/// Rounds doubles to the values of one float type; inline, for loops. Identity for all types but
/// floats narrower than f64. NaN stays NaN; infinity stays infinity, but becomes NaN in f8e4m3,
/// f8e4m3fnuz, f8e5m2fnuz and f8e8m0, and ±127 in q8, ±7 in q4 and ±6 in f4e2m1, which saturate.
/// -0 is 0 in the fnuz types. 0 and negative numbers are NaN in f8e8m0, which lacks them.
class FloatRounder {
 public:
  /// The numbers that it rounds with, for code on a device.
  struct Grid {
    double min_normal = 0;  // a shift of 0 is the identity
    double spacing = 0;     // of the numbers in [1, 2)
    double shift = 0;       // 1.5·2^52·spacing
    double max_finite = HUGE_VAL, overflow = HUGE_VAL;
    double least = -HUGE_VAL;  // of f8e8m0 its smallest number, above 0
    double zero = -0.0;        // added: -0 changes nothing, 0 makes -0 a 0
  };
  explicit FloatRounder(DType t);
  const Grid& grid() const { return grid_; }
  /// To the nearest value, halves to even; overflow as at the conversions above.
  double nearest(double x) const {
    const double rounded = on_grid(x) + grid_.zero;
    return is_value(rounded) ? rounded : overflowed(x);
  }
  /// Toward zero: a finite number never overflows.
  double truncated(double x) const {
    double rounded = on_grid(x);
    if (std::abs(rounded) > std::abs(x)) rounded -= std::copysign(binade(x) * grid_.spacing, x);
    rounded += grid_.zero;
    if (is_value(rounded)) return rounded;
    const double most = std::copysign(grid_.max_finite, x);
    return std::isfinite(x) && std::abs(x) > grid_.max_finite && is_value(most) ? most
                                                                                : overflowed(x);
  }

 private:
  // 2^exponent of x, at least that of the smallest normal number.
  double binade(double x) const {
    constexpr uint64_t kExponent = 0x7ff0000000000000u;
    return std::max(std::bit_cast<double>(std::bit_cast<uint64_t>(x) & kExponent),
                    grid_.min_normal);
  }
  // Adding and subtracting 1.5·2^52 spacings rounds x to the nearest multiple of its spacing.
  double on_grid(double x) const {
    const double shift = binade(x) * grid_.shift;
    return std::copysign((x + shift) - shift, x);
  }
  bool is_value(double rounded) const {
    return rounded >= grid_.least && std::abs(rounded) <= grid_.max_finite;
  }
  double overflowed(double x) const { return x != x ? x : std::copysign(grid_.overflow, x); }

  Grid grid_;
};

/// x rounded once to the nearest value of `t`, returned as double. Identity for kUndefined and f64.
double round_to(DType t, double x);
/// As round_to, toward zero.
double truncate_to(DType t, double x);

/// One element at `src` of type `t` as double (floats) — and back, rounding to nearest.
double load_float(DType t, const void* src);
void store_float(DType t, double value, void* dst);
/// One element of integer or bool type `t` as int64 (u64 keeps its bits) — and back, wrapping. Of
/// types of 4 and 2 bits only those bits are read.
int64_t load_integer(DType t, const void* src);
void store_integer(DType t, int64_t value, void* dst);
/// `value` wrapped into the range of integer type `t` (bool: value != 0).
int64_t wrap_integer(DType t, int64_t value);

}  // namespace vernier
