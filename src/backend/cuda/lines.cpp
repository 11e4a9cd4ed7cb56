// The lines of an array along one axis: see lines.h.
#include "backend/cuda/lines.h"

namespace vernier::backend::cuda {

AxisLines lines_of(const TensorArg& t, int64_t axis) {
  AxisLines lines;
  if (t.rank == 0) return lines;
  const auto along = static_cast<int>(positive_axis(axis, t.rank));
  std::array<int64_t, kMaxRank> sizes{}, strides{};
  size_t others = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (i == along) continue;
    sizes[others] = t.dim(i);
    strides[others++] = t.stride(i);
    lines.count *= t.dim(i);
  }
  lines.index = strided_index(std::span(sizes).first(others), std::span(strides).first(others));
  lines.size = t.dim(along);
  lines.step = lines.size == 1 ? 1 : t.stride(along);
  check_lines(lines.count, lines.size, "an array");
  return lines;
}

StridedIndex row_index(const TensorArg& input, const TensorArg& out, int axis) {
  std::array<int64_t, kMaxRank> sizes{}, strides{};
  for (int i = 0; i < axis; ++i) {
    const auto k = static_cast<size_t>(i);
    sizes[k] = out.dim(i);
    strides[k] = broadcast_stride(input, i, out.rank);
  }
  const auto count = static_cast<size_t>(axis);
  return strided_index(std::span(sizes).first(count), std::span(strides).first(count));
}

int size_in_32_bits(int64_t size, std::string_view what) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  if (size > kMost)
    throw Error(ErrorCode::kInput, std::string(what) + " has an axis of " + std::to_string(size) +
                                       "; the CUDA kernel takes up to " + std::to_string(kMost));
  return static_cast<int>(size);
}

void check_lines(int64_t lines, int64_t size, std::string_view what) {
  constexpr int64_t kMaxLines = (int64_t{1} << 31) - 1;  // gridDim.x carries them
  constexpr int64_t kMaxSize = int64_t{1} << 30;         // kMaxColumns of device/rows.cuh
  if (lines <= kMaxLines && size <= kMaxSize) return;
  throw Error(ErrorCode::kInput, std::string(what) + " has " + std::to_string(lines) +
                                     " lines of " + std::to_string(size) + " elements, at most " +
                                     std::to_string(kMaxLines) + " of " + std::to_string(kMaxSize) +
                                     " fit one launch");
}

}  // namespace vernier::backend::cuda
