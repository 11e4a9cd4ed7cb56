// FP64 evaluators of the operators that make or change shapes. Contract: core/evaluator.h.
#include <algorithm>

#include "core/attrs.h"
#include "reference/layout.h"

namespace vernier::reference {

void eval_shape(const EvalCall& call) {
  const auto attrs = decode<ShapeOfAttrs>(call.attrs);
  const Shape& in = call.in[0]->shape;
  const auto rank = static_cast<int64_t>(in.size());
  const int64_t start =
      std::clamp<int64_t>(attrs.start < 0 ? attrs.start + rank : attrs.start, 0, rank);
  for (size_t k = 0; k < call.out[0].i.size(); ++k)
    call.out[0].i[k] = in[static_cast<size_t>(start) + k];
}

void eval_size(const EvalCall& call) { call.out[0].i[0] = call.in[0]->elems(); }

void eval_shape_values(const EvalCall& call) {
  const auto attrs = decode<ShapeValuesAttrs>(call.attrs);
  for (size_t k = 0; k < attrs.values.size(); ++k) call.out[0].i[k] = attrs.values[k].evaluate({});
}

void eval_reshape(const EvalCall& call) {
  call.out[0].f = call.in[0]->f;
  call.out[0].i = call.in[0]->i;
}

void eval_expand(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  const Shape own = row_major_strides(x.shape);
  const size_t added = y.rank() - x.rank();
  Shape strides(y.rank(), 0);
  for (size_t i = 0; i < x.rank(); ++i) strides[added + i] = x.shape[i] == 1 ? 0 : own[i];
  copy_strided(x, 0, strides, y);
}

void eval_transpose(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  const Shape own = row_major_strides(x.shape);
  Shape strides;
  for (int64_t axis : decode<TransposeAttrs>(call.attrs).perm)
    strides.push_back(own[normalize_axis(axis, x.rank())]);
  copy_strided(x, 0, strides, call.out[0]);
}

void eval_constant_of_shape(const EvalCall& call) {
  const double value = decode<ConstantOfShapeAttrs>(call.attrs).value;
  EvalTensor& y = call.out[0];
  std::fill(y.f.begin(), y.f.end(), value);
  // Inference has checked that the value fits 64 bits.
  if (!y.is_float())
    std::fill(y.i.begin(), y.i.end(), wrap_integer(y.dtype, static_cast<int64_t>(value)));
}

void eval_range(const EvalCall& call) {
  EvalTensor& y = call.out[0];
  const EvalTensor &start = *call.in[0], &delta = *call.in[2];
  for (size_t k = 0; k < y.f.size(); ++k)
    y.f[k] = call.rounding(0, start.f[0] + static_cast<double>(k) * delta.f[0]);
  for (size_t k = 0; k < y.i.size(); ++k)
    y.i[k] = start.i[0] + static_cast<int64_t>(k) * delta.i[0];
}

void eval_eye_like(const EvalCall& call) {
  EvalTensor& y = call.out[0];
  const int64_t rows = y.shape[0], cols = y.shape[1];
  const int64_t k = std::clamp(decode<EyeLikeAttrs>(call.attrs).k, -rows, cols);
  for (int64_t row = std::max<int64_t>(0, -k); row < rows && row + k < cols; ++row) {
    const auto at = static_cast<size_t>(row * cols + row + k);
    if (y.is_float())
      y.f[at] = 1;
    else
      y.i[at] = 1;
  }
}

}  // namespace vernier::reference
