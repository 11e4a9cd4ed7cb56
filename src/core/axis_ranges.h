// What Slice, Split and Pad do to one axis, and that it fits the output. Their numbers may be
// values that are read when they run, long after the sizes of the outputs were inferred: evaluators
// and the kernels of the host ask here before they read an element. Each check throws
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
/// Where a slice of an axis of `size` begins: as ONNX says, a negative start counts from the end,
/// and one outside is moved to the nearest element (step > 0: or behind the last).
AxisSlice slice_from(AxisSlice given, int64_t size);
/// The output's elements of the slice lie on the input's axis.
void check_slice(AxisSlice slice, AxisSizes sizes);

/// `size` elements, the first of them number `first`.
struct AxisPart {
  int64_t first = 0, size = 0;
};
/// The part lies on the input's axis and is the output's.
void check_part(AxisPart part, AxisSizes sizes);

/// Elements added before and behind; negative: cut off.
struct AxisPadding {
  int64_t begin = 0, end = 0;
};
/// The padded axis is the output's.
void check_padding(AxisPadding padding, AxisSizes sizes);

}  // namespace vernier
