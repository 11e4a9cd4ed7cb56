// Loads, stores and sums over rows of f32 for the Highway kernels. Every row is read in vectors of
// the same width from its first element; the last, partial vector is padded, never scalar code, so
// an element's bits depend on its column only. Included once per Highway target.
#if defined(VERNIER_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_VECTOR_INL_H_
#undef VERNIER_CPU_VECTOR_INL_H_
#else
#define VERNIER_CPU_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of at most 16 f32 lanes (512 bits).
using F32 = hn::CappedTag<float, 16>;
using VF32 = hn::Vec<F32>;

/// The first n lanes from src, the rest `padding`. 0 < n <= Lanes. Never reads past src + n.
HWY_INLINE VF32 load_part(F32 d, const float* src, int64_t n, float padding) {
#if HWY_TARGET <= HWY_AVX2
  const auto mask = hn::FirstN(d, static_cast<size_t>(n));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, src), hn::Set(d, padding));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  for (int64_t i = 0; i < static_cast<int64_t>(hn::Lanes(d)); ++i) {
    lanes[i] = i < n ? src[i] : padding;
  }
  return hn::Load(d, lanes);
#endif
}
/// Stores the first n lanes. Never writes past dst + n.
HWY_INLINE void store_part(F32 d, VF32 v, float* dst, int64_t n) {
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, dst);
#else
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  std::memcpy(dst, lanes, static_cast<size_t>(n) * sizeof(float));
#endif
}

/// body(column, lanes used) for each vector of a row of n elements; lanes < Lanes(d) at the end.
template <class Body>
HWY_INLINE void for_each_vector(F32 d, int64_t n, const Body& body) {
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + width <= n; c += width) body(c, width);
  if (c < n) body(c, n - c);
}
HWY_INLINE VF32 load_lanes(F32 d, const float* src, int64_t lanes, float padding = 0.0f) {
  return lanes == static_cast<int64_t>(hn::Lanes(d)) ? hn::LoadU(d, src)
                                                     : load_part(d, src, lanes, padding);
}
HWY_INLINE void store_lanes(F32 d, VF32 v, float* dst, int64_t lanes) {
  if (lanes == static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(v, d, dst);
  else
    store_part(d, v, dst, lanes);
}

/// Σ f(column vector) over n columns: four running vectors in turn, then pairwise. Each padding
/// lane must contribute 0 (f sees the lanes in use). The order depends on n only.
template <class F>
HWY_INLINE float sum_columns(F32 d, int64_t n, const F& f) {
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  VF32 s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t c = 0;
  for (; c + 4 * width <= n; c += 4 * width) {
    s0 = hn::Add(s0, f(c, width));
    s1 = hn::Add(s1, f(c + width, width));
    s2 = hn::Add(s2, f(c + 2 * width, width));
    s3 = hn::Add(s3, f(c + 3 * width, width));
  }
  for (; c + width <= n; c += width) s0 = hn::Add(s0, f(c, width));
  if (c < n) s1 = hn::Add(s1, f(c, n - c));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

/// Zero in the lanes from `lanes` on.
HWY_INLINE VF32 keep_lanes(F32 d, VF32 v, int64_t lanes) {
  if (lanes == static_cast<int64_t>(hn::Lanes(d))) return v;
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(lanes)), v);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
