// Element types: names, exhaustive conversions of the narrow floats, rounding, wrapping.
#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "core/numerics.h"

namespace vernier {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// One narrow float format as functions on its bits.
struct Narrow {
  DType type;
  uint32_t count;  ///< number of bit patterns
  std::function<float(uint32_t)> widen;
  std::function<uint32_t(float)> narrow;
};

std::vector<Narrow> narrow_types() {
  const auto u16 = [](uint32_t bits) { return static_cast<uint16_t>(bits); };
  const auto u8 = [](uint32_t bits) { return static_cast<uint8_t>(bits); };
  return {
      {DType::kF16, 65536, [=](uint32_t x) { return f16_to_f32(u16(x)); }, f32_to_f16},
      {DType::kBF16, 65536, [=](uint32_t x) { return bf16_to_f32(u16(x)); }, f32_to_bf16},
      {DType::kF8E4M3, 256, [=](uint32_t x) { return f8e4m3_to_f32(u8(x)); }, f32_to_f8e4m3},
      {DType::kF8E5M2, 256, [=](uint32_t x) { return f8e5m2_to_f32(u8(x)); }, f32_to_f8e5m2},
  };
}

Narrow small_type(DType type, uint32_t count) {
  return {type, count,
          [type](uint32_t bits) {
            const auto byte = static_cast<uint8_t>(bits);
            return static_cast<float>(load_float(type, &byte));
          },
          [type](float value) {
            uint8_t byte = 0;
            store_float(type, value, &byte);
            return uint32_t{byte};
          }};
}

// With ONNX's types that only evaluators take. f8e8m0 has powers of two alone.
std::vector<Narrow> rounded_types() {
  std::vector<Narrow> types = narrow_types();
  types.push_back(small_type(DType::kF4E2M1, 16));
  types.push_back(small_type(DType::kF8E4M3FNUZ, 256));
  types.push_back(small_type(DType::kF8E5M2FNUZ, 256));
  return types;
}
std::vector<Narrow> stored_types() {
  std::vector<Narrow> types = rounded_types();
  types.push_back(small_type(DType::kF8E8M0, 256));
  return types;
}

TEST(DType, EveryPatternSurvivesARoundTrip) {
  for (const Narrow& type : stored_types()) {
    SCOPED_TRACE(name(type.type));
    for (uint32_t bits = 0; bits < type.count; ++bits) {
      const float wide = type.widen(bits);
      if (std::isnan(wide)) {
        ASSERT_TRUE(std::isnan(type.widen(type.narrow(wide)))) << bits;
        ASSERT_TRUE(std::isnan(round_to(type.type, wide))) << bits;
        continue;
      }
      ASSERT_EQ(type.narrow(wide), bits);
      ASSERT_EQ(round_to(type.type, wide), static_cast<double>(wide)) << bits;
    }
  }
}

// Between two neighboring values: below the middle goes down, above goes up, the middle goes to
// the even pattern. Positive values are increasing in their bits.
TEST(DType, EveryMiddleRoundsToEven) {
  for (const Narrow& type : rounded_types()) {
    SCOPED_TRACE(name(type.type));
    for (uint32_t bits = 0; bits + 1 < type.count / 2; ++bits) {
      const double low = type.widen(bits), high = type.widen(bits + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) break;
      const double middle = (low + high) / 2;
      ASSERT_EQ(round_to(type.type, middle), bits % 2 == 0 ? low : high);
      ASSERT_EQ(round_to(type.type, std::nextafter(middle, 0)), low);
      ASSERT_EQ(round_to(type.type, std::nextafter(middle, kInf)), high);
      ASSERT_EQ(round_to(type.type, -middle), bits % 2 == 0 ? -low : -high);
      // The middle of two bf16 is an f32; so are those of all narrower types.
      const auto exact = static_cast<float>(middle);
      ASSERT_EQ(type.narrow(exact), bits % 2 == 0 ? bits : bits + 1);
      ASSERT_EQ(type.narrow(std::nextafterf(exact, 0)), bits);
      ASSERT_EQ(type.narrow(std::nextafterf(exact, INFINITY)), bits + 1);
    }
  }
}

// Toward zero: everything from a value up to just below the next becomes the value.
TEST(DType, TruncationGoesTowardsZero) {
  for (const Narrow& type : rounded_types()) {
    SCOPED_TRACE(name(type.type));
    for (uint32_t bits = 0; bits + 1 < type.count / 2; ++bits) {
      const double low = type.widen(bits), high = type.widen(bits + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) break;
      ASSERT_EQ(truncate_to(type.type, low), low);
      ASSERT_EQ(truncate_to(type.type, (low + high) / 2), low);
      ASSERT_EQ(truncate_to(type.type, std::nextafter(high, 0)), low);
      ASSERT_EQ(truncate_to(type.type, -std::nextafter(high, 0)), -low);
    }
  }
  EXPECT_EQ(truncate_to(DType::kTF32, 1 + 0x1.ffp-11), 1);
  EXPECT_EQ(truncate_to(DType::kF32, 1 + 0x1.ffp-24), 1);
  EXPECT_EQ(truncate_to(DType::kF64, 0.1), 0.1);
  EXPECT_EQ(truncate_to(DType::kF16, 1e30), 65504) << "a finite number never overflows";
  EXPECT_EQ(truncate_to(DType::kF8E4M3, -1e300), -448);
  EXPECT_EQ(truncate_to(DType::kF16, kInf), kInf);
  EXPECT_TRUE(std::isnan(truncate_to(DType::kF8E4M3, kInf)));
  EXPECT_TRUE(std::isnan(truncate_to(DType::kBF16, NAN)));
  EXPECT_TRUE(std::signbit(truncate_to(DType::kF16, -1e-30)));
}

// round_to against the machine's own conversion, which is IEEE's: f32 over all exponents.
TEST(DType, F32RoundsAsTheMachineDoes) {
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    for (const double mantissa :
         {1.0, 1 + 0x1p-24, 1 + 0x1.000001p-24, 1 + 0x1.8p-23, 1.7320508075688772, 0x1.ffffffp0}) {
      for (const double v : {std::ldexp(mantissa, exponent), -std::ldexp(mantissa, exponent)}) {
        ASSERT_EQ(round_to(DType::kF32, v), static_cast<double>(static_cast<float>(v))) << v;
      }
    }
  }
  EXPECT_TRUE(std::isnan(round_to(DType::kF32, NAN)));
  EXPECT_EQ(round_to(DType::kF32, -kInf), -kInf);
}

TEST(DType, ExtremeDoublesRound) {
  for (const Narrow& type : narrow_types()) {
    SCOPED_TRACE(name(type.type));
    const bool infinite = type.type != DType::kF8E4M3;
    for (const double v : {1e300, std::numeric_limits<double>::max()}) {
      EXPECT_TRUE(infinite ? round_to(type.type, v) == kInf : std::isnan(round_to(type.type, v)));
    }
    const double tiny = std::numeric_limits<double>::denorm_min();
    EXPECT_EQ(round_to(type.type, tiny), 0);
    EXPECT_TRUE(std::signbit(round_to(type.type, -tiny)));
    EXPECT_EQ(truncate_to(type.type, tiny), 0);
  }
  EXPECT_EQ(round_to(DType::kF64, 1e300), 1e300);
  EXPECT_EQ(round_to(DType::kF64, -kInf), -kInf);
}

TEST(DType, OverflowIsInfinityOrNaN) {
  struct Row {
    DType type;
    double largest, first_overflow;
    bool infinite;
  };
  // The first value to overflow is the middle between the largest and what would come next;
  // f8e4m3's middle (464) goes to the even 448.
  for (const Row& row :
       {Row{DType::kF16, 65504, 65520, true}, Row{DType::kF8E5M2, 57344, 61440, true},
        Row{DType::kBF16, 0x1.fep127, 0x1.ffp127, true},
        Row{DType::kTF32, 0x1.ffcp127, 0x1.ffep127, true},
        Row{DType::kF8E4M3, 448, std::nextafter(464, kInf), false}}) {
    SCOPED_TRACE(name(row.type));
    EXPECT_EQ(round_to(row.type, row.largest), row.largest);
    EXPECT_EQ(round_to(row.type, std::nextafter(row.first_overflow, 0)), row.largest);
    for (const double v : {row.first_overflow, kInf}) {
      const double got = round_to(row.type, v);
      EXPECT_TRUE(row.infinite ? got == kInf : std::isnan(got)) << v;
      EXPECT_TRUE(row.infinite ? round_to(row.type, -v) == -kInf
                               : std::isnan(round_to(row.type, -v)));
    }
  }
}

TEST(DType, SignedZeroAndSubnormalsRound) {
  for (const Narrow& type : narrow_types()) {
    EXPECT_TRUE(std::signbit(round_to(type.type, -0.0))) << name(type.type);
    EXPECT_EQ(type.narrow(-0.0f), type.count / 2) << name(type.type);
    const double least = type.widen(1);
    EXPECT_EQ(round_to(type.type, least / 2), 0) << "half of the least goes to even zero";
    EXPECT_EQ(round_to(type.type, std::nextafter(least / 2, 1)), least);
  }
  EXPECT_EQ(round_to(DType::kTF32, 1 + 0x1p-11), 1);
  EXPECT_EQ(round_to(DType::kTF32, 1 + 0x1.8p-11), 1 + 0x1p-10);
  EXPECT_EQ(round_to(DType::kF64, 0.1), 0.1);
  EXPECT_EQ(round_to(DType::kF32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(round_to(DType::kUndefined, 0.1), 0.1);
}

TEST(DType, StoresRoundOnceFromDouble) {
  // 1 + 2^-11 + 2^-40 is above the middle of two f16; via f32 it would fall on the middle.
  const double v = 1 + 0x1p-11 + 0x1p-40;
  uint16_t bits = 0;
  store_float(DType::kF16, v, &bits);
  EXPECT_EQ(load_float(DType::kF16, &bits), 1 + 0x1p-10);
  store_float(DType::kBF16, 1 + 0x1p-8 + 0x1p-40, &bits);
  EXPECT_EQ(load_float(DType::kBF16, &bits), 1 + 0x1p-7);
}

// Values of codes and conversions as the package ml_dtypes has them; f4e2m1's NaN is 0 here.
TEST(DType, SmallFloatsAreThoseOfOnnx) {
  struct Code {
    DType type;
    uint8_t code;
    double value;
  };
  for (const Code& row : {
           Code{DType::kF4E2M1, 0x1, 0.5},
           Code{DType::kF4E2M1, 0x3, 1.5},
           Code{DType::kF4E2M1, 0x7, 6},
           Code{DType::kF4E2M1, 0xd, -3},
           Code{DType::kF4E2M1, 0xf7, 6},
           Code{DType::kF8E4M3FNUZ, 0x01, 0x1p-10},
           Code{DType::kF8E4M3FNUZ, 0x08, 0x1p-7},
           Code{DType::kF8E4M3FNUZ, 0x43, 1.375},
           Code{DType::kF8E4M3FNUZ, 0x7f, 240},
           Code{DType::kF8E4M3FNUZ, 0xff, -240},
           Code{DType::kF8E4M3FNUZ, 0x80, NAN},
           Code{DType::kF8E5M2FNUZ, 0x01, 0x1p-17},
           Code{DType::kF8E5M2FNUZ, 0x41, 1.25},
           Code{DType::kF8E5M2FNUZ, 0x7f, 57344},
           Code{DType::kF8E5M2FNUZ, 0xb2, -0.09375},
           Code{DType::kF8E5M2FNUZ, 0x80, NAN},
           Code{DType::kF8E8M0, 0x00, 0x1p-127},
           Code{DType::kF8E8M0, 0x7f, 1},
           Code{DType::kF8E8M0, 0xfe, 0x1p127},
           Code{DType::kF8E8M0, 0xff, NAN},
       }) {
    const double got = load_float(row.type, &row.code);
    EXPECT_TRUE(std::isnan(row.value) ? std::isnan(got) : got == row.value)
        << name(row.type) << " " << int{row.code} << ": " << got;
  }
  struct Store {
    DType type;
    double value;
    uint8_t code;
  };
  for (const Store& row : {
           Store{DType::kF4E2M1, 1e6, 0x7},        Store{DType::kF4E2M1, -kInf, 0xf},
           Store{DType::kF4E2M1, 5, 0x6},          Store{DType::kF4E2M1, -0.1, 0x8},
           Store{DType::kF4E2M1, NAN, 0x0},        Store{DType::kF8E4M3FNUZ, 247.9, 0x7f},
           Store{DType::kF8E4M3FNUZ, 248, 0x80},   Store{DType::kF8E4M3FNUZ, -0.0, 0x00},
           Store{DType::kF8E4M3FNUZ, -1e-9, 0x00}, Store{DType::kF8E4M3FNUZ, -kInf, 0x80},
           Store{DType::kF8E4M3FNUZ, NAN, 0x80},   Store{DType::kF8E5M2FNUZ, 61439, 0x7f},
           Store{DType::kF8E5M2FNUZ, 61440, 0x80}, Store{DType::kF8E5M2FNUZ, -0.1, 0xb2},
           Store{DType::kF8E8M0, 1.4, 0x7f},       Store{DType::kF8E8M0, 1.5, 0x80},
           Store{DType::kF8E8M0, 3, 0x81},         Store{DType::kF8E8M0, 0, 0xff},
           Store{DType::kF8E8M0, -1, 0xff},        Store{DType::kF8E8M0, 0x1.8p127, 0xff},
           Store{DType::kF8E8M0, kInf, 0xff},
       }) {
    uint8_t code = 0xaa;
    store_float(row.type, row.value, &code);
    EXPECT_EQ(code, row.code) << name(row.type) << " of " << row.value;
  }
  EXPECT_EQ(truncate_to(DType::kF8E8M0, 0x1.8p127), 0x1p127);
  EXPECT_EQ(truncate_to(DType::kF8E8M0, 1.99), 1);
  EXPECT_TRUE(std::isnan(truncate_to(DType::kF8E8M0, -1)));
  EXPECT_TRUE(std::isnan(truncate_to(DType::kF8E8M0, 0x1p-128)));
  EXPECT_FALSE(std::signbit(round_to(DType::kF8E5M2FNUZ, -1e-30)));
  EXPECT_FALSE(std::signbit(truncate_to(DType::kF8E5M2FNUZ, -1e-30)));
  EXPECT_TRUE(std::signbit(round_to(DType::kF4E2M1, -1e-30)));
}

TEST(DType, OfSmallIntegersTheLowestBitsCount) {
  struct Row {
    DType type;
    size_t bits;
    int64_t low, high;
  };
  for (const Row& row : {Row{DType::kI4, 4, -8, 7}, Row{DType::kU4, 4, 0, 15},
                         Row{DType::kI2, 2, -2, 1}, Row{DType::kU2, 2, 0, 3}}) {
    SCOPED_TRACE(name(row.type));
    EXPECT_EQ(element_bits(row.type), row.bits);
    EXPECT_TRUE(is_small_integer(row.type));
    const int64_t count = row.high - row.low + 1;
    for (int64_t v = -300; v <= 300; ++v) {
      const int64_t want = ((v - row.low) % count + count) % count + row.low;
      ASSERT_EQ(wrap_integer(row.type, v), want) << v;
      const auto byte = static_cast<uint8_t>(v);
      ASSERT_EQ(load_integer(row.type, &byte), want) << v;
    }
    uint8_t stored = 0;
    store_integer(row.type, row.low, &stored);
    EXPECT_EQ(static_cast<int8_t>(stored), row.low) << "the sign fills the byte";
  }
}

TEST(DType, NamesReadBack) {
  for (int number = 1; number <= static_cast<int>(kLastDType); ++number) {
    const auto type = static_cast<DType>(number);
    EXPECT_EQ(parse_dtype(name(type)), type);
    EXPECT_EQ(is_float(type) + is_integer(type) + (type == DType::kBool), 1) << name(type);
  }
  EXPECT_EQ(parse_dtype("undefined"), std::nullopt);
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
}

TEST(DType, IntegersWrap) {
  EXPECT_EQ(wrap_integer(DType::kI8, 128), -128);
  EXPECT_EQ(wrap_integer(DType::kU8, -1), 255);
  EXPECT_EQ(wrap_integer(DType::kI16, 0x18000), -0x8000);
  EXPECT_EQ(wrap_integer(DType::kU16, 0x1ffff), 0xffff);
  EXPECT_EQ(wrap_integer(DType::kI32, int64_t{1} << 31), -(int64_t{1} << 31));
  EXPECT_EQ(wrap_integer(DType::kU32, -1), 0xffffffff);
  EXPECT_EQ(wrap_integer(DType::kI64, INT64_MIN), INT64_MIN);
  EXPECT_EQ(wrap_integer(DType::kU64, -1), -1) << "u64 keeps its bits";
  EXPECT_EQ(wrap_integer(DType::kBool, -5), 1);
  EXPECT_EQ(wrap_integer(DType::kBool, 0), 0);
}

// The lattice must agree with the values: a represents b iff rounding b's values to a is exact.
TEST(DType, RepresentationAgreesWithTheValues) {
  std::vector<DType> wide{DType::kF64, DType::kF32, DType::kTF32, DType::kF4E2M1};
  for (const Narrow& type : narrow_types()) wide.push_back(type.type);
  for (const Narrow& narrow : stored_types()) {
    for (DType to : wide) {
      bool exact = true;
      for (uint32_t bits = 0; bits < narrow.count; ++bits) {
        const double v = narrow.widen(bits);
        // f8e4m3 has no infinity; that alone does not decide between the f8 types.
        if (std::isfinite(v)) exact = exact && round_to(to, v) == v;
      }
      EXPECT_EQ(represents(to, narrow.type), exact) << name(to) << " of " << name(narrow.type);
    }
  }
}

TEST(DType, FourBitsSaturateAndRoundHalvesToEven) {
  for (const auto& [from, to] : std::initializer_list<std::pair<double, double>>{{0, 0},
                                                                                 {0.5, 0},
                                                                                 {1.5, 2},
                                                                                 {-2.5, -2},
                                                                                 {6.6, 7},
                                                                                 {7.4, 7},
                                                                                 {100, 7},
                                                                                 {-7.6, -7},
                                                                                 {kInf, 7},
                                                                                 {-kInf, -7}}) {
    EXPECT_EQ(round_to(DType::kQ4, from), to) << from;
    int8_t stored = 0;
    store_float(DType::kQ4, from, &stored);
    EXPECT_EQ(load_float(DType::kQ4, &stored), to) << from;
  }
  int8_t stored = 1;
  store_float(DType::kQ4, NAN, &stored);
  EXPECT_EQ(stored, 0);
}

// A product in w8 has more of its operands than one in int8 or w4, and less than one in 16 bits.
TEST(Numerics, QuantizedTypesAreBelowSixteenBits) {
  for (const DType wide : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16}) {
    for (const DType low : {DType::kQ8, DType::kW8, DType::kW4}) {
      EXPECT_TRUE(represents(wide, low)) << name(wide) << " of " << name(low);
      EXPECT_FALSE(represents(low, wide)) << name(low) << " of " << name(wide);
    }
  }
  EXPECT_TRUE(represents(DType::kW8, DType::kW4));
  EXPECT_TRUE(represents(DType::kW8, DType::kQ8));
  EXPECT_FALSE(represents(DType::kW4, DType::kW8));
  EXPECT_FALSE(represents(DType::kW4, DType::kQ8));
  EXPECT_FALSE(represents(DType::kQ8, DType::kW4));
  EXPECT_TRUE(represents(DType::kQ8, DType::kQ4));
  EXPECT_FALSE(is_narrow(DType::kW8)) << "it has no storage";
}

TEST(Numerics, WhatIsPlainlyF32IsNotSimulated) {
  using Mode = PointRounding::Mode;
  for (const PointRounding& plain :
       {PointRounding{}, PointRounding{DType::kF32}, PointRounding{DType::kF64},
        PointRounding{DType::kF64, Mode::kTruncate, 128}}) {
    EXPECT_FALSE(is_simulated(plain)) << name(plain.type);
  }
  for (const PointRounding& narrow :
       {PointRounding{DType::kF16}, PointRounding{DType::kTF32}, PointRounding{DType::kF8E4M3},
        PointRounding{DType::kF32, Mode::kTruncate},
        PointRounding{DType::kF32, Mode::kNearest, 64}}) {
    EXPECT_TRUE(is_simulated(narrow)) << name(narrow.type);
  }
}

TEST(Numerics, TheIdealRoundsWhatIsDeclared) {
  Numerics n;
  n.compute = DType::kBF16;
  n.points[0] = {DType::kBF16};
  n.points[2] = {DType::kF32};
  n.accumulate = DType::kF16;
  n.accumulate_mode = PointRounding::Mode::kTruncate;
  n.accumulate_block = 128;
  const Rounding product = ideal_rounding(OpKind::kLinear, n);
  EXPECT_EQ(product.at(0).type, DType::kBF16);
  EXPECT_EQ(product.at(1).type, DType::kUndefined);
  EXPECT_EQ(product.at(2).type, DType::kUndefined) << "f32 is statistical";
  EXPECT_EQ(product.accumulator().type, DType::kF16);
  EXPECT_EQ(product.accumulator().mode, PointRounding::Mode::kTruncate);
  EXPECT_EQ(product.accumulator().block, 128);
  EXPECT_EQ(product.inner().type, DType::kUndefined) << "a product's inner type is its own";
  n.inner = DType::kF16;
  EXPECT_EQ(ideal_rounding(OpKind::kLinear, n).inner().type, DType::kF16);
  EXPECT_EQ(ideal_rounding(OpKind::kLayerNorm, n).inner().type, DType::kBF16);
}

TEST(Numerics, AFloorIsMetByEveryWiderType) {
  Numerics got;
  got.compute = DType::kTF32;
  Request asked;
  asked.compute = {DType::kF16, false};
  EXPECT_TRUE(satisfies(got, asked));
  asked.compute = {DType::kF32, false};
  asked.by = "rule 2";
  EXPECT_EQ(satisfies(got, asked).reason, "computes in tf32, asked for at least f32 (rule 2)");
}

TEST(Numerics, AnExactRequestIsMetByItsTypeOnly) {
  Numerics got;
  Request asked;
  asked.store = {DType::kF16, true};
  EXPECT_EQ(satisfies(got, asked).reason, "stores in f32, asked for exactly f16");
  got.store = DType::kF16;
  EXPECT_TRUE(satisfies(got, asked));
  asked.accumulate = {DType::kF64, false};
  EXPECT_EQ(satisfies(got, asked).reason, "accumulates in f32, asked for at least f64");
}

Request asks(DType compute, bool exact, const char* by) {
  return {.compute = {compute, exact}, .accumulate = {}, .store = {}, .by = by};
}

TEST(Numerics, TheStrongerOfTwoRequestsIsAskedOfBoth) {
  struct Row {
    Request a, b;
    TypeRequest both;
    std::string by;
  };
  const std::vector<Row> rows{
      {asks(DType::kF16, false, "a"), asks(DType::kF32, false, "b"), {DType::kF32, false}, "b"},
      {asks(DType::kF32, false, "a"), asks(DType::kF32, false, "b"), {DType::kF32, false}, "a"},
      {asks(DType::kF16, false, "a"), asks(DType::kF32, true, "b"), {DType::kF32, true}, "b"},
      {asks(DType::kF32, false, "a"), asks(DType::kF32, true, "b"), {DType::kF32, true}, "b"},
      {asks(DType::kUndefined, false, "a"),
       asks(DType::kBF16, true, "b"),
       {DType::kBF16, true},
       "b"},
      // Only f32 holds every value of both.
      {asks(DType::kF16, false, "a"), asks(DType::kBF16, false, "b"), {DType::kF32, false}, "a"},
  };
  for (const Row& row : rows) {
    const auto both = common_request(row.a, row.b);
    ASSERT_TRUE(both) << name(row.a.compute.type) << " " << name(row.b.compute.type);
    EXPECT_EQ(both->compute.type, row.both.type);
    EXPECT_EQ(both->compute.exact, row.both.exact);
    EXPECT_EQ(both->by, row.by);
  }
}

TEST(Numerics, RequestsThatNoTypeSatisfiesHaveNothingInCommon) {
  const Request exact = asks(DType::kBF16, true, "rule 1");
  for (const Request& other :
       {asks(DType::kF32, false, "mode fp32"), asks(DType::kF16, true, "mode fp32")}) {
    EXPECT_FALSE(common_request(exact, other));
    EXPECT_FALSE(common_request(other, exact));
  }
}

}  // namespace
}  // namespace vernier
