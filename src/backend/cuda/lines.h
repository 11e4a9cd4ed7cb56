// The lines of an array along one axis, for the kernels that work along it.
#pragma once
#include "backend/cuda/body.h"

namespace vernier::backend::cuda {

/// `count` lines of `size` elements `step` apart; line i begins at `index` of i: one per place in
/// the other axes, in row-major order. A scalar is one line of one element.
struct AxisLines {
  StridedIndex index;
  int64_t count = 1, size = 1, step = 1;
};
AxisLines lines_of(const TensorArg& t, int64_t axis);

/// Where row r of `out`, which has axes [0, axis) before its rows, begins in `input`, whose sizes
/// there may be 1, or missing, where it is repeated.
StridedIndex row_index(const TensorArg& input, const TensorArg& out, int axis);

/// A size that a kernel keeps in 32 bits. Throws Error(kInput) where it does not fit; `what` has
/// it.
int size_in_32_bits(int64_t size, std::string_view what);
/// Throws Error(kInput) where a launch cannot have so many lines, or so long ones; `what` has them.
void check_lines(int64_t lines, int64_t size, std::string_view what);

}  // namespace vernier::backend::cuda
