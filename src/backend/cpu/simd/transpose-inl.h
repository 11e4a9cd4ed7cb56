// Transposing small f32 blocks with 128-bit vectors, the same on every target. Included per target.
#if defined(VERNIER_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_TRANSPOSE_INL_H_
#undef VERNIER_CPU_TRANSPOSE_INL_H_
#else
#define VERNIER_CPU_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// dst[c·dst_step + r] = src[r·src_step + c] for r < rows, c < cols. T has 4 bytes.
template <class T>
HWY_INLINE void transpose_block(const T* src, int64_t src_step, T* dst, int64_t dst_step,
                                int64_t rows, int64_t cols) {
  int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<T, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  const auto pairs = [&](auto low, auto high) {
    return hn::InterleaveLower(d64, hn::BitCast(d64, low), hn::BitCast(d64, high));
  };
  const auto upper_pairs = [&](auto low, auto high) {
    return hn::InterleaveUpper(d64, hn::BitCast(d64, low), hn::BitCast(d64, high));
  };
  for (; r + 4 <= rows; r += 4) {
    const T* s = src + r * src_step;
    T* t = dst + r;
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      const auto r0 = hn::LoadU(d, s + c), r1 = hn::LoadU(d, s + src_step + c);
      const auto r2 = hn::LoadU(d, s + 2 * src_step + c), r3 = hn::LoadU(d, s + 3 * src_step + c);
      const auto low01 = hn::InterleaveLower(d, r0, r1), low23 = hn::InterleaveLower(d, r2, r3);
      const auto up01 = hn::InterleaveUpper(d, r0, r1), up23 = hn::InterleaveUpper(d, r2, r3);
      hn::StoreU(hn::BitCast(d, pairs(low01, low23)), d, t + c * dst_step);
      hn::StoreU(hn::BitCast(d, upper_pairs(low01, low23)), d, t + (c + 1) * dst_step);
      hn::StoreU(hn::BitCast(d, pairs(up01, up23)), d, t + (c + 2) * dst_step);
      hn::StoreU(hn::BitCast(d, upper_pairs(up01, up23)), d, t + (c + 3) * dst_step);
    }
    for (; c < cols; ++c) {
      for (int64_t i = 0; i < 4; ++i) t[c * dst_step + i] = s[i * src_step + c];
    }
  }
#endif
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) dst[c * dst_step + r] = src[r * src_step + c];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
