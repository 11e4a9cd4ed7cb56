// Broadcasting of concrete shapes by ONNX's multidirectional rule: sizes are aligned at the right,
// a missing size or a 1 repeats. Used by the evaluators, by symbolic values and by the CPU kernels.
#pragma once
#include <array>

#include "core/tensor.h"

namespace vernier {

/// The shape that `a` and `b` broadcast to. Throws Error(kInput) naming both if there is none.
Shape broadcast_shape(std::span<const int64_t> a, std::span<const int64_t> b);

/// Element strides of a dense row-major array of `shape` broadcast to `out`: one per axis of `out`,
/// 0 along repeated axes. `shape` must broadcast to `out` (asserted).
Shape broadcast_strides(std::span<const int64_t> shape, std::span<const int64_t> out);

/// Calls body(out_index, offsets) for every element of `out` in row-major order, where offsets[n]
/// is the element of operand n at that position. strides[n]: from broadcast_strides.
template <size_t N, class Body>
void for_each_broadcast(std::span<const int64_t> out, const std::array<Shape, N>& strides,
                        const Body& body) {
  const int64_t count = num_elems(out);
  if (count == 0) return;
  const size_t outer_axes = out.empty() ? 0 : out.size() - 1;
  const int64_t inner = out.empty() ? 1 : out.back();
  std::array<int64_t, N> start{}, step{};
  if (!out.empty()) {
    for (size_t n = 0; n < N; ++n) step[n] = strides[n].back();
  }
  Shape position(outer_axes, 0);
  for (int64_t base = 0; base < count; base += inner) {
    std::array<int64_t, N> offsets = start;
    for (int64_t j = 0; j < inner; ++j) {
      body(base + j, offsets);
      for (size_t n = 0; n < N; ++n) offsets[n] += step[n];
    }
    for (size_t axis = outer_axes; axis-- > 0;) {
      for (size_t n = 0; n < N; ++n) start[n] += strides[n][axis];
      if (++position[axis] < out[axis]) break;
      for (size_t n = 0; n < N; ++n) start[n] -= strides[n][axis] * out[axis];
      position[axis] = 0;
    }
  }
}

}  // namespace vernier
