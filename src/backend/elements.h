// Element by element through an array with any strides: for evaluators and checks, not for kernels.
#pragma once
#include <array>

#include "backend/kernel.h"

namespace vernier::backend {

/// Calls visit(offset) for each element of `t` in row-major order. `offset`: from t.data, in
/// elements.
template <class Visit>
void for_each_element(const TensorArg& t, const Visit& visit) {
  std::array<int64_t, kMaxRank> position{};
  int64_t at = 0;
  for (int64_t left = t.elems(); left > 0; --left) {
    visit(at);
    for (int d = t.rank - 1; d >= 0; --d) {
      const auto axis = static_cast<size_t>(d);
      at += t.strides[axis];
      if (++position[axis] < t.shape[axis]) break;
      at -= t.strides[axis] * t.shape[axis];
      position[axis] = 0;
    }
  }
}

/// Zeros of the type and shape of `t`.
inline EvalTensor shaped_like(const TensorArg& t) {
  return {t.dtype, Shape(t.shape.begin(), t.shape.begin() + t.rank)};
}

/// The elements of `t`, which lies in host memory.
inline EvalTensor loaded(const TensorArg& t) {
  EvalTensor result = shaped_like(t);
  const auto width = static_cast<int64_t>(size_bytes(t.dtype));
  size_t next = 0;
  for_each_element(t, [&](int64_t at) {
    if (result.is_float())
      result.f[next++] = load_float(t.dtype, t.data + at * width);
    else
      result.i[next++] = load_integer(t.dtype, t.data + at * width);
  });
  return result;
}

}  // namespace vernier::backend
