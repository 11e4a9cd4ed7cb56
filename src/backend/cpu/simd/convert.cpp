// Conversions between f32, f16 and bf16: see convert.h.
#include "backend/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/simd/convert.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {
void Widen(DType type, const std::byte* src, float* dst, int64_t n) {
  widen_elems(type, src, dst, n);
}
void Narrow(DType type, const float* src, std::byte* dst, int64_t n) {
  narrow_elems(type, src, dst, n);
}
}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(Widen);
HWY_EXPORT(Narrow);

bool cpu_has_bf16() {
#if (HWY_TARGETS & HWY_AVX3) && HWY_ARCH_X86
  static const bool has =
      (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16") != 0;
  return has;
#else
  return false;
#endif
}

void widen(DType type, const std::byte* src, float* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Widen)(type, src, dst, n);
}
void narrow(DType type, const float* src, std::byte* dst, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Narrow)(type, src, dst, n);
}

TensorArg dense_f32(const TensorArg& t, float* data) {
  TensorArg dense = t;
  dense.data = reinterpret_cast<std::byte*>(data);
  dense.dtype = DType::kF32;
  int64_t stride = 1;
  for (auto i = static_cast<size_t>(t.rank); i-- > 0;) {
    dense.strides[i] = stride;
    stride *= t.shape[i];
  }
  return dense;
}

namespace {

constexpr int64_t kGrainElems = 1 << 14;  // the least work for another thread

// run(element of t, position in row-major order, count) for each contiguous piece of t.
template <class Run>
void for_each_run(const TensorArg& t, ThreadTeam& threads, const Run& run) {
  if (is_dense(t)) {
    return threads.parallel_for(t.elems(), kGrainElems, [&](int64_t begin, int64_t end, int) {
      run(begin, begin, end - begin);
    });
  }
  const bool contiguous = t.stride(-1) == 1 || t.dim(-1) == 1;
  const int64_t count = contiguous ? t.dim(-1) : 1;
  const Rows rows(t, contiguous ? 1 : 0);
  const int64_t grain = std::max<int64_t>(1, kGrainElems / std::max<int64_t>(count, 1));
  threads.parallel_for(rows.count(), grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) run(rows.offset(r), r * count, count);
  });
}

}  // namespace

void widen_array(const TensorArg& t, float* dst, ThreadTeam& threads) {
  for_each_run(t, threads, [&](int64_t at, int64_t place, int64_t count) {
    widen(t.dtype, element(t, at), dst + place, count);
  });
}
void narrow_array(const float* src, const TensorArg& t, ThreadTeam& threads) {
  for_each_run(t, threads, [&](int64_t at, int64_t place, int64_t count) {
    narrow(t.dtype, src + place, element(t, at), count);
  });
}

Tensor widened_constant(const Tensor& contents, DType stored) {
  if (contents.dtype() == DType::kF32 && stored == DType::kF32) return contents;
  const auto count = static_cast<size_t>(contents.elems());
  std::vector<float> wide(count);
  if (contents.dtype() == stored) {
    widen(stored, contents.data(), wide.data(), contents.elems());
  } else if (contents.dtype() == DType::kF32) {
    std::vector<std::byte> bits(count * size_bytes(stored));
    narrow(stored, reinterpret_cast<const float*>(contents.data()), bits.data(), contents.elems());
    widen(stored, bits.data(), wide.data(), contents.elems());
  } else {
    for (size_t i = 0; i < count; ++i)
      wide[i] = static_cast<float>(round_to(stored, contents.float_at(static_cast<int64_t>(i))));
  }
  return Tensor::from_bytes(DType::kF32, contents.shape(), std::as_bytes(std::span(wide)));
}

}  // namespace vernier::backend::cpu
#endif
