// Vectors of f32 to bytes of q8. Included once per Highway target.
#if defined(VERNIER_CPU_QUANTIZE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_QUANTIZE_ROWS_INL_H_
#undef VERNIER_CPU_QUANTIZE_ROWS_INL_H_
#else
#define VERNIER_CPU_QUANTIZE_ROWS_INL_H_
#endif

#include "backend/cpu/kernels/elementwise/quantize_rows.h"
#include "backend/cpu/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

using I8 = hn::Rebind<int8_t, F32>;
using VI8 = hn::Vec<I8>;

/// The nearest of -127 … 127, halves to even.
HWY_INLINE VI8 nearest_q8(F32 d, VF32 v) {
  constexpr float kLargest = 127;
  v = hn::Min(hn::Max(v, hn::Set(d, -kLargest)), hn::Set(d, kLargest));
  // The sum has the nearest integer in its lowest bits.
  const auto bits = hn::BitCast(U32(), hn::Add(v, hn::Set(d, 0x1.8p23f)));
  return hn::BitCast(I8(), hn::TruncateTo(hn::Rebind<uint8_t, F32>(), bits));
}
/// v·inverse + zero, rounded. NaN becomes 0: no scale can carry it.
HWY_INLINE VI8 q8_by(F32 d, VF32 v, VF32 inverse, VF32 zero) {
  v = hn::MulAdd(v, inverse, zero);
  return nearest_q8(d, hn::IfThenElse(hn::Eq(v, v), v, hn::Zero(d)));
}
/// Stores the first n lanes. Never writes past dst + n.
template <class Byte>
HWY_INLINE void store_bytes(hn::Vec<hn::Rebind<Byte, F32>> v, Byte* dst, int64_t n) {
  const hn::Rebind<Byte, F32> d;
  if (n == static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, dst);
  HWY_ALIGN Byte last[hn::MaxLanes(d)];
  hn::Store(v, d, last);
  std::memcpy(dst, last, static_cast<size_t>(n));
}

/// The first n columns of a row of x, stored as `type`, to those of `row`.
HWY_INLINE void quantize_given(const GivenRows& row, DType type, const std::byte* x, int64_t n) {
  const F32 d;
  const auto inverse = hn::Set(d, row.by.inverse), zero = hn::Set(d, row.by.zero);
  for_each_vector(d, n, [&](int64_t c, int64_t lanes) {
    VF32 v = load_floats(d, type, x, c, lanes);
    if (row.factors != nullptr) v = hn::Mul(v, load_lanes(d, row.factors + c, lanes));
    store_bytes<int8_t>(q8_by(d, v, inverse, zero), row.q + c, lanes);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
