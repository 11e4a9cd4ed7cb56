// Index helpers: see layout.h.
#include "reference/layout.h"

#include <algorithm>

#include "core/threads.h"
#include "reference/parts.h"

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
  if (dst.elems() == 0) return;
  const Shape& shape = dst.shape;
  const int64_t cols = shape.empty() ? 1 : shape.back(), step = shape.empty() ? 1 : strides.back();
  const auto copy = [&](const auto& from, auto& to) {
    const auto* source = from.data() + first;
    auto* target = to.data();
    const int64_t least = std::max<int64_t>(1, kCopyGrain / cols);
    in_parallel(dst.elems() / cols, least, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t place = row, offset = 0;
        for (size_t axis = std::max<size_t>(shape.size(), 1) - 1; axis-- > 0;) {
          offset += place % shape[axis] * strides[axis];
          place /= shape[axis];
        }
        auto* out = target + row * cols;
        if (step == 1) {
          std::copy_n(source + offset, cols, out);
        } else {
          for (int64_t j = 0; j < cols; ++j) out[j] = source[offset + j * step];
        }
      }
    });
  };
  if (src.is_float())
    copy(src.f, dst.f);
  else
    copy(src.i, dst.i);
}

void round_out(const EvalCall& call) { round_out_each(call, 0); }

}  // namespace vernier::reference
