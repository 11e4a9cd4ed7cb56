// Index helpers: see layout.h.
#include "reference/layout.h"

namespace vernier::reference {

size_t normalize_axis(int64_t axis, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw Error(ErrorCode::kInput, "axis " + std::to_string(axis) + " is outside [" +
                                       std::to_string(-signed_rank) + ", " +
                                       std::to_string(signed_rank) + ")");
  }
  return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

int64_t wrap_index(int64_t index, int64_t size, int64_t position) {
  if (index < -size || index >= size) {
    throw Error(ErrorCode::kInput, "index " + std::to_string(index) + " at element " +
                                       std::to_string(position) + " of the indices is outside [" +
                                       std::to_string(-size) + ", " + std::to_string(size) + ")");
  }
  return index < 0 ? index + size : index;
}

AxisView view_axis(const Shape& shape, size_t axis) {
  AxisView view;
  for (size_t i = 0; i < axis; ++i) view.outer *= shape[i];
  view.size = shape[axis];
  for (size_t i = axis + 1; i < shape.size(); ++i) view.inner *= shape[i];
  return view;
}

void copy_strided(const EvalTensor& src, int64_t first, const Shape& strides, EvalTensor& dst) {
  const auto copy = [&](const auto& from, auto& to) {
    walk(dst.shape, strides,
         [&](int64_t flat, int64_t offset) { to[flat] = from[first + offset]; });
  };
  if (src.is_float())
    copy(src.f, dst.f);
  else
    copy(src.i, dst.i);
}

void round_out(const EvalCall& call) {
  for (double& v : call.out[0].f) v = call.rounding(0, v);
}

}  // namespace vernier::reference
