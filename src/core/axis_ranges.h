// What Slice, Split and Pad do to one axis, and checks that it fits the output. Their starts, sizes
// and pads may be values that are known only at run time, after the output's shape was inferred:
// evaluators and CPU kernels call the checks before they read an element. Each check throws
// Error(kInput).
#pragma once
#include <cstddef>
#include <cstdint>

namespace vernier {

/// The sizes of one axis of the input and of the output.
struct AxisSizes {
  size_t axis = 0;
  int64_t in = 0, out = 0;
};

/// Elements start, start + step, …, counted from the front.
struct AxisSlice {
  int64_t start = 0, step = 1;
};
/// The first element of a slice of an axis of `size`: as in ONNX, a negative start counts from the
/// end, and a start outside is clamped to the nearest element (step > 0: or past the last).
AxisSlice slice_from(AxisSlice given, int64_t size);
/// Checks that the slice's elements, as many as the output has, are inside the input's axis.
void check_slice(AxisSlice slice, AxisSizes sizes);

/// `size` elements from element `first` on.
struct AxisPart {
  int64_t first = 0, size = 0;
};
/// Checks that the part is inside the input's axis and has the output's size.
void check_part(AxisPart part, AxisSizes sizes);

/// Elements added before and after; negative: removed.
struct AxisPadding {
  int64_t begin = 0, end = 0;
};
/// Checks that the padded axis has the output's size.
void check_padding(AxisPadding padding, AxisSizes sizes);

}  // namespace vernier
