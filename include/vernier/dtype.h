// Element types of arrays, models and engines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vernier {

// The numbers are written into engine files: never renumber, only append.
enum class DType : uint8_t {
  kUndefined = 0,
  kF32 = 1,
  kF64 = 2,
  kF16 = 3,
  kBF16 = 4,
  kF8E4M3 = 5,
  kF8E5M2 = 6,
  kTF32 = 7,  ///< a compute type only: it has no storage
  kI8 = 8,
  kU8 = 9,
  kI16 = 10,
  kU16 = 11,
  kI32 = 12,
  kU32 = 13,
  kI64 = 14,
  kU64 = 15,
  kBool = 16,
  kQ8 = 17,  ///< whole numbers from -127 to 127 in units of a scale that is stored beside them: the
             ///< operands of products that an engine computes in int8
};

/// Bytes of one stored element; 0 for kUndefined and kTF32.
size_t size_bytes(DType t);
/// "f32", "i64", "bool" … (the spelling of rules, text form and JSON).
std::string_view name(DType t);
/// Inverse of name(); empty when unknown.
std::optional<DType> parse_dtype(std::string_view text);

/// True for f64, f32, tf32, f16, bf16, both f8 types and q8, whose integers are rounded numbers.
constexpr bool is_float(DType t) {
  return (t >= DType::kF32 && t <= DType::kTF32) || t == DType::kQ8;
}
/// True for the eight integer types (bool is not an integer).
constexpr bool is_integer(DType t) { return t >= DType::kI8 && t <= DType::kU64; }
constexpr bool is_signed_integer(DType t) {
  return t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64;
}

}  // namespace vernier
