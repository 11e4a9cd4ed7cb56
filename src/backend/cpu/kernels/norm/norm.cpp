// cpu.layer_norm.rows, cpu.rms_norm.rows, cpu.add_layer_norm.rows, cpu.l2_norm.rows: one row at a
// time, two passes over a row that stays in cache. Contract: NormAttrs, L2NormAttrs in
// core/attrs.h; Highway, all targets.
// f32, f16 and bf16 in any combination: a 16-bit row is widened into a buffer of its thread, scale
// and bias once per launch; computes in f32, results are rounded once (convert.h).
#include "backend/cpu/kernels/norm/norm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/cpu/kernels/elementwise/quantize_rows.h"
#include "backend/cpu/simd/convert.h"
#include "backend/supports.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/norm/norm.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

/// y = (x - mean) / sqrt(var + epsilon) · scale + bias,  x := x + addend if there is one
/// All f32, cols > 0. Variance from x - mean (two passes); the mean's rounding error is measured in
/// the second pass and removed, so a large mean costs no accuracy.
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

// Σ x² in f64, as in ReduceL2: no square of an f32 overflows. 16 partial sums, added pairwise at
// the end; scalar code, because not every target has vectors of both types.
double sum_squares(const float* x, int64_t n) {
  constexpr int64_t kParts = 16;
  double parts[kParts] = {};
  const auto add = [&](int64_t c, int64_t part) {
    const double v = x[c + part];
    parts[part] += v * v;
  };
  int64_t c = 0;
  for (; c + kParts <= n; c += kParts) {
    for (int64_t part = 0; part < kParts; ++part) add(c, part);
  }
  for (int64_t part = 0; c + part < n; ++part) add(c, part);
  for (int64_t width = kParts / 2; width > 0; width /= 2) {
    for (int64_t part = 0; part < width; ++part) parts[part] += parts[part + width];
  }
  return parts[0];
}

/// y = x / max(√(sum x²), minimum). f32, cols > 0; y may be x. Norm and quotient are f32.
/// Error  <= 2^-23 of y: the roundings of the norm and of the quotient (tests/backend/cases).
void L2NormRow(const float* x, float* y, int64_t cols, double minimum) {
  const F32 d;
  const double norm = std::max(std::sqrt(sum_squares(x, cols)), minimum);  // NaN stays
  const VF32 norms = hn::Set(d, static_cast<float>(norm));
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    store_lanes(d, hn::Div(load_lanes(d, x + c, lanes), norms), y + c, lanes);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(LayerNormRow);
HWY_EXPORT(RmsNormRow);
HWY_EXPORT(L2NormRow);

void layer_norm_row(const NormRow& row) { HWY_DYNAMIC_DISPATCH(LayerNormRow)(row); }

namespace {

// Minimum rows per thread: about 8 KiB of work, so that small tensors use one thread.
int64_t grain_rows(int64_t cols) { return std::max<int64_t>(1, 2048 / std::max<int64_t>(cols, 1)); }

/// `first_parameter`: input index of scale; bias follows it.
Support supports_norm(const Problem& problem, size_t first_parameter) {
  Support floats = all_up_to_f32(problem);
  if (!floats) return floats;
  const SymShape& shape = problem.inputs[0].shape;
  if (shape.empty()) return no("input is a scalar");
  const auto rank = static_cast<int64_t>(shape.size());
  const auto axis = static_cast<size_t>(positive_axis(problem.attrs_as<NormAttrs>().axis, rank));
  for (size_t i = first_parameter; i < problem.inputs.size(); ++i) {
    if (problem.has_input(i) && !is_per_row_element(problem.inputs[i].shape, shape, axis))
      return no("scale and bias must have one value per normalized element");
  }
  for (size_t i = 1; i < first_parameter; ++i) {
    if (str(problem.inputs[i].shape) != str(shape)) return no("the two addends differ in shape");
  }
  return yes();
}

bool takes_last_axis(const Problem& problem) {
  const auto rank = static_cast<int64_t>(problem.inputs[0].shape.size());
  return positive_axis(problem.attrs_as<NormAttrs>().axis, rank) == rank - 1;
}

// Rows may have strides only if a row is the last axis: several axes are read as one.
Support supports_rows(const Problem& problem, size_t first_parameter) {
  if (!takes_last_axis(problem)) return no("normalizes over more than the last axis");
  return supports_norm(problem, first_parameter);
}
Support supports_slabs(const Problem& problem, size_t first_parameter) {
  if (takes_last_axis(problem)) return no("normalizes over the last axis only");
  return supports_norm(problem, first_parameter);
}

bool has_16_bits(std::span<const TensorArg> args) {
  return std::ranges::any_of(args, [](const TensorArg& t) { return is_16_bit_float(t.dtype); });
}

int normalized_axis(AttrView attrs, const TensorArg& x) {
  return static_cast<int>(positive_axis(decode<NormAttrs>(attrs).axis, x.rank));
}

// Workspace if any operand is stored in 16 bits, in rows of `cols` floats: scale and bias, then the
// buffers of each part.
constexpr size_t kParameterRows = 2;
enum Buffer : size_t { kX, kAddend, kSum, kY, kBuffers };

size_t row_bytes(int64_t cols) { return round_to_line(static_cast<size_t>(cols) * sizeof(float)); }

std::unique_ptr<ShapeState> prepare_norm(const PrepareCall& call) {
  if (!has_16_bits(call.in) && !has_16_bits(call.out)) return workspace_only(0);
  const TensorArg& x = call.in[0];
  const auto threads = static_cast<size_t>(call.execution.threads->size());
  return workspace_only((kParameterRows + threads * kBuffers) *
                        row_bytes(elems_between(x, normalized_axis(call.attrs, x), x.rank)));
}

using RowFunction = void (*)(const NormRow&);

// One launch; `first_parameter` as above: 2 where input 1 is added before the normalization.
class NormLaunch {
 public:
  NormLaunch(const LaunchCall& call, size_t first_parameter)
      : call_(call),
        adds_(first_parameter == 2),
        axis_(normalized_axis(call.attrs, call.in[0])),
        cols_(elems_between(call.in[0], axis_, call.in[0].rank)),
        epsilon_(static_cast<float>(decode<NormAttrs>(call.attrs).epsilon)),
        x_rows_(call.in[0], call.in[0].rank - axis_),
        addend_rows_(call.in[adds_ ? 1 : 0], call.in[adds_ ? 1 : 0].rank - axis_),
        scale_(parameter(first_parameter, 0)),
        bias_(parameter(first_parameter + 1, 1)) {
    if (call.next != nullptr) next_.emplace(*call.next);
  }

  void run(RowFunction run_row) const {
    if (cols_ == 0) return;
    call_.execution.threads->parallel_for(x_rows_.count(), grain_rows(cols_),
                                          [&](int64_t begin, int64_t end, int part) {
                                            for (int64_t r = begin; r < end; ++r)
                                              normalize(r, part, run_row);
                                          });
  }

 private:
  float* workspace_row(size_t index) const {
    return reinterpret_cast<float*>(call_.workspace + index * row_bytes(cols_));
  }
  float* buffer(int part, Buffer which) const {
    return workspace_row(kParameterRows + static_cast<size_t>(part) * kBuffers + which);
  }
  const float* parameter(size_t i, size_t row) const {
    if (i >= call_.in.size() || call_.in[i].data == nullptr) return nullptr;
    return read_f32(call_.in[i], 0, cols_, workspace_row(row));
  }
  bool wants(size_t i) const { return i < call_.out.size() && call_.out[i].data != nullptr; }

  void normalize(int64_t r, int part, RowFunction run_row) const {
    float mean = 0, inv_std = 0;
    NormRow row{.x = read_f32(call_.in[0], x_rows_.offset(r), cols_, buffer(part, kX)),
                .scale = scale_,
                .bias = bias_,
                .y = place_f32(call_.out[0], r * cols_, buffer(part, kY)),
                .mean = &mean,
                .inv_std = &inv_std,
                .cols = cols_,
                .epsilon = epsilon_};
    if (adds_) {
      row.addend = read_f32(call_.in[1], addend_rows_.offset(r), cols_, buffer(part, kAddend));
      row.sum = wants(1) ? place_f32(call_.out[1], r * cols_, buffer(part, kSum)) : row.y;
    }
    run_row(row);
    write_f32(call_.out[0], r * cols_, cols_, row.y);
    if (next_) next_->run(r);
    if (adds_) {
      if (wants(1)) write_f32(call_.out[1], r * cols_, cols_, row.sum);
      return;
    }
    if (wants(1)) store_float(call_.out[1].dtype, mean, element(call_.out[1], r));
    if (wants(2)) store_float(call_.out[2].dtype, inv_std, element(call_.out[2], r));
  }

  const LaunchCall& call_;
  bool adds_;
  int axis_;
  int64_t cols_;
  float epsilon_;
  Rows x_rows_, addend_rows_;
  const float *scale_, *bias_;
  std::optional<QuantizeRowsLaunch> next_;  // of the step behind, where it is joined
};

// ---- L2Norm

Numerics l2_norm_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  numerics.accumulate = DType::kF64;
  return numerics;
}

// A 16-bit row is computed in a buffer of its thread.
std::unique_ptr<ShapeState> prepare_l2_norm(const PrepareCall& call) {
  if (!has_16_bits(call.out)) return workspace_only(0);
  return workspace_only(static_cast<size_t>(call.execution.threads->size()) *
                        row_bytes(call.out[0].dim(-1)));
}

void launch_l2_norm(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &out = call.out[0];
  const int64_t cols = x.dim(-1);
  if (x.elems() == 0) return;
  const double minimum = decode<L2NormAttrs>(call.attrs).minimum;
  const Rows rows(x);
  const auto normalize = [&](int64_t r, float* buffer) {
    float* y = place_f32(out, r * cols, buffer);
    const float* from = read_f32(x, rows.offset(r), cols, y);  // 16 bits are widened in place
    HWY_DYNAMIC_DISPATCH(L2NormRow)(from, y, cols, minimum);
    write_f32(out, r * cols, cols, y);
  };
  call.execution.threads->parallel_for(
      rows.count(), grain_rows(cols), [&](int64_t begin, int64_t end, int part) {
        std::byte* buffer = call.workspace + static_cast<size_t>(part) * row_bytes(cols);
        for (int64_t r = begin; r < end; ++r) normalize(r, reinterpret_cast<float*>(buffer));
      });
}

}  // namespace

extern const KernelBody layer_norm_rows, rms_norm_rows, add_layer_norm_rows;
constexpr KernelBody layer_norm_rows{
    .supports = [](const Problem& problem) { return supports_rows(problem, 1); },
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_norm,
    .launch =
        [](const LaunchCall& call) { NormLaunch(call, 1).run(HWY_DYNAMIC_DISPATCH(LayerNormRow)); },
    .joins = &quantizes_result_of,
};
constexpr KernelBody rms_norm_rows{
    .supports = [](const Problem& problem) { return supports_rows(problem, 1); },
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_norm,
    .launch =
        [](const LaunchCall& call) { NormLaunch(call, 1).run(HWY_DYNAMIC_DISPATCH(RmsNormRow)); },
    .joins = &quantizes_result_of,
};
constexpr KernelBody add_layer_norm_rows{
    .supports = [](const Problem& problem) { return supports_rows(problem, 2); },
    .numerics = &f32_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_norm,
    .launch =
        [](const LaunchCall& call) { NormLaunch(call, 2).run(HWY_DYNAMIC_DISPATCH(LayerNormRow)); },
    .joins = &quantizes_result_of,
};

extern const KernelBody l2_norm_rows;
constexpr KernelBody l2_norm_rows{
    .supports = &all_up_to_f32,
    .numerics = &l2_norm_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_l2_norm,
    .launch = &launch_l2_norm,
};

// The same over several axes.
constexpr KernelBody slabs_of(KernelBody rows, Support (*supports)(const Problem&)) {
  rows.supports = supports;
  rows.strided_inputs = 0;
  rows.joins = nullptr;
  return rows;
}
extern const KernelBody layer_norm_slabs, rms_norm_slabs, add_layer_norm_slabs;
constexpr KernelBody layer_norm_slabs =
    slabs_of(layer_norm_rows, [](const Problem& problem) { return supports_slabs(problem, 1); });
constexpr KernelBody rms_norm_slabs =
    slabs_of(rms_norm_rows, [](const Problem& problem) { return supports_slabs(problem, 1); });
constexpr KernelBody add_layer_norm_slabs = slabs_of(
    add_layer_norm_rows, [](const Problem& problem) { return supports_slabs(problem, 2); });

}  // namespace vernier::backend::cpu
#endif
