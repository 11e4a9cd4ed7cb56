// Strided copies, fills; contract in copy.h. C++17.
#include "backend/cuda/device/divider.cuh"
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/copy.h"

namespace vernier::backend::cuda {
namespace {

template <class Index>
struct Walk {
  const std::byte* src;
  std::byte* dst;
  Index total;
  int count;
  Divider<Index> size[kMaxCopyAxes];
  int64_t src_step[kMaxCopyAxes], dst_step[kMaxCopyAxes];

  struct Offsets {
    int64_t src, dst;
  };
  __device__ Offsets at(Index i) const {
    Offsets offsets{0, 0};
    for (int axis = count - 1; axis > 0; --axis) {
      const Index quotient = size[axis](i);
      const auto step = static_cast<int64_t>(i - quotient * size[axis].divisor);
      offsets.src += step * src_step[axis];
      offsets.dst += step * dst_step[axis];
      i = quotient;
    }
    offsets.src += static_cast<int64_t>(i) * src_step[0];
    offsets.dst += static_cast<int64_t>(i) * dst_step[0];
    return offsets;
  }
};

// One unit T (an element, or up to 16 bytes of neighbours) per thread, destination order.
template <class T, class Index>
__global__ void __launch_bounds__(kBlock) copy_units(const __grid_constant__ Walk<Index> walk) {
  const auto* src = reinterpret_cast<const T*>(walk.src);
  auto* dst = reinterpret_cast<T*>(walk.dst);
  for (Index i = blockIdx.x * Index{kBlock} + threadIdx.x; i < walk.total;
       i += gridDim.x * Index{kBlock}) {
    const auto at = walk.at(i);
    dst[at.dst] = src[at.src];
  }
}

__global__ void __launch_bounds__(kBlock)
    convert_units(const __grid_constant__ Walk<uint64_t> walk, DType from, DType to) {
  for (uint64_t i = blockIdx.x * uint64_t{kBlock} + threadIdx.x; i < walk.total;
       i += gridDim.x * uint64_t{kBlock}) {
    const auto at = walk.at(i);
    store_f32(to, walk.dst, at.dst, load_f32(from, walk.src, at.src));
  }
}

// A batch of planes: the source is contiguous along `outer`, the destination along `inner`.
struct Planes {
  Walk<uint64_t> batch;
  CopyAxis outer, inner;
};

// Tiles of (inner, outer) of the source, written as (outer, inner). 32 × 8 threads. The padding of
// a tile's rows is one 4-byte bank.
template <class T>
__global__ void __launch_bounds__(kBlock) transpose_planes(const __grid_constant__ Planes p) {
  constexpr int kTile = sizeof(T) <= 2 ? 64 : 32;
  constexpr int kPad = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  __shared__ T tile[kTile][kTile + kPad];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const int64_t outer_tiles = (p.outer.size + kTile - 1) / kTile;
  const int64_t inner_tiles = (p.inner.size + kTile - 1) / kTile;
  const int64_t tiles = static_cast<int64_t>(p.batch.total) * outer_tiles * inner_tiles;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    int64_t rest = t;
    const int64_t o0 = take_axis(rest, outer_tiles) * kTile;
    const int64_t i0 = take_axis(rest, inner_tiles) * kTile;
    const auto at = p.batch.at(static_cast<uint64_t>(rest));
    const T* src = reinterpret_cast<const T*>(p.batch.src) + at.src;
    T* dst = reinterpret_cast<T*>(p.batch.dst) + at.dst;
    for (int i = y; i < kTile; i += kBlock / 32) {
      for (int o = x; o < kTile; o += 32) {
        if (o0 + o < p.outer.size && i0 + i < p.inner.size)
          tile[i][o] = src[o0 + o + (i0 + i) * p.inner.src];
      }
    }
    __syncthreads();
    for (int o = y; o < kTile; o += kBlock / 32) {
      for (int i = x; i < kTile; i += 32) {
        if (o0 + o < p.outer.size && i0 + i < p.inner.size)
          dst[(o0 + o) * p.outer.dst + i0 + i] = tile[i][o];
      }
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock) fill_units(T* dst, int64_t count, T value) {
  for (int64_t i = first_item(); i < count; i += item_step()) dst[i] = value;
}

// ---- host side

// The axes that matter: outermost destination first, neighbours that step together merged.
struct Loops {
  CopyAxis axes[kMaxCopyAxes];
  int count = 0;

  explicit Loops(const StridedCopy& copy) {
    for (int i = 0; i < copy.count; ++i) {
      if (copy.axes[i].size == 1) continue;
      int at = count++;
      for (; at > 0 && copy.axes[i].dst > axes[at - 1].dst; --at) axes[at] = axes[at - 1];
      axes[at] = copy.axes[i];
    }
    int merged = 0;
    for (int i = 0; i < count; ++i) {
      const CopyAxis axis = axes[i];
      CopyAxis& last = axes[merged > 0 ? merged - 1 : 0];
      if (merged > 0 && last.src == axis.src * axis.size && last.dst == axis.dst * axis.size)
        last = {last.size * axis.size, axis.src, axis.dst};
      else
        axes[merged++] = axis;
    }
    count = merged;
    if (count == 0) axes[count++] = {1, 1, 1};
  }
  CopyAxis& inner() { return axes[count - 1]; }
  int64_t total() const {
    int64_t total = 1;
    for (int i = 0; i < count; ++i) total *= axes[i].size;
    return total;
  }
};

// The largest unit of at most 16 bytes that both sides can be moved in; the loops then count units.
int widen(Loops& loops, const StridedCopy& copy) {
  int width = copy.elem_bytes;
  CopyAxis& inner = loops.inner();
  if (inner.src != 1 || inner.dst != 1) return width;
  int factor = 1;
  const auto fits = [&](int64_t elems) { return elems % (factor * 2) == 0; };
  const auto aligned = [](const void* data, int bytes) {
    return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
  };
  while (width < 16) {
    bool all = fits(inner.size) && aligned(copy.src, width * 2) && aligned(copy.dst, width * 2);
    for (int i = 0; i + 1 < loops.count; ++i)
      all = all && fits(loops.axes[i].src) && fits(loops.axes[i].dst);
    if (!all) break;
    factor *= 2;
    width *= 2;
  }
  inner.size /= factor;
  for (int i = 0; i + 1 < loops.count; ++i) {
    loops.axes[i].src /= factor;
    loops.axes[i].dst /= factor;
  }
  return width;
}

template <class Index>
Walk<Index> walk_of(const StridedCopy& copy, const Loops& loops) {
  Walk<Index> walk;
  walk.src = copy.src;
  walk.dst = copy.dst;
  walk.total = static_cast<Index>(loops.total());
  walk.count = loops.count;
  for (int i = 0; i < loops.count; ++i) {
    walk.size[i] = Divider<Index>(loops.axes[i].size);
    walk.src_step[i] = loops.axes[i].src;
    walk.dst_step[i] = loops.axes[i].dst;
  }
  return walk;
}

// Takes the axis that is contiguous in the source out of the loops; false if tiles do not pay.
bool take_plane(Loops& loops, Planes& planes) {
  constexpr int64_t kWorthwhile = 8;
  planes.inner = loops.inner();
  if (planes.inner.dst != 1 || planes.inner.src == 1 || planes.inner.size < kWorthwhile)
    return false;
  for (int i = 0; i + 1 < loops.count; ++i) {
    if (loops.axes[i].src != 1 || loops.axes[i].size < kWorthwhile) continue;
    planes.outer = loops.axes[i];
    loops.count -= 2;
    for (; i < loops.count; ++i) loops.axes[i] = loops.axes[i + 1];
    if (loops.count == 0) loops.axes[loops.count++] = {1, 0, 0};
    return true;
  }
  return false;
}

template <class T>
void launch_copy(const StridedCopy& copy, const Loops& loops, cudaStream_t stream) {
  const int64_t total = loops.total();
  if (total < (int64_t{1} << 31)) {
    copy_units<T, uint32_t>
        <<<blocks_for(total), kBlock, 0, stream>>>(walk_of<uint32_t>(copy, loops));
  } else {
    copy_units<T, uint64_t>
        <<<blocks_for(total), kBlock, 0, stream>>>(walk_of<uint64_t>(copy, loops));
  }
}

}  // namespace

cudaError_t copy_strided(const StridedCopy& copy, cudaStream_t stream) {
  Loops loops(copy);
  if (loops.total() == 0) return cudaSuccess;
  if (copy.src_type != copy.dst_type) {
    convert_units<<<blocks_for(loops.total()), kBlock, 0, stream>>>(walk_of<uint64_t>(copy, loops),
                                                                    copy.src_type, copy.dst_type);
    return cudaGetLastError();
  }
  Planes planes;
  if (take_plane(loops, planes)) {
    planes.batch = walk_of<uint64_t>(copy, loops);
    const int tile = copy.elem_bytes <= 2 ? 64 : 32;
    const int64_t tiles = loops.total() * ((planes.outer.size + tile - 1) / tile) *
                          ((planes.inner.size + tile - 1) / tile);
    with_width(copy.elem_bytes, [&](auto unit) {
      transpose_planes<decltype(unit)><<<blocks_for(tiles, 1), kBlock, 0, stream>>>(planes);
    });
    return cudaGetLastError();
  }
  const int width = widen(loops, copy);
  if (width == 16)
    launch_copy<uint4>(copy, loops, stream);
  else
    with_width(width, [&](auto unit) { launch_copy<decltype(unit)>(copy, loops, stream); });
  return cudaGetLastError();
}

cudaError_t fill_elements(std::byte* dst, int64_t elems, uint64_t pattern, int elem_bytes,
                          cudaStream_t stream) {
  if (elems == 0) return cudaSuccess;
  with_width(elem_bytes, [&](auto unit) {
    using T = decltype(unit);
    fill_units<T><<<blocks_for(elems), kBlock, 0, stream>>>(reinterpret_cast<T*>(dst), elems,
                                                            static_cast<T>(pattern));
  });
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
