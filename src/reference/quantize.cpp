// FP64 evaluators of QuantizeLinear, DequantizeLinear and NegativeLogLikelihoodLoss. Contract:
// core/evaluator.h; layouts at QuantizeAttrs and LossAttrs in core/attrs.h.
#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "core/threads.h"
#include "reference/elementwise.h"
#include "reference/layout.h"
#include "reference/parts.h"

namespace vernier::reference {
namespace {

// The index of the scale and zero point of element `flat` of x.
class ScaleIndex {
 public:
  ScaleIndex(const QuantizeAttrs& attrs, const Shape& x, const EvalTensor& scale)
      : one_number_(scale.elems() == 1 && attrs.block_size == 0), block_(attrs.block_size) {
    if (one_number_) return;
    const size_t axis = normalize_axis(attrs.axis, x.size());
    view_ = view_axis(x, axis);
    if (block_ > 0) blocks_ = scale.shape[axis];
  }
  size_t operator()(int64_t flat) const {
    if (one_number_) return 0;
    const int64_t along = flat / view_.inner % view_.size;
    if (block_ == 0) return static_cast<size_t>(along);
    const int64_t outer = flat / view_.inner / view_.size, inner = flat % view_.inner;
    return static_cast<size_t>((outer * blocks_ + along / block_) * view_.inner + inner);
  }

 private:
  bool one_number_;
  int64_t block_, blocks_ = 0;
  AxisView view_;
};

// The zero point of each scale; 0 where there are none.
std::vector<double> zero_points(const EvalCall& call) {
  const EvalTensor* zero = call.in.size() > 2 ? call.in[2] : nullptr;
  const auto scales = static_cast<size_t>(call.in[1]->elems());
  std::vector<double> zeros(scales, 0.0);
  const bool one = zero != nullptr && zero->elems() == 1;
  for (size_t s = 0; s < scales && zero != nullptr; ++s)
    zeros[s] = zero->value(one ? 0 : static_cast<int64_t>(s));
  return zeros;
}

// x / scale as ONNX divides: to an f32, in which 0.5 / 0.0196078438 is a tie, 25.5.
double quotient_of(double x, double scale, DType scale_type) {
  const double quotient = x / scale;
  return scale_type == DType::kF64 ? quotient : static_cast<double>(static_cast<float>(quotient));
}

}  // namespace

// y = saturate(round(x / scale) + zero), halves to even; NaN gives the zero point. For floats of 8
// and 4 bits the quotient is not rounded to an integer, and saturates as double_to_float says.
void eval_quantize_linear(const EvalCall& call) {
  const auto attrs = decode<QuantizeAttrs>(call.attrs);
  const EvalTensor &x = *call.in[0], &scale = *call.in[1];
  EvalTensor& y = call.out[0];
  const ScaleIndex index(attrs, x.shape, scale);
  const std::vector<double> zeros = zero_points(call);
  in_parallel(x.elems(), kCopyGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t s = index(i), at = static_cast<size_t>(i);
      const double quotient = quotient_of(x.value(i), scale.f[s], scale.dtype);
      if (y.is_float()) {
        y.f[at] = double_to_float(y.dtype, quotient + zeros[s], attrs.saturate);
      } else {
        const double rounded = std::isnan(quotient) ? 0.0 : std::nearbyint(quotient);
        y.i[at] = double_to_integer(y.dtype, rounded + zeros[s]);
      }
    }
  });
  if (y.is_float()) round_out_each(call, 0);
}

// y = (x − zero)·scale
void eval_dequantize_linear(const EvalCall& call) {
  const EvalTensor &x = *call.in[0], &scale = *call.in[1];
  EvalTensor& y = call.out[0];
  const ScaleIndex index(decode<QuantizeAttrs>(call.attrs), x.shape, scale);
  const std::vector<double> zeros = zero_points(call);
  in_parallel(x.elems(), kCopyGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t s = index(i);
      y.f[i] = (x.value(i) - zeros[s]) * scale.f[s];
    }
  });
  round_out_each(call, 0);
}

// loss[n, d] = −w[t]·x[n, t, d] with t = targets[n, d], 0 if t is ignored; unreduced, summed, or
// summed and divided by the sum of the weights used.
void eval_negative_log_likelihood(const EvalCall& call) {
  const auto attrs = decode<LossAttrs>(call.attrs);
  const EvalTensor &x = *call.in[0], &targets = *call.in[1];
  const EvalTensor* weights = call.in.size() > 2 ? call.in[2] : nullptr;
  const AxisView view = view_axis(x.shape, 1);
  std::vector<double> losses(static_cast<size_t>(targets.elems()), 0.0);
  double counted = 0;
  for (int64_t i = 0; i < targets.elems(); ++i) {
    const int64_t target = targets.i[i];
    if (attrs.ignores && target == attrs.ignore_index) continue;
    if (target < 0 || target >= view.size) {
      throw Error(ErrorCode::kInput, "target " + std::to_string(target) + " at element " +
                                         std::to_string(i) + " is outside [0, " +
                                         std::to_string(view.size) + ")");
    }
    const double weight = weights ? weights->f[target] : 1.0;
    const int64_t at = view.at(i / view.inner, target, i % view.inner);
    losses[i] = -weight * x.f[at];
    counted += weight;
  }
  EvalTensor& y = call.out[0];
  if (attrs.reduction == LossReduction::kNone) {
    for (size_t i = 0; i < losses.size(); ++i) y.f[i] = call.rounding(0, losses[i]);
    return;
  }
  double sum = carried_sum(call.rounding.accumulator(), losses, [](double v) { return v; });
  if (attrs.reduction == LossReduction::kMean) sum /= counted;
  y.f[0] = call.rounding(0, sum);
}

}  // namespace vernier::reference
