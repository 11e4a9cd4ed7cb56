// FP64 evaluators of LayerNorm, RMSNorm, AddLayerNorm, BatchNormalization, GroupNormalization and
// L2Norm. Contract: core/evaluator.h; rounding points x (sum), mean, var, normalised, out. Sums
// over a row use the accumulator; differences, squares and products are inner results.
#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "reference/elementwise.h"
#include "reference/normalize_rows.h"

namespace vernier::reference {

namespace {

// Σ v and Σ v² of a row with the accumulator; squares are inner results.
double row_sum(const Rounding& rounding, std::span<const double> row) {
  const PointRounding& accumulator = rounding.accumulator();
  if (Sum::is_exact(accumulator)) return sum_of(row);
  return carried_sum(accumulator, row, [](double v) { return v; });
}
double row_square_sum(const Rounding& rounding, std::span<const double> row) {
  const PointRounding& accumulator = rounding.accumulator();
  if (Sum::is_exact(accumulator) && rounding.inner().type == DType::kUndefined)
    return square_sum_of(row);
  return carried_sum(accumulator, row, [&](double v) { return rounding.inner(v * v); });
}

}  // namespace

RowStatistics normalize_row(std::span<double> row, double epsilon, const Rounding& rounding,
                            const NormPoints& points) {
  const auto count = static_cast<double>(row.size());
  round_each(rounding, points.x, row);
  const double mean = rounding(points.mean, row_sum(rounding, row) / count);
  for (double& v : row) v -= mean;
  round_inner_each(rounding, row);
  const double var = rounding(points.var, row_square_sum(rounding, row) / count);
  const double inv_std = rounding.inner(1.0 / std::sqrt(rounding.inner(var + epsilon)));
  for (double& v : row) v *= inv_std;
  round_inner_each(rounding, row);
  round_each(rounding, points.normalized, row);
  return {mean, inv_std};
}

void normalize_rows(const EvalCall& call, size_t columns, double epsilon, const NormPoints& points,
                    EvalTensor* mean, EvalTensor* inv_std) {
  std::vector<double>& y = call.out[0].f;
  if (columns == 0) return;
  const auto least = std::max<int64_t>(1, kCopyGrain / static_cast<int64_t>(columns));
  for_each_rounded(call, std::ssize(y) / static_cast<int64_t>(columns), least,
                   [&](const Rounding& rounding, size_t i) {
                     const auto row = std::span(y).subspan(i * columns, columns);
                     const RowStatistics s = normalize_row(row, epsilon, rounding, points);
                     if (mean) mean->f[i] = s.mean;
                     if (inv_std) inv_std->f[i] = s.inv_std;
                   });
}

void scale_and_shift(const EvalCall& call, const EvalTensor& scale, const EvalTensor* bias,
                     size_t out_point) {
  EvalTensor& y = call.out[0];
  combine_floats(y, scale, y, [](double v, double factor) { return v * factor; });
  round_inner_parts(call, y.f);
  if (bias) combine_floats(y, *bias, y, [](double v, double added) { return v + added; });
  round_out_each(call, out_point);
}

namespace {

// Elements per row when rows span axes [axis, rank).
size_t row_length(const Shape& shape, int64_t axis) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto first = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  return static_cast<size_t>(num_elems(std::span(shape).subspan(first)));
}

// Output n if it is wanted.
EvalTensor* wanted_output(const EvalCall& call, size_t n) {
  return call.out.size() > n && call.out[n].dtype != DType::kUndefined ? &call.out[n] : nullptr;
}

// body(rounding, row) for consecutive rows of `length` elements of output 0, on all threads.
template <class Body>
void for_each_row(const EvalCall& call, size_t length, const Body& body) {
  if (length == 0) return;
  std::vector<double>& y = call.out[0].f;
  for_each_rounded(call, std::ssize(y) / static_cast<int64_t>(length),
                   std::max<int64_t>(1, kCopyGrain / static_cast<int64_t>(length)),
                   [&](const Rounding& rounding, size_t i) {
                     body(rounding, std::span(y).subspan(i * length, length));
                   });
}

// `scale` [channels] as [channels, 1, …] beside data [batch, channels, spatial…].
EvalTensor per_channel(const EvalTensor& scale, size_t data_rank) {
  EvalTensor result = scale;
  for (size_t i = 2; i < data_rank; ++i) result.shape.push_back(1);
  return result;
}

// An operand after rounding point 0: itself, or `copy`.
const EvalTensor& at_first_point(const EvalCall& call, const EvalTensor& x, EvalTensor& copy) {
  if (!call.rounding.changes(0)) {
    call.rounding.see(0, x.f);
    return x;
  }
  copy = x;
  round_each(call.rounding, 0, copy.f);
  return copy;
}

}  // namespace

// Outputs: y, and where wanted the mean and 1/√(var + ε) per row.
void eval_layer_norm(const EvalCall& call) {
  const auto attrs = decode<NormAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  require_float("LayerNorm", x);
  EvalTensor &y = call.out[0], *mean = wanted_output(call, 1), *inv_std = wanted_output(call, 2);
  y.f = x.f;
  normalize_rows(call, row_length(x.shape, attrs.axis), attrs.epsilon, kNormIndex, mean, inv_std);
  scale_and_shift(call, *call.in[1], call.optional(2), kNormIndex.out);
}

// y = x/√(mean(x²) + ε)·scale; the point "var" is the mean square, "mean" is not used.
void eval_rms_norm(const EvalCall& call) {
  const auto attrs = decode<NormAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  require_float("RMSNorm", x);
  EvalTensor& y = call.out[0];
  y.f = x.f;
  const size_t length = row_length(x.shape, attrs.axis);
  for_each_row(call, length, [&](const Rounding& rounding, std::span<double> row) {
    round_each(rounding, kNormIndex.x, row);
    const double mean_square =
        rounding(kNormIndex.var, row_square_sum(rounding, row) / static_cast<double>(row.size()));
    const double inv_rms =
        rounding.inner(1.0 / std::sqrt(rounding.inner(mean_square + attrs.epsilon)));
    for (double& v : row) v *= inv_rms;
    round_inner_each(rounding, row);
    round_each(rounding, kNormIndex.normalized, row);
  });
  scale_and_shift(call, *call.in[1], nullptr, kNormIndex.out);
}

// Outputs: LayerNorm(x + residual), and where wanted the sum.
void eval_add_layer_norm(const EvalCall& call) {
  const auto attrs = decode<NormAttrs>(call.attrs);
  const EvalTensor &x = *call.in[0], &residual = *call.in[1];
  require_float("AddLayerNorm", x);
  EvalTensor& y = call.out[0];
  EvalTensor rounded_x, rounded_residual;
  combine_floats(at_first_point(call, x, rounded_x),
                 at_first_point(call, residual, rounded_residual), y,
                 [](double a, double b) { return a + b; });
  round_out_each(call, kAddNormIndex.x);
  if (EvalTensor* sum = wanted_output(call, 1)) sum->f = y.f;
  normalize_rows(call, row_length(y.shape, attrs.axis), attrs.epsilon, kAddNormIndex);
  scale_and_shift(call, *call.in[2], call.optional(3), kAddNormIndex.out);
}

// y = (x − mean_c)/√(var_c + ε)·scale_c + bias_c with stored statistics; channels are axis 1.
void eval_batch_normalization(const EvalCall& call) {
  const double epsilon = decode<BatchNormAttrs>(call.attrs).epsilon;
  const EvalTensor &x = *call.in[0], &scale = *call.in[1], &bias = *call.in[2];
  const EvalTensor &mean = *call.in[3], &var = *call.in[4];
  require_float("BatchNormalization", x);
  EvalTensor& y = call.out[0];
  const size_t channels = scale.f.size();
  const size_t plane =
      x.rank() < 2 ? 1 : static_cast<size_t>(num_elems(std::span(x.shape).subspan(2)));
  for (size_t i = 0; i < y.f.size(); ++i) {
    const size_t c = i / plane % channels;
    const Rounding& rounding = call.rounding;
    const double normalized = rounding.inner((x.f[i] - mean.f[c]) / std::sqrt(var.f[c] + epsilon));
    y.f[i] = rounding(0, rounding.inner(normalized * scale.f[c]) + bias.f[c]);
  }
}

// Rows are the elements of one group of channels of one batch item.
void eval_group_normalization(const EvalCall& call) {
  const auto attrs = decode<GroupNormAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  require_float("GroupNormalization", x);
  EvalTensor& y = call.out[0];
  y.f = x.f;
  const int64_t groups = attrs.num_groups == 0 ? x.shape[1] : attrs.num_groups;
  const int64_t rows = x.shape[0] * groups;
  if (rows == 0) return;
  for_each_row(call, y.f.size() / static_cast<size_t>(rows),
               [&](const Rounding& rounding, std::span<double> row) {
                 normalize_row(row, attrs.epsilon, rounding, kNormIndex);
               });
  const EvalTensor scale = per_channel(*call.in[1], x.rank());
  const EvalTensor bias = per_channel(*call.in[2], x.rank());
  scale_and_shift(call, scale, &bias, kNormIndex.out);
}

// y = x/max(√Σx², minimum), as Div of x by Clip of ReduceL2: a NaN makes its row NaN; an infinite
// element becomes NaN and the finite elements of its row become 0.
void eval_l2_norm(const EvalCall& call) {
  const double minimum = decode<L2NormAttrs>(call.attrs).minimum;
  const EvalTensor& x = *call.in[0];
  require_float("L2Norm", x);
  EvalTensor& y = call.out[0];
  y.f = x.f;
  const size_t length = row_length(x.shape, -1);
  for_each_row(call, length, [&](const Rounding& rounding, std::span<double> row) {
    const double norm = rounding.inner(std::sqrt(row_square_sum(rounding, row)));
    const double divisor = std::max(norm, minimum);  // NaN stays NaN
    for (double& v : row) v /= divisor;
    round_each(rounding, 0, row);
  });
}

}  // namespace vernier::reference
