// Sliding windows over 1 to 3 (or more) spatial axes: the geometry that Conv, ConvTranspose and the
// pools share. Data is [batch, channels, spatial...].
#pragma once
#include "core/tensor.h"

namespace vernier::reference {

/// The window attributes of Conv and pools; empty vectors mean ones (pads: zeros).
struct WindowAttrs {
  std::vector<int64_t> kernel, strides, dilations, pads;
  int64_t auto_pad = 0;  ///< 0 NOTSET, 1 SAME_UPPER, 2 SAME_LOWER, 3 VALID
};

/// A window at concrete sizes: input position = output position·stride + tap·dilation − pad_begin.
struct Window {
  Shape in, out, kernel;  ///< spatial sizes
  Shape strides, dilations, pad_begin, pad_end;

  /// Element of the input's spatial plane under tap `tap` of the window at `at`, or −1 in the
  /// padding. Both are positions, one index per spatial axis.
  int64_t input_index(std::span<const int64_t> at, std::span<const int64_t> tap) const;
};

/// `in_shape`, `out_shape`: whole shapes [batch, channels, spatial...].
Window window_of(const WindowAttrs& attrs, const Shape& in_shape, const Shape& out_shape);

/// Steps `position` to the next in row-major order of `sizes`; false after the last.
bool next_position(Shape& position, const Shape& sizes);

}  // namespace vernier::reference
