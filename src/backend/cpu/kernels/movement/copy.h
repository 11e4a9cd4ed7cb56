// Strided copies, which implement Transpose, Expand, Slice, Concat and similar operators. Element
// sizes of 1, 2, 4 or 8 bytes; bits are moved, never changed.
#pragma once
#include <span>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// One axis of a copy; strides in elements, source strides may be 0 (repeat) or negative.
struct CopyAxis {
  int64_t size = 1, src = 0, dst = 0;
};

/// The most axes of a copy.
inline constexpr int kMaxCopyAxes = 2 * kMaxRank;

struct CopyCall {
  const std::byte* src = nullptr;
  std::byte* dst = nullptr;
  std::span<const CopyAxis> axes;
  size_t elem_bytes = 4;
  ThreadTeam* threads = nullptr;
};

/// dst[Σ i·dst] = src[Σ i·src] for every index. Source and destination must not overlap. Rows are
/// memcpy where both are contiguous; where the source is contiguous along another axis, 32 × 32
/// blocks are transposed. No workspace.
void copy_strided(const CopyCall& call);

/// Fills `count` elements with one element's bytes.
void fill_elements(std::byte* dst, int64_t count, const std::byte* element, size_t elem_bytes);

}  // namespace vernier::backend::cpu
