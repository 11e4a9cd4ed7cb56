// Windows from attributes: see window_shape.h.
#include "backend/cuda/kernels/convolution/window_shape.h"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "backend/cuda/lines.h"

namespace vernier::backend::cuda {

Windows windows_of(const WindowAttrs& attrs, const TensorArg& in, const TensorArg& out) {
  Windows w;
  const auto axes = static_cast<size_t>(in.rank - 2);
  const auto at_or = [](std::span<const int64_t> values, size_t i, int64_t fallback) {
    // A step that is cut off here is never taken: a window of two taps so far apart has no 32 bits.
    const int64_t value = i < values.size() ? values[i] : fallback;
    return static_cast<int>(std::clamp<int64_t>(value, INT_MIN, INT_MAX));
  };
  // Positions are computed in 32 bits on the device: of all taps of all windows, padding included.
  const auto check_positions = [](const Windows& windows, size_t axis) {
    const auto wide = [](int value) { return int64_t{value}; };
    const int64_t last = (wide(windows.out[axis]) - 1) * windows.stride[axis] +
                         (wide(windows.kernel[axis]) - 1) * windows.dilation[axis];
    size_in_32_bits(std::max<int64_t>(last, 0) + windows.in[axis] +
                        std::abs(wide(windows.pad[axis])) + std::abs(wide(windows.pad_end[axis])),
                    "the reach of a window");
  };
  for (size_t to = 0; to < kSpatial; ++to) {
    const bool present = to + axes >= kSpatial;
    const size_t i = to + axes - kSpatial;  // used where present
    const auto axis = static_cast<int>(i) + 2;
    w.in[to] = present ? size_in_32_bits(in.dim(axis), "the input") : 1;
    w.out[to] = present ? size_in_32_bits(out.dim(axis), "the output") : 1;
    w.kernel[to] = present ? at_or(attrs.kernel, i, 1) : 1;
    w.stride[to] = present ? at_or(attrs.strides, i, 1) : 1;
    w.dilation[to] = present ? at_or(attrs.dilations, i, 1) : 1;
    w.pad[to] = w.pad_end[to] = 0;
    if (!present) continue;
    if (attrs.auto_pad == 0) {
      w.pad[to] = at_or(attrs.pads, i, 0);
      w.pad_end[to] = at_or(attrs.pads, axes + i, 0);
    } else if (attrs.auto_pad != 3) {
      check_positions(w, to);
      const int reach = (w.kernel[to] - 1) * w.dilation[to] + 1;
      const int total = std::max(0, (w.out[to] - 1) * w.stride[to] + reach - w.in[to]);
      w.pad[to] = attrs.auto_pad == 1 ? total / 2 : total - total / 2;
      w.pad_end[to] = total - w.pad[to];
    }
    check_positions(w, to);
  }
  return w;
}

Support supports_spatial(const Problem& problem) {
  const size_t rank = rank_of(problem.inputs[0]);
  if (rank >= 3 && rank <= 5) return yes();
  return no("the input has " + std::to_string(rank) +
            " axes; one to three spatial axes are supported");
}

}  // namespace vernier::backend::cuda
