// Geometry of sliding windows: see window.h.
#include "reference/window.h"

#include <algorithm>

namespace vernier::reference {
namespace {

Shape or_ones(const std::vector<int64_t>& given, size_t rank) {
  return given.empty() ? Shape(rank, 1) : Shape(given);
}

}  // namespace

Window window_of(const WindowAttrs& attrs, const Shape& in_shape, const Shape& out_shape) {
  Window w;
  w.in.assign(in_shape.begin() + 2, in_shape.end());
  w.out.assign(out_shape.begin() + 2, out_shape.end());
  const size_t rank = w.in.size();
  w.kernel = attrs.kernel;
  w.strides = or_ones(attrs.strides, rank);
  w.dilations = or_ones(attrs.dilations, rank);
  w.pad_begin.assign(rank, 0);
  w.pad_end.assign(rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    if (attrs.auto_pad == 0 && !attrs.pads.empty()) {
      w.pad_begin[i] = attrs.pads[i];
      w.pad_end[i] = attrs.pads[rank + i];
    } else if (attrs.auto_pad == 1 || attrs.auto_pad == 2) {
      const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
      const int64_t total = std::max<int64_t>((w.out[i] - 1) * w.strides[i] + reach - w.in[i], 0);
      w.pad_begin[i] = attrs.auto_pad == 1 ? total / 2 : total - total / 2;
      w.pad_end[i] = total - w.pad_begin[i];
    }
  }
  return w;
}

int64_t Window::input_index(std::span<const int64_t> at, std::span<const int64_t> tap) const {
  int64_t index = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t p = at[i] * strides[i] + tap[i] * dilations[i] - pad_begin[i];
    if (p < 0 || p >= in[i]) return -1;
    index = index * in[i] + p;
  }
  return index;
}

bool next_position(Shape& position, const Shape& sizes) {
  for (size_t axis = sizes.size(); axis-- > 0;) {
    if (++position[axis] < sizes[axis]) return true;
    position[axis] = 0;
  }
  return false;
}

}  // namespace vernier::reference
