// FP64 evaluators of QuantizeRows and QuantizedLinear. Contract: core/evaluator.h; operands at
// QuantizeRows and QuantizedLinear in core/attrs.h.
#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "core/numerics.h"
#include "reference/activations.h"
#include "reference/elementwise.h"
#include "reference/matmul.h"

namespace vernier::reference {
namespace {

// x − zero as real numbers; the zero points are `zeros`: one number, or one for each row of x, or
// for each column.
std::vector<double> centered(const EvalTensor& x, const Rounding& rounding, size_t point,
                             const EvalTensor* zeros, bool by_row) {
  std::vector<double> values(static_cast<size_t>(x.elems()));
  const int64_t cols = x.shape.empty() ? 1 : x.shape.back();
  for (int64_t i = 0; i < x.elems(); ++i) {
    double zero = 0;
    if (zeros != nullptr)
      zero = zeros->value(zeros->elems() == 1 ? 0 : by_row ? i / cols : i % cols);
    const double value = x.value(i);
    values[i] = (x.is_float() ? rounding(point, value) : value) - zero;
  }
  if (!x.is_float()) rounding.see(point, values);
  return values;
}

}  // namespace

// q = x·factor / scale + zero, of its row, or the given ones.
void eval_quantize_rows(const EvalCall& call) {
  constexpr double kSteps = 254;
  static const double kLargestF8 = largest_finite(DType::kF8E4M3);
  const bool is_f8 = decode<QuantizeRowsAttrs>(call.attrs).to == DType::kF8E4M3;
  // Rounding makes NaN of what is beyond f8's largest number, where the kernels saturate.
  const auto rounded = [&](double value) {
    const double q = call.rounding(0, value);
    return is_f8 && std::isnan(q) && !std::isnan(value) ? std::copysign(kLargestF8, value) : q;
  };
  const EvalTensor& x = *call.in[0];
  const EvalTensor* factor = call.optional(1);
  const auto other = [&](size_t i) {
    return i < call.out.size() && !call.out[i].f.empty() ? &call.out[i] : nullptr;
  };
  EvalTensor &q = call.out[0], *scales = other(1), *zeros = other(2);
  const auto cols = static_cast<size_t>(x.shape.back());
  for (size_t row = 0; row * cols < x.f.size(); ++row) {
    const auto read = std::span(x.f).subspan(row * cols, cols);
    std::vector<double> values(read.begin(), read.end());
    for (size_t i = 0; i < cols && factor != nullptr; ++i) values[i] *= factor->f[i];
    if (call.optional(2) != nullptr) {
      const double scale = call.in[2]->f[0], zero = is_f8 ? 0 : call.in[3]->f[0];
      for (size_t i = 0; i < cols; ++i) q.f[row * cols + i] = rounded(values[i] / scale + zero);
      continue;
    }
    double low = 0, high = 0, sum = 0;
    for (const double v : values) {
      low = std::min(low, v);
      high = std::max(high, v);
      sum += v - v;  // NaN where one of them is not finite
    }
    const double scale = (is_f8 ? std::max(high, -low) / kLargestF8 : (high - low) / kSteps) + sum;
    const double zero = scale == 0 || is_f8 ? 0 : -(high + low) / 2 / scale;
    for (size_t i = 0; i < cols; ++i)
      q.f[row * cols + i] = scale == 0 ? 0 : rounded(values[i] / scale + zero);
    if (scales != nullptr) scales->f[row] = scale;
    if (zeros != nullptr) zeros->f[row] = zero;
  }
}

// y = act((x − x_zero)·(w − w_zero)·x_scale·w_scale + bias) + residual
void eval_quantized_linear(const EvalCall& call) {
  const auto attrs = decode<QuantizedLinearAttrs>(call.attrs);
  const EvalTensor &x = *call.in[0], &w = *call.in[1], &x_scale = *call.in[2],
                   &w_scale = *call.in[3];
  const EvalTensor *bias = call.optional(6), *residual = call.optional(7);
  const Rounding& rounding = call.rounding;
  EvalTensor& y = call.out[0];
  if (y.f.empty()) return;
  const std::vector<double> left = centered(x, rounding, 0, call.optional(4), true);
  std::vector<double> right = centered(w, rounding, 1, call.optional(5), attrs.trans_w);
  if (attrs.trans_w) {
    std::vector<double> columns(right.size());
    transpose(w.shape[0], w.shape[1], right.data(), columns.data());
    right = std::move(columns);
  }
  const auto n = static_cast<size_t>(y.shape.back());
  multiply_add({static_cast<int64_t>(y.f.size() / n), y.shape.back(), x.shape.back()}, left.data(),
               right.data(), y.f.data(), rounding.accumulator());
  for_each_rounded(call, std::ssize(y.f), kFunctionGrain, [&](const Rounding& own, size_t i) {
    const size_t row = i / n, column = i % n;
    const double scale =
        x_scale.f[x_scale.elems() == 1 ? 0 : row] * w_scale.f[w_scale.elems() == 1 ? 0 : column];
    const double sum = own.inner(y.f[i] * scale + (bias ? bias->f[column] : 0.0));
    const double active = own.inner(activate(attrs.activation, sum));
    y.f[i] = own(2, own.inner(active + (residual ? residual->f[i] : 0.0)));
  });
}

}  // namespace vernier::reference
