// f32 vectors from and to rows stored in f32, bf16 or f16: widening is exact, narrowing is one
// rounding to nearest even; NaN stays NaN, overflow gives infinity, subnormals are kept. The bits
// are those of core/dtype.h on every instruction set. Included once per Highway target.
#if defined(VERNIER_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_CONVERT_INL_H_
#undef VERNIER_CPU_CONVERT_INL_H_
#else
#define VERNIER_CPU_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/simd/vector-inl.h"
#include "core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// As many 16-bit lanes as F32 has: bits of bf16 or f16.
using U16 = hn::Rebind<uint16_t, F32>;
using VU16 = hn::Vec<U16>;
using U32 = hn::Rebind<uint32_t, F32>;
using VU32 = hn::Vec<U32>;

HWY_INLINE VF32 widen_bf16(F32 d, VU16 v) {
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(U32(), v)));
}

/// v rounded to bf16, in the upper half of each lane; the lower half is anything.
HWY_INLINE VU32 bf16_in_upper_half(VF32 v) {
  const U32 du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
  // A NaN whose payload is in the lower half must not become infinity: it is made quiet.
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
  return hn::IfThenElse(hn::RebindMask(du, hn::Eq(v, v)), rounded, quiet);
}
/// The same with a lower half of zero: the bits of an f32.
HWY_INLINE VU32 round_to_bf16(VF32 v) {
  return hn::And(bf16_in_upper_half(v), hn::Set(U32(), 0xffff0000u));
}
HWY_INLINE VU16 narrow_bf16(VF32 v) {
  return hn::TruncateTo(U16(), hn::ShiftRight<16>(bf16_in_upper_half(v)));
}

// F16C is part of the x86 targets from AVX2 on, f16 conversions are part of A64; other targets
// convert lane by lane.
#if HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM_A64
HWY_INLINE VF32 widen_f16(F32 d, VU16 v) {
  const hn::Rebind<hwy::float16_t, F32> half;
  return hn::PromoteTo(d, hn::BitCast(half, v));
}
HWY_INLINE VU16 narrow_f16(VF32 v) {
  const hn::Rebind<hwy::float16_t, F32> half;
  return hn::BitCast(U16(), hn::DemoteTo(half, v));
}
#else
HWY_INLINE VF32 widen_f16(F32 d, VU16 v) {
  HWY_ALIGN uint16_t halves[hn::MaxLanes(d)];
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, U16(), halves);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f16_to_f32(halves[i]);
  return hn::Load(d, lanes);
}
HWY_INLINE VU16 narrow_f16(VF32 v) {
  const F32 d;
  HWY_ALIGN uint16_t halves[hn::MaxLanes(d)];
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) halves[i] = f32_to_f16(lanes[i]);
  return hn::Load(U16(), halves);
}
#endif

/// The first n lanes from src, the rest 0. Never reads past src + n.
HWY_INLINE VU16 load_halves(const uint16_t* src, int64_t n) {
  const U16 d;
  if (n == static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, src);
  HWY_ALIGN uint16_t lanes[hn::MaxLanes(d)] = {};
  std::memcpy(lanes, src, static_cast<size_t>(n) * sizeof(uint16_t));
  return hn::Load(d, lanes);
}
/// Stores the first n lanes. Never writes past dst + n.
HWY_INLINE void store_halves(VU16 v, uint16_t* dst, int64_t n) {
  const U16 d;
  if (n == static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, dst);
  HWY_ALIGN uint16_t lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  std::memcpy(dst, lanes, static_cast<size_t>(n) * sizeof(uint16_t));
}

/// Elements [at, at + lanes) of a row stored as `type` (f32, bf16 or f16), the other lanes 0.
HWY_INLINE VF32 load_floats(F32 d, DType type, const std::byte* row, int64_t at, int64_t lanes) {
  if (type == DType::kF32) return load_lanes(d, reinterpret_cast<const float*>(row) + at, lanes);
  const VU16 v = load_halves(reinterpret_cast<const uint16_t*>(row) + at, lanes);
  return type == DType::kBF16 ? widen_bf16(d, v) : widen_f16(d, v);
}
/// v rounded to `type` to elements [at, at + lanes) of a row.
HWY_INLINE void store_floats(F32 d, DType type, VF32 v, std::byte* row, int64_t at, int64_t lanes) {
  if (type == DType::kF32) return store_lanes(d, v, reinterpret_cast<float*>(row) + at, lanes);
  const VU16 narrow = type == DType::kBF16 ? narrow_bf16(v) : narrow_f16(v);
  store_halves(narrow, reinterpret_cast<uint16_t*>(row) + at, lanes);
}

/// v rounded to kType: f32, bf16 or f16.
template <DType kType>
HWY_INLINE VF32 as_stored(F32 d, VF32 v) {
  static_assert(kType == DType::kF32 || kType == DType::kBF16 || kType == DType::kF16);
  if constexpr (kType == DType::kF32) return v;
  if constexpr (kType == DType::kBF16) return hn::BitCast(d, round_to_bf16(v));
  return widen_f16(d, narrow_f16(v));
}

// The two 16-bit types as template arguments.
struct F16 {
  static HWY_INLINE VF32 widen(F32 d, VU16 bits) { return widen_f16(d, bits); }
  static HWY_INLINE VU16 narrow(F32 /*d*/, VF32 v) { return narrow_f16(v); }
};
struct BF16 {
  static HWY_INLINE VF32 widen(F32 d, VU16 bits) { return widen_bf16(d, bits); }
  static HWY_INLINE VU16 narrow(F32 /*d*/, VF32 v) { return narrow_bf16(v); }
};

template <class Format>
HWY_INLINE void widen_run(const uint16_t* src, float* dst, int64_t n) {
  const F32 d;
  for_each_vector(d, n, [&](int64_t i, int64_t lanes) {
    store_lanes(d, Format::widen(d, load_halves(src + i, lanes)), dst + i, lanes);
  });
}
template <class Format>
HWY_INLINE void narrow_run(const float* src, uint16_t* dst, int64_t n) {
  const F32 d;
  for_each_vector(d, n, [&](int64_t i, int64_t lanes) {
    store_halves(Format::narrow(d, load_lanes(d, src + i, lanes)), dst + i, lanes);
  });
}

/// dst[i] = src[i] for n elements that are stored as `type`: f32, f16 or bf16.
HWY_INLINE void widen_elems(DType type, const std::byte* src, float* dst, int64_t n) {
  if (type == DType::kF32) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
  } else if (type == DType::kF16) {
    widen_run<F16>(reinterpret_cast<const uint16_t*>(src), dst, n);
  } else {
    widen_run<BF16>(reinterpret_cast<const uint16_t*>(src), dst, n);
  }
}
/// The inverse: each element is rounded once, to nearest even.
HWY_INLINE void narrow_elems(DType type, const float* src, std::byte* dst, int64_t n) {
  if (type == DType::kF32) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
  } else if (type == DType::kF16) {
    narrow_run<F16>(src, reinterpret_cast<uint16_t*>(dst), n);
  } else {
    narrow_run<BF16>(src, reinterpret_cast<uint16_t*>(dst), n);
  }
}
}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
