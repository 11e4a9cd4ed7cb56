// cpu.layer_norm.rows, cpu.rms_norm.rows, cpu.add_layer_norm.rows: one row at a time, two passes
// over a row that stays in cache. Contract: NormAttrs in core/attrs.h; Highway, all targets.
#include "backend/cpu/kernels/norm.h"

#include <cmath>

#include "backend/cpu/body.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/norm.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

/// y = (x - mean) / sqrt(var + epsilon) · scale + bias,  x := x + addend if there is one
/// All f32, cols > 0. Variance from x - mean (two passes); the mean's own rounding error is
/// measured in the second pass and taken out, so a large mean costs no accuracy.
/// Error  <= 4·eps·(max|x|/σ + log2 cols) relative to max|y - bias| (tests/backend/cpu).
void LayerNormRow(const NormRow& row) {
  const F32 d;
  const int64_t n = row.cols;
  const float* x = row.x;
  if (row.addend != nullptr) {
    for_each_vector(d, n, [&](int64_t c, int64_t lanes) {
      const VF32 v = hn::Add(load_lanes(d, row.x + c, lanes), load_lanes(d, row.addend + c, lanes));
      store_lanes(d, v, row.sum + c, lanes);
    });
    x = row.sum;
  }
  const auto count = static_cast<float>(n);
  const float mean =
      sum_columns(d, n, [&](int64_t c, int64_t lanes) { return load_lanes(d, x + c, lanes); }) /
      count;
  const VF32 means = hn::Set(d, mean);
  const auto deviation = [&](int64_t c, int64_t lanes) {
    return keep_lanes(d, hn::Sub(load_lanes(d, x + c, lanes), means), lanes);
  };
  const float correction = sum_columns(d, n, deviation) / count;
  const float squares = sum_columns(d, n, [&](int64_t c, int64_t lanes) {
    const VF32 v = deviation(c, lanes);
    return hn::Mul(v, v);
  });
  const float variance = std::fmax(squares / count - correction * correction, 0.0f) +
                         (squares - squares);  // NaN and inf stay NaN
  const float inv_std = 1.0f / std::sqrt(variance + row.epsilon);
  // A mean of +-inf has no correction (inf - inf).
  if (row.mean != nullptr) *row.mean = std::isfinite(mean) ? mean + correction : mean;
  if (row.inv_std != nullptr) *row.inv_std = inv_std;
  const VF32 corrections = hn::Set(d, correction), inv = hn::Set(d, inv_std);
  for_each_vector(d, n, [&](int64_t c, int64_t lanes) {
    VF32 v = hn::Sub(hn::Sub(load_lanes(d, x + c, lanes), means), corrections);
    v = hn::Mul(v, inv);
    if (row.scale != nullptr) v = hn::Mul(v, load_lanes(d, row.scale + c, lanes));
    if (row.bias != nullptr) v = hn::Add(v, load_lanes(d, row.bias + c, lanes));
    store_lanes(d, v, row.y + c, lanes);
  });
}

/// y = x / sqrt(mean(x²) + epsilon) · scale. Same types and limits as LayerNormRow.
void RmsNormRow(const NormRow& row) {
  const F32 d;
  const float squares = sum_columns(d, row.cols, [&](int64_t c, int64_t lanes) {
    const VF32 v = load_lanes(d, row.x + c, lanes);
    return hn::Mul(v, v);
  });
  const float inv_rms = 1.0f / std::sqrt(squares / static_cast<float>(row.cols) + row.epsilon);
  const VF32 inv = hn::Set(d, inv_rms);
  for_each_vector(d, row.cols, [&](int64_t c, int64_t lanes) {
    const VF32 v = hn::Mul(load_lanes(d, row.x + c, lanes), inv);
    store_lanes(d, hn::Mul(v, load_lanes(d, row.scale + c, lanes)), row.y + c, lanes);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(RmsNormRow);

void layer_norm_row(const NormRow& row) { HWY_DYNAMIC_DISPATCH(LayerNormRow)(row); }

namespace {

// Rows of one thread: about 8 KiB of work, so that small tensors stay on one thread.
int64_t grain_rows(int64_t cols) { return std::max<int64_t>(1, 2048 / std::max<int64_t>(cols, 1)); }

bool constant_size_equal(const Operand& operand, const SymShape& shape, size_t first_axis) {
  Dim size(1);
  for (size_t i = first_axis; i < shape.size(); ++i) size = size * shape[i];
  return product(operand.shape) == size;
}

/// `first_parameter`: input index of scale; bias follows it.
Support supports_norm(const Problem& problem, size_t first_parameter) {
  Support floats = all_f32(problem);
  if (!floats) return floats;
  const SymShape& shape = problem.inputs[0].shape;
  if (shape.empty()) return no("input is a scalar");
  const auto rank = static_cast<int64_t>(shape.size());
  const auto axis = static_cast<size_t>(positive_axis(problem.attrs_as<NormAttrs>().axis, rank));
  for (size_t i = first_parameter; i < problem.inputs.size(); ++i) {
    if (problem.inputs[i].present && !constant_size_equal(problem.inputs[i], shape, axis))
      return no("scale and bias must have one value per normalised element");
  }
  for (size_t i = 1; i < first_parameter; ++i) {
    if (str(problem.inputs[i].shape) != str(shape)) return no("the two addends differ in shape");
  }
  return yes();
}

const float* input(const LaunchCall& call, size_t i) {
  return i < call.in.size() ? call.in[i].as<const float>() : nullptr;
}
float* output(const LaunchCall& call, size_t i) {
  return i < call.out.size() ? call.out[i].as<float>() : nullptr;
}

template <class RowFunction>
void for_rows(const LaunchCall& call, RowFunction run_row) {
  const auto attrs = decode<NormAttrs>(call.attrs);
  const TensorArg& x = call.in[0];
  const auto axis = static_cast<int>(positive_axis(attrs.axis, x.rank));
  const int64_t cols = elems_between(x, axis, x.rank);
  const Rows rows(x, x.rank - axis);
  if (cols == 0) return;
  call.execution.threads->parallel_for(
      rows.count(), grain_rows(cols), [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          NormRow row{.x = x.as<const float>() + rows.offset(r),
                      .y = call.out[0].as<float>() + r * cols,
                      .cols = cols,
                      .epsilon = static_cast<float>(attrs.epsilon)};
          run_row(row, r);
        }
      });
}

void launch_layer_norm(const LaunchCall& call) {
  const auto run = HWY_DYNAMIC_DISPATCH(LayerNormRow);
  float* mean = output(call, 1);
  float* inv_std = output(call, 2);
  for_rows(call, [&](NormRow& row, int64_t r) {
    row.scale = input(call, 1);
    row.bias = input(call, 2);
    row.mean = mean == nullptr ? nullptr : mean + r;
    row.inv_std = inv_std == nullptr ? nullptr : inv_std + r;
    run(row);
  });
}

void launch_rms_norm(const LaunchCall& call) {
  const auto run = HWY_DYNAMIC_DISPATCH(RmsNormRow);
  for_rows(call, [&](NormRow& row, int64_t) {
    row.scale = input(call, 1);
    run(row);
  });
}

void launch_add_layer_norm(const LaunchCall& call) {
  const auto run = HWY_DYNAMIC_DISPATCH(LayerNormRow);
  const auto axis =
      static_cast<int>(positive_axis(decode<NormAttrs>(call.attrs).axis, call.in[0].rank));
  const Rows addend_rows(call.in[1], call.in[1].rank - axis);
  float* sum = output(call, 1);
  for_rows(call, [&](NormRow& row, int64_t r) {
    row.addend = input(call, 1) + addend_rows.offset(r);
    row.scale = input(call, 2);
    row.bias = input(call, 3);
    row.sum = sum == nullptr ? row.y : sum + r * row.cols;
    run(row);
  });
}

Numerics norm_numerics(const Problem& problem) { return f32_numerics(problem); }

}  // namespace

extern const KernelBody layer_norm_rows, rms_norm_rows, add_layer_norm_rows;
constexpr KernelBody layer_norm_rows{
    .supports = [](const Problem& problem) { return supports_norm(problem, 1); },
    .numerics = &norm_numerics,
    .strided_inputs = 1,
    .launch = &launch_layer_norm,
};
constexpr KernelBody rms_norm_rows{
    .supports = [](const Problem& problem) { return supports_norm(problem, 1); },
    .numerics = &norm_numerics,
    .strided_inputs = 1,
    .launch = &launch_rms_norm,
};
constexpr KernelBody add_layer_norm_rows{
    .supports = [](const Problem& problem) { return supports_norm(problem, 2); },
    .numerics = &norm_numerics,
    .strided_inputs = 3,
    .launch = &launch_add_layer_norm,
};

}  // namespace vernier::backend::cpu
#endif
