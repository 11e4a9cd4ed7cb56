// Element types: see dtype.h.
#include "core/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace vernier {
namespace {

struct DTypeRow {
  DType type;
  std::string_view name;
  size_t bytes;
};
constexpr std::array kRows{
    DTypeRow{DType::kUndefined, "undefined", 0},
    DTypeRow{DType::kF32, "f32", 4},
    DTypeRow{DType::kF64, "f64", 8},
    DTypeRow{DType::kF16, "f16", 2},
    DTypeRow{DType::kBF16, "bf16", 2},
    DTypeRow{DType::kF8E4M3, "f8e4m3", 1},
    DTypeRow{DType::kF8E5M2, "f8e5m2", 1},
    DTypeRow{DType::kTF32, "tf32", 0},
    DTypeRow{DType::kI8, "i8", 1},
    DTypeRow{DType::kU8, "u8", 1},
    DTypeRow{DType::kI16, "i16", 2},
    DTypeRow{DType::kU16, "u16", 2},
    DTypeRow{DType::kI32, "i32", 4},
    DTypeRow{DType::kU32, "u32", 4},
    DTypeRow{DType::kI64, "i64", 8},
    DTypeRow{DType::kU64, "u64", 8},
    DTypeRow{DType::kBool, "bool", 1},
    DTypeRow{DType::kQ8, "q8", 1},
    DTypeRow{DType::kQ4, "q4", 1},
    DTypeRow{DType::kW8, "w8", 0},
    DTypeRow{DType::kW4, "w4", 0},
    DTypeRow{DType::kI4, "i4", 1},
    DTypeRow{DType::kU4, "u4", 1},
    DTypeRow{DType::kI2, "i2", 1},
    DTypeRow{DType::kU2, "u2", 1},
    DTypeRow{DType::kF4E2M1, "f4e2m1", 1},
    DTypeRow{DType::kF8E4M3FNUZ, "f8e4m3fnuz", 1},
    DTypeRow{DType::kF8E5M2FNUZ, "f8e5m2fnuz", 1},
    DTypeRow{DType::kF8E8M0, "f8e8m0", 1},
};

template <class T>
T read(const void* src) {
  T value;
  std::memcpy(&value, src, sizeof(T));
  return value;
}
template <class T>
void write(void* dst, T value) {
  std::memcpy(dst, &value, sizeof(T));
}

}  // namespace

size_t size_bytes(DType t) { return kRows[static_cast<size_t>(t)].bytes; }
std::string_view name(DType t) { return kRows[static_cast<size_t>(t)].name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const DTypeRow& row : kRows) {
    if (row.name == text && row.type != DType::kUndefined) return row.type;
  }
  return std::nullopt;
}

size_t element_bits(DType t) {
  switch (t) {
    case DType::kI4:
    case DType::kU4:
    case DType::kF4E2M1:
      return 4;
    case DType::kI2:
    case DType::kU2:
      return 2;
    default:
      return 8 * size_bytes(t);
  }
}

uint16_t f32_to_f16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  if (std::isnan(x)) return static_cast<uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x3ffu));
  const uint32_t magnitude = bits & 0x7fffffffu;
  constexpr uint32_t kOverflow = 0x477ff000u;  // 65520: halfway between 65504 and 65536
  constexpr uint32_t kLeastNormal = 0x38800000u, kRebias = 112u << 23;
  if (magnitude >= kOverflow) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= kLeastNormal) {
    const uint32_t moved = magnitude - kRebias;
    return static_cast<uint16_t>(sign | ((moved + 0xfffu + ((moved >> 13) & 1u)) >> 13));
  }
  const float steps = std::bit_cast<float>(magnitude) * 0x1p24f;  // exact
  return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(steps)));
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t f32_to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

uint8_t f32_to_f8e4m3(float x) {
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const double rounded = std::abs(round_to(DType::kF8E4M3, x));
  if (std::isnan(rounded)) return sign | 0x7f;
  if (rounded == 0.0) return sign;
  const int exponent = std::ilogb(rounded);
  if (exponent < -6) return static_cast<uint8_t>(sign | static_cast<uint8_t>(rounded * 512));
  const auto mantissa = static_cast<uint8_t>((rounded * std::ldexp(1.0, -exponent) - 1.0) * 8);
  return static_cast<uint8_t>(sign | ((exponent + 7) << 3) | mantissa);
}

float f8e4m3_to_f32(uint8_t bits) {
  const int exponent = (bits >> 3) & 0xf;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(1.0f + static_cast<float>(mantissa) / 8, exponent - 7);
  return bits & 0x80 ? -magnitude : magnitude;
}

uint8_t f32_to_f8e5m2(float x) {
  const uint16_t half = f32_to_f16(static_cast<float>(round_to(DType::kF8E5M2, x)));
  if (std::isnan(x)) return static_cast<uint8_t>((half >> 8) | 0x02);
  return static_cast<uint8_t>(half >> 8);
}

float f8e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

namespace {

struct FloatFormat {
  double min_normal;         // the smallest normal number
  double spacing;            // of the numbers in [1, 2)
  double max_finite;         // the largest finite number
  double beyond = HUGE_VAL;  // the result of overflow
  double least = -HUGE_VAL;  // the smallest number of a type without 0 and signs
  double zero = -0.0;        // 0 where the type has no -0
};
constexpr FloatFormat format_of(DType t) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  switch (t) {
    case DType::kF32:
      return {0x1p-126, 0x1p-23, 0x1.fffffep127};
    case DType::kTF32:
      return {0x1p-126, 0x1p-10, 0x1.ffcp127};
    case DType::kF16:
      return {0x1p-14, 0x1p-10, 65504};
    case DType::kBF16:
      return {0x1p-126, 0x1p-7, 0x1.fep127};
    case DType::kF8E4M3:
      return {0x1p-6, 0x1p-3, 448, kNaN};
    case DType::kF8E5M2:
      return {0x1p-14, 0x1p-2, 57344};
    case DType::kQ8:  // spaced by 1 wherever it is finite; it saturates
      return {128, 0x1p-7, 127, 127};
    case DType::kQ4:
      return {8, 0x1p-3, 7, 7};
    case DType::kF4E2M1:
      return {1, 0x1p-1, 6, 6};
    case DType::kF8E4M3FNUZ:
      return {0x1p-7, 0x1p-3, 240, kNaN, -HUGE_VAL, 0.0};
    case DType::kF8E5M2FNUZ:
      return {0x1p-15, 0x1p-2, 57344, kNaN, -HUGE_VAL, 0.0};
    case DType::kF8E8M0:
      return {0x1p-127, 1, 0x1p127, kNaN, 0x1p-127};
    default:
      return {0, 0, HUGE_VAL};
  }
}

}  // namespace

FloatRounder::FloatRounder(DType t) {
  const FloatFormat format = format_of(t);
  grid_ = {.min_normal = format.min_normal,
           .spacing = format.spacing,
           .shift = 0x1.8p52 * format.spacing,
           .max_finite = format.max_finite,
           .overflow = format.beyond,
           .least = format.least,
           .zero = format.zero};
}

double round_to(DType t, double x) { return FloatRounder(t).nearest(x); }
double truncate_to(DType t, double x) { return FloatRounder(t).truncated(x); }

namespace {

// A float of a few bits behind its sign: an exponent and, in the lowest bits, a mantissa.
struct SmallFormat {
  int mantissa_bits, bias;
};
constexpr SmallFormat kE2M1{1, 1}, kE4M3FNUZ{3, 8}, kE5M2FNUZ{2, 16};
constexpr uint8_t kFnuzNaN = 0x80, kE8M0NaN = 0xff;
constexpr int kE8M0Bias = 127;

double magnitude_of(const SmallFormat& format, int code) {
  const int exponent = code >> format.mantissa_bits, one = 1 << format.mantissa_bits;
  const int mantissa = code & (one - 1);
  return exponent == 0 ? std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits)
                       : std::ldexp(one + mantissa, exponent - format.bias - format.mantissa_bits);
}
// The inverse, of a number that the format has.
int code_of(const SmallFormat& format, double magnitude) {
  const int least = 1 - format.bias;
  const int exponent = magnitude == 0 ? least : std::max(std::ilogb(magnitude), least);
  const int mantissa = static_cast<int>(std::ldexp(magnitude, format.mantissa_bits - exponent));
  return mantissa + ((exponent - least) << format.mantissa_bits);
}

double from_e2m1(uint8_t bits) {
  const double magnitude = magnitude_of(kE2M1, bits & 7);
  return (bits & 8) != 0 ? -magnitude : magnitude;
}
uint8_t to_e2m1(double value) {
  if (std::isnan(value)) return 0;
  const int code = code_of(kE2M1, std::abs(round_to(DType::kF4E2M1, value)));
  return static_cast<uint8_t>(code | (std::signbit(value) ? 8 : 0));
}
double from_fnuz(const SmallFormat& format, uint8_t bits) {
  if (bits == kFnuzNaN) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude = magnitude_of(format, bits & 0x7f);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}
uint8_t to_fnuz(const SmallFormat& format, double rounded) {
  if (std::isnan(rounded)) return kFnuzNaN;
  return static_cast<uint8_t>(code_of(format, std::abs(rounded)) | (rounded < 0 ? 0x80 : 0));
}
double from_e8m0(uint8_t bits) {
  return bits == kE8M0NaN ? std::numeric_limits<double>::quiet_NaN()
                          : std::ldexp(1.0, bits - kE8M0Bias);
}
uint8_t to_e8m0(double rounded) {
  return std::isnan(rounded) ? kE8M0NaN : static_cast<uint8_t>(std::ilogb(rounded) + kE8M0Bias);
}

}  // namespace

double load_float(DType t, const void* src) {
  switch (t) {
    case DType::kF32:
      return read<float>(src);
    case DType::kF64:
      return read<double>(src);
    case DType::kF16:
      return f16_to_f32(read<uint16_t>(src));
    case DType::kBF16:
      return bf16_to_f32(read<uint16_t>(src));
    case DType::kF8E4M3:
      return f8e4m3_to_f32(read<uint8_t>(src));
    case DType::kF8E5M2:
      return f8e5m2_to_f32(read<uint8_t>(src));
    case DType::kQ8:
    case DType::kQ4:
      return read<int8_t>(src);
    case DType::kF4E2M1:
      return from_e2m1(read<uint8_t>(src));
    case DType::kF8E4M3FNUZ:
      return from_fnuz(kE4M3FNUZ, read<uint8_t>(src));
    case DType::kF8E5M2FNUZ:
      return from_fnuz(kE5M2FNUZ, read<uint8_t>(src));
    case DType::kF8E8M0:
      return from_e8m0(read<uint8_t>(src));
    default:
      return static_cast<double>(load_integer(t, src));
  }
}

namespace {
// The conversion without undefined cases: NaN is 0, values beyond the type are its limits.
int64_t saturated_int64(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (std::isnan(value)) return 0;
  if (value >= kLimit) return INT64_MAX;
  return value <= -kLimit ? INT64_MIN : static_cast<int64_t>(value);
}
}  // namespace

void store_float(DType t, double value, void* dst) {
  // The narrow types round once from double (round_to), then convert exactly.
  switch (t) {
    case DType::kF32:
      return write(dst, static_cast<float>(value));
    case DType::kF64:
      return write(dst, value);
    case DType::kF16:
      return write(dst, f32_to_f16(static_cast<float>(round_to(t, value))));
    case DType::kBF16:
      return write(dst, f32_to_bf16(static_cast<float>(round_to(t, value))));
    case DType::kF8E4M3:
      return write(dst, f32_to_f8e4m3(static_cast<float>(round_to(t, value))));
    case DType::kF8E5M2:
      return write(dst, f32_to_f8e5m2(static_cast<float>(round_to(t, value))));
    case DType::kQ8:
    case DType::kQ4:
      return write(dst, static_cast<int8_t>(std::isnan(value) ? 0 : round_to(t, value)));
    case DType::kF4E2M1:
      return write(dst, to_e2m1(value));
    case DType::kF8E4M3FNUZ:
      return write(dst, to_fnuz(kE4M3FNUZ, round_to(t, value)));
    case DType::kF8E5M2FNUZ:
      return write(dst, to_fnuz(kE5M2FNUZ, round_to(t, value)));
    case DType::kF8E8M0:
      return write(dst, to_e8m0(round_to(t, value)));
    default:
      return store_integer(t, saturated_int64(value), dst);
  }
}

namespace {
// The lowest bits of a number, as a signed or an unsigned one.
int8_t low_signed(uint64_t value, size_t bits) {
  const int above = 8 - static_cast<int>(bits);
  return static_cast<int8_t>(static_cast<int8_t>(value << above) >> above);
}
uint8_t low_unsigned(uint64_t value, size_t bits) {
  return static_cast<uint8_t>(value & ((1u << bits) - 1));
}
}  // namespace

int64_t load_integer(DType t, const void* src) {
  switch (t) {
    case DType::kI4:
    case DType::kI2:
      return low_signed(read<uint8_t>(src), element_bits(t));
    case DType::kU4:
    case DType::kU2:
      return low_unsigned(read<uint8_t>(src), element_bits(t));
    case DType::kI8:
      return read<int8_t>(src);
    case DType::kU8:
      return read<uint8_t>(src);
    case DType::kI16:
      return read<int16_t>(src);
    case DType::kU16:
      return read<uint16_t>(src);
    case DType::kI32:
      return read<int32_t>(src);
    case DType::kU32:
      return read<uint32_t>(src);
    case DType::kBool:
      return read<uint8_t>(src) != 0;
    default:
      return read<int64_t>(src);
  }
}

void store_integer(DType t, int64_t value, void* dst) {
  switch (t) {
    case DType::kI4:
    case DType::kI2:
      return write(dst, low_signed(static_cast<uint64_t>(value), element_bits(t)));
    case DType::kU4:
    case DType::kU2:
      return write(dst, low_unsigned(static_cast<uint64_t>(value), element_bits(t)));
    case DType::kI8:
      return write(dst, static_cast<int8_t>(value));
    case DType::kU8:
      return write(dst, static_cast<uint8_t>(value));
    case DType::kI16:
      return write(dst, static_cast<int16_t>(value));
    case DType::kU16:
      return write(dst, static_cast<uint16_t>(value));
    case DType::kI32:
      return write(dst, static_cast<int32_t>(value));
    case DType::kU32:
      return write(dst, static_cast<uint32_t>(value));
    case DType::kBool:
      return write(dst, static_cast<uint8_t>(value != 0));
    default:
      return write(dst, value);
  }
}

int64_t wrap_integer(DType t, int64_t value) {
  int64_t storage = 0;
  store_integer(t, value, &storage);
  return load_integer(t, &storage);
}

}  // namespace vernier
