// Index helpers of the FP64 evaluators that move or reduce elements. Contract: core/evaluator.h.
#pragma once
#include <string>

#include "core/evaluator.h"

namespace vernier::reference {

/// axis in [-rank, rank) to [0, rank); throws Error(kInput) otherwise.
size_t normalize_axis(int64_t axis, size_t rank);

/// index in [-size, size) to [0, size). Throws Error(kInput) naming the value, its position in the
/// index tensor and the valid range.
int64_t wrap_index(int64_t index, int64_t size, int64_t position);

/// A shape seen as [outer, size, inner] around one axis.
struct AxisView {
  int64_t outer = 1, size = 1, inner = 1;
  int64_t at(int64_t o, int64_t k, int64_t i) const { return (o * size + k) * inner + i; }
};
AxisView view_axis(const Shape& shape, size_t axis);

/// body(flat, offset) for every element of `shape` in row-major order, where offset is the dot
/// product of its coordinates with `strides`.
template <class Body>
void walk(const Shape& shape, const Shape& strides, const Body& body) {
  const int64_t count = num_elems(shape);
  Shape at(shape.size(), 0);
  int64_t offset = 0;
  for (int64_t flat = 0; flat < count; ++flat) {
    body(flat, offset);
    for (size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
}

/// body(flat, coordinates) for every element of `shape` in row-major order.
template <class Body>
void walk_coordinates(const Shape& shape, const Body& body) {
  const int64_t count = num_elems(shape);
  Shape at(shape.size(), 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    body(flat, at);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
}

/// Element `from` of src becomes element `to` of dst; both hold the same kind of numbers.
inline void copy_element(const EvalTensor& src, int64_t from, EvalTensor& dst, int64_t to) {
  if (src.is_float())
    dst.f[to] = src.f[from];
  else
    dst.i[to] = src.i[from];
}

/// The elements of `src` at strides over dst's shape, starting at `first`.
void copy_strided(const EvalTensor& src, int64_t first, const Shape& strides, EvalTensor& dst);

/// Every element through the operator's "out" rounding point.
void round_out(const EvalCall& call);

}  // namespace vernier::reference
