// FP64 evaluator of WeightOnlyLinear. Contract: core/evaluator.h; operands at
// WeightOnlyLinearAttrs in core/attrs.h.
#include "core/attrs.h"
#include "reference/activations.h"
#include "reference/elementwise.h"
#include "reference/matmul.h"

namespace vernier::reference {
namespace {

// (w − zero)·scale as [K, N].
std::vector<double> real_weight(const EvalCall& call, const WeightOnlyLinearAttrs& attrs) {
  const EvalTensor &w = *call.in[1], &scale = *call.in[2];
  const EvalTensor* zero = call.optional(3);
  const int64_t k = w.shape[attrs.trans_w ? 1 : 0], n = w.shape[attrs.trans_w ? 0 : 1];
  const auto of = [&](const EvalTensor& t, int64_t row, int64_t column) {
    if (t.elems() == 1) return t.value(0);
    return t.value(attrs.block_size == 0 ? column : row / attrs.block_size * n + column);
  };
  std::vector<double> real(static_cast<size_t>(k * n));
  for (int64_t row = 0; row < k; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double value = w.value(attrs.trans_w ? column * k + row : row * n + column);
      if (w.is_float()) value = call.rounding(1, value);
      if (zero != nullptr) value -= of(*zero, row, column);
      real[row * n + column] = value * of(scale, row, column);
    }
  }
  return real;
}

}  // namespace

// y = act(x·((w − zero)·scale) + bias) + residual
void eval_weight_only_linear(const EvalCall& call) {
  const auto attrs = decode<WeightOnlyLinearAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  const EvalTensor *bias = call.optional(4), *residual = call.optional(5);
  EvalTensor& y = call.out[0];
  if (y.f.empty()) return;
  std::vector<double> storage;
  const std::span<const double> left = at_point(call, 0, x, storage);
  const std::vector<double> right = real_weight(call, attrs);
  const auto n = static_cast<size_t>(y.shape.back());
  multiply_add({static_cast<int64_t>(y.f.size() / n), y.shape.back(), x.shape.back()}, left.data(),
               right.data(), y.f.data(), call.rounding.accumulator());
  for_each_rounded(call, std::ssize(y.f), kFunctionGrain, [&](const Rounding& own, size_t i) {
    const double sum = own.inner(y.f[i] + (bias ? bias->f[i % n] : 0.0));
    const double active = own.inner(activate(attrs.activation, sum));
    y.f[i] = own(2, own.inner(active + (residual ? residual->f[i] : 0.0)));
  });
}

}  // namespace vernier::reference
