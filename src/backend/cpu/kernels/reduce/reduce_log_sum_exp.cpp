// cpu.reduce_log_sum_exp.groups: ln Σ exp over any axes. Contract: ReduceAttrs in core/attrs.h;
// Highway, all targets. A group is read in chunks, which are copied if it has gaps, so its bits do
// not depend on its layout in memory.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/reduce/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/reduce/reduce_log_sum_exp.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/math-inl.h"
#include "backend/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

/// The largest of x[0, n) and `so_far`; NaN if one of them is NaN.
float LargestOrNan(const float* x, int64_t n, float so_far) {
  const F32 d;
  VF32 maxima = hn::Set(d, so_far);
  auto nans = hn::IsNaN(maxima);
  for_each_vector(d, n, [&](int64_t c, int64_t lanes) {
    const VF32 v = load_lanes(d, x + c, lanes, so_far);
    maxima = hn::Max(maxima, v);
    nans = hn::Or(nans, hn::IsNaN(v));
  });
  if (!hn::AllFalse(d, nans)) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(d, maxima));
}

/// Σ exp(x[c] - max) over n columns in f32.
float SumExp(const float* x, int64_t n, float max) {
  const F32 d;
  const VF32 base = hn::Set(d, max);
  return sum_columns(d, n, [&](int64_t c, int64_t lanes) {
    return keep_lanes(d, exp_normal_f32(d, hn::Sub(load_lanes(d, x + c, lanes), base)), lanes);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(LargestOrNan);
HWY_EXPORT(SumExp);
namespace {

Support supports_log_sum_exp(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  return type == DType::kF32 ? all_f32(problem) : no("no loop for " + std::string(name(type)));
}

/// Elements per chunk. A constant, because an output's bits depend on it.
constexpr int64_t kChunk = 1024;

/// Calls visit(elements, count) for each chunk of a group.
template <class Visit>
void for_each_chunk(const float* x, const Axes& reduced, const Visit& visit) {
  const int64_t size = reduced.elems();
  const Axis inner = reduced.last();
  const bool contiguous = reduced.count <= 1 && inner.stride == 1;
  std::array<float, kChunk> copy;
  for (int64_t first = 0; first < size; first += kChunk) {
    const int64_t count = std::min(kChunk, size - first);
    if (contiguous) {
      visit(x + first, count);
      continue;
    }
    for (int64_t i = 0; i < count;) {
      const int64_t place = (first + i) % inner.size;
      const int64_t run = std::min(inner.size - place, count - i);
      const float* src = x + reduced.offset(first + i);
      for (int64_t k = 0; k < run; ++k) copy[i + k] = src[k * inner.stride];
      i += run;
    }
    visit(copy.data(), count);
  }
}

/// y = max + ln Σ exp(x − max) over each group; a group with NaN gives NaN, else one with +inf
/// gives +inf, one that is all -inf (or empty) gives -inf.
/// x        f32, any shape and strides. y: f32.
/// Computes and accumulates in f32, chunks of 1024 are added in f64.
/// Error    <= 2^-24·(|y| + 32): the sum has the error of 16 consecutive additions and exp of 2
///          ulp, and ln turns a relative error into an absolute one.
/// Cost     reads x twice. No workspace.
void launch_log_sum_exp(const LaunchCall& call) {
  const Groups groups = split_axes(call);
  const auto largest_or_nan = HWY_DYNAMIC_DISPATCH(LargestOrNan);
  const auto sum_exp = HWY_DYNAMIC_DISPATCH(SumExp);
  const int64_t grain = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, groups.reduced.elems()));
  call.execution.threads->parallel_for(
      call.out[0].elems(), grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const float* x = call.in[0].as<const float>() + groups.kept.offset(i);
          float max = -std::numeric_limits<float>::infinity();
          for_each_chunk(x, groups.reduced,
                         [&](const float* part, int64_t n) { max = largest_or_nan(part, n, max); });
          double sum = 0;
          for_each_chunk(x, groups.reduced, [&](const float* part, int64_t n) {
            if (std::isfinite(max)) sum += static_cast<double>(sum_exp(part, n, max));
          });
          const double y = static_cast<double>(max) + std::log(sum);
          call.out[0].as<float>()[i] = std::isfinite(max) ? static_cast<float>(y) : max;
        }
      });
}

}  // namespace

extern const KernelBody reduce_log_sum_exp;
constexpr KernelBody reduce_log_sum_exp{
    .supports = &supports_log_sum_exp,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .create = &decode_once<ReduceAttrs>,
    .launch = &launch_log_sum_exp,
};

}  // namespace vernier::backend::cpu
#endif
