// Element types: names, sizes and conversions. Contract: design "Words" (storage / compute type).
// tf32 exists only as a compute type; it has no storage size.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "vernier/dtype.h"

namespace vernier {

/// True for f64, f32, tf32, f16, bf16 and both f8 types.
constexpr bool is_float(DType t) { return t >= DType::kF32 && t <= DType::kTF32; }
/// True for the eight integer types (bool is not an integer).
constexpr bool is_integer(DType t) { return t >= DType::kI8 && t <= DType::kU64; }
constexpr bool is_signed_integer(DType t) {
  return t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64;
}

/// Inverse of name(); empty when unknown.
std::optional<DType> parse_dtype(std::string_view text);

/// IEEE round-to-nearest-even conversions. NaN stays NaN; overflow of f16 and bf16 gives infinity,
/// of f8e4m3 gives NaN (the type has no infinity), of f8e5m2 gives infinity.
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

/// x rounded once to the nearest value of `t`, returned as double. Identity for kUndefined and f64.
double round_to(DType t, double x);

/// One element at `src` of type `t` as double (floats) — and back, rounding to nearest.
double load_float(DType t, const void* src);
void store_float(DType t, double value, void* dst);
/// One element of integer or bool type `t` as int64 (u64 keeps its bits) — and back, wrapping.
int64_t load_integer(DType t, const void* src);
void store_integer(DType t, int64_t value, void* dst);
/// `value` wrapped into the range of integer type `t` (bool: value != 0).
int64_t wrap_integer(DType t, int64_t value);

}  // namespace vernier
