// Strided copies on the device: the engine below all kernels that only move elements. Host-side
// entry of copy.cu in plain types.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

inline constexpr int kMaxCopyAxes = 20;  // two per axis of a Tile

/// One loop of a copy: `size` steps of `src` and `dst` elements. Strides may be 0 (the source
/// repeats) or negative on the source's side.
struct CopyAxis {
  int64_t size, src, dst;
};

struct StridedCopy {
  const std::byte* src;
  std::byte* dst;
  DType src_type, dst_type;  // equal, or both of f32, f16 and bf16: then converted
  int elem_bytes;            // of dst_type: 1, 2, 4, 8
  int count;
  CopyAxis axes[kMaxCopyAxes];

  void add(CopyAxis axis) { axes[count++] = axis; }
};

/// dst[Σ i·dst] = src[Σ i·src] for all indices of the axes, which must not write an element twice.
/// Any order of axes: those of size 1 are dropped, the others sorted by destination and merged
/// where they step together. What is contiguous on both sides moves in units of up to 16 bytes;
/// planes that are contiguous on different axes go through shared memory in tiles; the rest moves
/// element by element in the destination's order. Bits are moved unchanged (a conversion rounds
/// once). Cost: reads and writes each element once. No workspace.
cudaError_t copy_strided(const StridedCopy& copy, cudaStream_t stream);

/// dst[0, elems) = the low `elem_bytes` bytes of `pattern`.
cudaError_t fill_elements(std::byte* dst, int64_t elems, uint64_t pattern, int elem_bytes,
                          cudaStream_t stream);

}  // namespace vernier::backend::cuda
