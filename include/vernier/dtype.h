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
  kQ4 = 18,  ///< the same from -7 to 7: weights of 4 bits, a byte each until a kernel packs them
  kW8 = 19,  ///< a compute type only: of a product whose weight is q8, its other operand as stored
  kW4 = 20,  ///< the same with a weight of q4
  // ONNX's smallest types, which a model's own Casts and quantization make. An element takes a
  // byte: a number as int8 or uint8, a float's code in the lowest bits.
  kI4 = 21,
  kU4 = 22,
  kI2 = 23,
  kU2 = 24,
  kF4E2M1 = 25,      ///< 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
  kF8E4M3FNUZ = 26,  ///< no infinities, no -0; NaN is 0x80
  kF8E5M2FNUZ = 27,  ///< the same
  kF8E8M0 = 28,      ///< 2^-127 … 2^127 and NaN: scales
};
inline constexpr DType kLastDType = DType::kF8E8M0;

/// Bytes of one stored element; 0 for kUndefined and for compute types: tf32, w8, w4.
size_t size_bytes(DType t);
/// "f32", "i64", "bool" … (the spelling of rules, text form and JSON).
std::string_view name(DType t);
/// Inverse of name(); empty when unknown.
std::optional<DType> parse_dtype(std::string_view text);

/// True for f64, f32, tf32, f16, bf16, the f8 types and f4e2m1, q8 and q4, whose integers are
/// rounded numbers, and the compute types w8 and w4.
constexpr bool is_float(DType t) {
  return (t >= DType::kF32 && t <= DType::kTF32) || (t >= DType::kQ8 && t <= DType::kW4) ||
         (t >= DType::kF4E2M1 && t <= DType::kF8E8M0);
}
/// True for the twelve integer types (bool is not an integer).
constexpr bool is_integer(DType t) {
  return (t >= DType::kI8 && t <= DType::kU64) || (t >= DType::kI4 && t <= DType::kU2);
}
constexpr bool is_signed_integer(DType t) {
  return t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64 ||
         t == DType::kI4 || t == DType::kI2;
}

}  // namespace vernier
