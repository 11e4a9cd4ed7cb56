// Packed weights of 8 and 4 bits as f32 or as pairs of bf16. Included once per Highway target.
#if defined(VERNIER_CPU_WEIGHT_ONLY_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_WEIGHT_ONLY_UNPACK_INL_H_
#undef VERNIER_CPU_WEIGHT_ONLY_UNPACK_INL_H_
#else
#define VERNIER_CPU_WEIGHT_ONLY_UNPACK_INL_H_
#endif

#include "backend/cpu/kernels/linear/gemm.h"
#include "backend/cpu/kernels/linear/weight_only_linear.h"
#include "backend/cpu/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

using I32 = hn::Rebind<int32_t, F32>;
using VI32 = hn::Vec<I32>;

// ---- unpacking. A lane of 32 bits belongs to a column. Its bytes hold rows k, k+2, k+1 and k+3 of
// w, so that the even bytes are a pair and the odd ones too. Of 4 bits the lower halves hold rows k
// to k+3 and the upper ones k+4 to k+7, each in this order.

// Four rows as f32.
HWY_INLINE void floats_of(VI32 bytes, VF32 zero, VF32 (&rows)[4]) {
  const F32 d;
  const auto number = [&](VI32 byte) {
    return hn::Sub(hn::ConvertTo(d, hn::ShiftRight<24>(byte)), zero);
  };
  rows[0] = number(hn::ShiftLeft<24>(bytes));
  rows[1] = number(hn::ShiftLeft<8>(bytes));
  rows[2] = number(hn::ShiftLeft<16>(bytes));
  rows[3] = number(bytes);
}

#undef VERNIER_CPU_HAS_PAIRS  // of another target
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
#define VERNIER_CPU_HAS_PAIRS 1  // of bf16
// The upper halves of two vectors: integers up to 256 are bf16 numbers.
HWY_INLINE VU32 pair_of(VF32 even, VF32 odd) {
  const U32 du;
  return hn::Or(hn::ShiftRight<16>(hn::BitCast(du, even)),
                hn::And(hn::BitCast(du, odd), hn::Set(du, 0xffff0000u)));
}

struct Pairs {
  VU32 first, second;  // rows k and k+1, k+2 and k+3
};

HWY_INLINE Pairs pairs_of(VI32 bytes, VF32 zero) {
  VF32 rows[4];
  floats_of(bytes, zero, rows);
  return {pair_of(rows[0], rows[1]), pair_of(rows[2], rows[3])};
}

// Of the upper and lower bytes of four bf16 numbers.
HWY_INLINE Pairs joined(VU32 low, VU32 high) {
  const U32 du;
  const VU32 even = hn::Set(du, 0x00ff00ffu);
  return {hn::Or(hn::And(low, even), hn::AndNot(even, hn::ShiftLeft<8>(high))),
          hn::Or(hn::And(hn::ShiftRight<8>(low), even), hn::AndNot(even, high))};
}

// Bytes of bf16 numbers 0 … 15.
HWY_ALIGN constexpr uint8_t kLowBytes[16] = {0, 0x80, 0,    0x40, 0x80, 0xa0, 0xc0, 0xe0,
                                             0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70};
HWY_ALIGN constexpr uint8_t kHighBytes[16] = {0,    0x3f, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40,
                                              0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41};

// Bytes less `zeros`, each from -15 to 15.
HWY_INLINE Pairs pairs_of_4_bits(VU32 bytes, VU32 zeros) {
  const U32 du;
  const hn::Repartition<int8_t, U32> di8;
  const hn::Repartition<uint8_t, U32> du8;
  const auto numbers = hn::Sub(hn::BitCast(di8, bytes), hn::BitCast(di8, zeros));
  const auto sizes = hn::BitCast(du8, hn::Abs(numbers));
  const auto sign = hn::And(hn::BitCast(du, numbers), hn::Set(du, 0x80808080u));
  const auto low = hn::TableLookupBytes(hn::LoadDup128(du8, kLowBytes), sizes);
  const auto high = hn::TableLookupBytes(hn::LoadDup128(du8, kHighBytes), sizes);
  return joined(hn::BitCast(du, low), hn::Or(hn::BitCast(du, high), sign));
}

// Tables of the bytes of bf16 numbers 0 … 127, in two vectors each.
struct ByteTables {
  uint8_t low[128], high[128];
};
constexpr ByteTables make_byte_tables() {
  ByteTables t{};
  for (unsigned i = 1; i < 128; ++i) {
    unsigned exponent = 0;
    while (i >> (exponent + 1) != 0) ++exponent;
    const unsigned bits = (127 + exponent) << 7 | ((i << (7 - exponent)) & 0x7f);
    t.low[i] = static_cast<uint8_t>(bits & 0xff);
    t.high[i] = static_cast<uint8_t>(bits >> 8);
  }
  return t;
}
HWY_ALIGN constexpr ByteTables kByteTables = make_byte_tables();

// Bytes from -127 to 127.
HWY_INLINE Pairs pairs_of_8_bits(VU32 bytes) {
  // AVX3 as Highway compiles it has no VBMI; the instruction is there (Products::kPairsByTables).
  const U32 du;
  const hn::Repartition<int8_t, U32> di8;
  const hn::Repartition<uint8_t, U32> du8;
  const auto load = [&](const uint8_t* table)
                        HWY_ATTR { return hn::BitCast(du, hn::LoadU(du8, table)); };
  const VU32 low0 = load(kByteTables.low), low1 = load(kByteTables.low + 64),
             high0 = load(kByteTables.high), high1 = load(kByteTables.high + 64);
  VU32 low = hn::BitCast(du, hn::Abs(hn::BitCast(di8, bytes)));
  VU32 high = low;
  asm("vpermi2b %2, %1, %0" : "+v"(low.raw) : "v"(low0.raw), "v"(low1.raw));
  asm("vpermi2b %2, %1, %0" : "+v"(high.raw) : "v"(high0.raw), "v"(high1.raw));
  return joined(low, hn::Or(high, hn::And(bytes, hn::Set(du, 0x80808080u))));
}
#endif

// put(row, column, four rows of bytes, zero points of the block) for rows [first, first + count) of
// the panel, row counted from `first`.
template <class Put>
HWY_INLINE void for_each_bytes(const WeightTiles& t, int64_t first, int64_t count, const Put& put) {
  const I32 di;
  const U32 du;
  const auto width = static_cast<int64_t>(hn::Lanes(di));
  const auto* from =
      reinterpret_cast<const uint32_t*>(t.panel) + first / kUnit * kPanelCols * (t.bits / 4);
  for (int64_t k = 0; k < count; k += kUnit) {
    const int32_t* zeros =
        t.zeros == nullptr ? nullptr : t.zeros + (first + k) / t.block * t.zero_step;
    for (int64_t c = 0; c < kPanelCols; c += width) {
      const VI32 zero = zeros == nullptr ? hn::Set(di, t.zero) : hn::LoadU(di, zeros + c);
      VU32 low = hn::LoadU(du, from + c), high;
      if (t.bits == 4) {
        const VU32 half = hn::Set(du, 0x0f0f0f0fu);
        high = hn::And(hn::ShiftRight<4>(low), half);
        low = hn::And(low, half);
      } else {
        high = hn::LoadU(du, from + kPanelCols + c);
      }
      put(k, c, low, zero);
      put(k + 4, c, high, zero);
    }
    from += kPanelCols * (t.bits / 4);
  }
}

// Rows as f32 [count][64].
inline void unpack_floats(const WeightTiles& t, int64_t first, int64_t count) {
  const F32 d;
  auto* to = reinterpret_cast<float*>(t.unpacked);
  for_each_bytes(t, first, count, [&](int64_t k, int64_t c, VU32 bytes, VI32 zero) HWY_ATTR {
    VF32 rows[4];
    floats_of(hn::BitCast(I32(), bytes), hn::ConvertTo(d, zero), rows);
    for (int64_t i = 0; i < 4; ++i) hn::StoreU(rows[i], d, to + (k + i) * kPanelCols + c);
  });
}

#ifdef VERNIER_CPU_HAS_PAIRS
// Rows as pairs of bf16 [count / 2][64][2].
inline void unpack_pairs(const WeightTiles& t, int64_t first, int64_t count) {
  const U32 du;
  auto* to = reinterpret_cast<uint32_t*>(t.unpacked);
  const auto store = [&](int64_t k, int64_t c, const Pairs& pairs) HWY_ATTR {
    hn::StoreU(pairs.first, du, to + k / 2 * kPanelCols + c);
    hn::StoreU(pairs.second, du, to + (k / 2 + 1) * kPanelCols + c);
  };
  if (t.bits == 4) {
    for_each_bytes(t, first, count, [&](int64_t k, int64_t c, VU32 bytes, VI32 zero) HWY_ATTR {
      // The zero point in each byte.
      const VU32 all = hn::Mul(hn::BitCast(du, zero), hn::Set(du, 0x01010101u));
      store(k, c, pairs_of_4_bits(bytes, all));
    });
  } else if (t.products == Products::kPairsByTables && t.zeros == nullptr && t.zero == 0) {
    for_each_bytes(t, first, count, [&](int64_t k, int64_t c, VU32 bytes, VI32 /*zero*/) HWY_ATTR {
      store(k, c, pairs_of_8_bits(bytes));
    });
  } else {
    for_each_bytes(t, first, count, [&](int64_t k, int64_t c, VU32 bytes, VI32 zero) HWY_ATTR {
      store(k, c, pairs_of(hn::BitCast(I32(), bytes), hn::ConvertTo(F32(), zero)));
    });
  }
}
#endif

inline void unpack(const WeightTiles& t, int64_t first, int64_t count) {
#ifdef VERNIER_CPU_HAS_PAIRS
  if (t.products != Products::kFloat) return unpack_pairs(t, first, count);
#endif
  unpack_floats(t, first, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
