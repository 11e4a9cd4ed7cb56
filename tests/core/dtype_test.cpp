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

TEST(DType, EveryPatternSurvivesARoundTrip) {
  for (const Narrow& type : narrow_types()) {
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
  for (const Narrow& type : narrow_types()) {
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
  for (const Narrow& type : narrow_types()) {
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

TEST(DType, NamesReadBack) {
  for (int number = 1; number <= static_cast<int>(DType::kBool); ++number) {
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
  const std::vector<Narrow> types = narrow_types();
  std::vector<DType> wide{DType::kF64, DType::kF32, DType::kTF32};
  for (const Narrow& type : types) wide.push_back(type.type);
  for (const Narrow& narrow : types) {
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
