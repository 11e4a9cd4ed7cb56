// cpu.softmax.rows: softmax along the last axis. Contract: AxisAttrs in core/attrs.h; Highway, all
// targets. Columns along another axis are copied to the workspace and run through the same code.
// f32, f16 and bf16 along the last axis (a row is widened in place of its result, or into a buffer
// of its thread); f32 along other axes.
#include <cmath>
#include <limits>

#include "backend/cpu/simd/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/norm/softmax.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/math-inl.h"
#include "backend/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

/// y[c] = exp(x[c] - max) / Σ exp(x[c] - max) over n columns, f32, y may be x.
/// A row that holds NaN or +inf, or is all -inf, is all NaN, as the definition gives.
/// Error <= 6 ulp + 2^-24·log2(n) relative per element. Reads x twice, y once more.
void SoftmaxRow(const float* x, float* y, int64_t n) {
  const F32 d;
  const float lowest = -std::numeric_limits<float>::infinity();
  VF32 maxima = hn::Set(d, lowest);
  for_each_vector(d, n, [&](int64_t c, int64_t lanes) {
    maxima = hn::Max(maxima, load_lanes(d, x + c, lanes, lowest));
  });
  // Max may drop a NaN; the exponentials below keep it.
  const VF32 max = hn::MaxOfLanes(d, maxima);
  const float sum = sum_columns(d, n, [&](int64_t c, int64_t lanes) {
    const VF32 e = exp_normal_f32(d, hn::Sub(load_lanes(d, x + c, lanes, 0.0f), max));
    store_lanes(d, e, y + c, lanes);
    return keep_lanes(d, e, lanes);
  });
  const VF32 sums = hn::Set(d, sum);
  for_each_vector(d, n, [&](int64_t c, int64_t lanes) {
    store_lanes(d, hn::Div(load_lanes(d, y + c, lanes), sums), y + c, lanes);
  });
}

/// y[c] = x[c] - max - ln Σ exp(x[c] - max).
void LogSoftmaxRow(const float* x, float* y, int64_t n) {
  const F32 d;
  const float lowest = -std::numeric_limits<float>::infinity();
  VF32 maxima = hn::Set(d, lowest);
  for_each_vector(d, n, [&](int64_t c, int64_t lanes) {
    maxima = hn::Max(maxima, load_lanes(d, x + c, lanes, lowest));
  });
  const VF32 max = hn::MaxOfLanes(d, maxima);
  const float sum = sum_columns(d, n, [&](int64_t c, int64_t lanes) {
    return keep_lanes(d, exp_normal_f32(d, hn::Sub(load_lanes(d, x + c, lanes), max)), lanes);
  });
  const VF32 log_sum = hn::Set(d, std::log(sum));
  for_each_vector(d, n, [&](int64_t c, int64_t lanes) {
    const VF32 v = hn::Sub(load_lanes(d, x + c, lanes), max);
    store_lanes(d, hn::Sub(v, log_sum), y + c, lanes);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(LogSoftmaxRow);
namespace {

using RowFunction = void (*)(const float* x, float* y, int64_t n);

Support supports_softmax(const Problem& problem) {
  const auto rank = static_cast<int64_t>(rank_of(problem.inputs[0]));
  if (rank == 0) return no("input is a scalar");
  const bool last = positive_axis(problem.attrs_as<AxisAttrs>().axis, rank) == rank - 1;
  return last ? all_up_to_f32(problem) : all_f32(problem);
}

bool is_last(const LaunchCall& call) {
  const auto axis = decode<AxisAttrs>(call.attrs).axis;
  return positive_axis(axis, call.in[0].rank) == call.in[0].rank - 1;
}

// One thread's row in the workspace.
float* row_buffer(const LaunchCall& call, int part, int64_t n) {
  const size_t bytes = round_to_line(static_cast<size_t>(n) * sizeof(float));
  return reinterpret_cast<float*>(call.workspace + static_cast<size_t>(part) * bytes);
}

void run_last_axis(const LaunchCall& call, RowFunction run) {
  const TensorArg &x = call.in[0], &out = call.out[0];
  const int64_t cols = x.dim(-1);
  const Rows rows(x);
  const int64_t grain = std::max<int64_t>(1, 1024 / std::max<int64_t>(cols, 1));
  call.execution.threads->parallel_for(
      rows.count(), grain, [&](int64_t begin, int64_t end, int part) {
        for (int64_t r = begin; r < end; ++r) {
          float* y = place_f32(out, r * cols, row_buffer(call, part, cols));
          run(read_f32(x, rows.offset(r), cols, y), y, cols);
          write_f32(out, r * cols, cols, y);
        }
      });
}

// Columns of a dense [outer, n, inner] array, each copied to the workspace of its part.
void run_other_axis(const LaunchCall& call, RowFunction run) {
  const TensorArg& x = call.in[0];
  const auto axis = static_cast<int>(positive_axis(decode<AxisAttrs>(call.attrs).axis, x.rank));
  const int64_t n = x.dim(axis), inner = elems_between(x, axis + 1, x.rank);
  const int64_t columns = elems_between(x, 0, axis) * inner;
  const int64_t grain = std::max<int64_t>(1, 1024 / std::max<int64_t>(n, 1));
  call.execution.threads->parallel_for(columns, grain, [&](int64_t begin, int64_t end, int part) {
    float* column = row_buffer(call, part, n);
    for (int64_t k = begin; k < end; ++k) {
      const int64_t first = k / inner * n * inner + k % inner;
      for (int64_t i = 0; i < n; ++i) column[i] = x.as<const float>()[first + i * inner];
      run(column, column, n);
      for (int64_t i = 0; i < n; ++i) call.out[0].as<float>()[first + i * inner] = column[i];
    }
  });
}

std::unique_ptr<ShapeState> prepare_softmax(const PrepareCall& call) {
  const auto axis = positive_axis(decode<AxisAttrs>(call.attrs).axis, call.in[0].rank);
  const bool in_place = call.out[0].dtype == DType::kF32;
  if (axis == call.in[0].rank - 1 && in_place) return workspace_only(0);
  const auto n = static_cast<size_t>(call.in[0].dim(static_cast<int>(axis)));
  return workspace_only(round_to_line(n * sizeof(float)) *
                        static_cast<size_t>(call.execution.threads->size()));
}

void launch(const LaunchCall& call, RowFunction run) {
  if (call.in[0].elems() == 0) return;
  if (is_last(call))
    run_last_axis(call, run);
  else
    run_other_axis(call, run);
}

}  // namespace

extern const KernelBody softmax_rows, log_softmax_rows;
constexpr KernelBody softmax_rows{
    .supports = &supports_softmax,
    .numerics = &f32_numerics,
    .prepare = &prepare_softmax,
    .launch = [](const LaunchCall& call) { launch(call, HWY_DYNAMIC_DISPATCH(SoftmaxRow)); },
};
constexpr KernelBody log_softmax_rows{
    .supports = &supports_softmax,
    .numerics = &f32_numerics,
    .prepare = &prepare_softmax,
    .launch = [](const LaunchCall& call) { launch(call, HWY_DYNAMIC_DISPATCH(LogSoftmaxRow)); },
};

}  // namespace vernier::backend::cpu
#endif
