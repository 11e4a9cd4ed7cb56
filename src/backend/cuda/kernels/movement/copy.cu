// Strided copies, fills; contract in copy.h. C++17.
#include "backend/cuda/device/divider.cuh"
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/kernels/movement/copy.h"

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

constexpr int kUnitsPerThread = 4;  // all read before the first is written

// Units T (an element, or up to 16 bytes of neighbors) in destination order.
template <class T, class Index>
__global__ void __launch_bounds__(kBlock) copy_units(const __grid_constant__ Walk<Index> walk) {
  const auto* src = reinterpret_cast<const T*>(walk.src);
  auto* dst = reinterpret_cast<T*>(walk.dst);
  allow_next_kernel();
  wait_for_previous_kernel();
  constexpr Index kPerBlock = Index{kBlock} * kUnitsPerThread;
  for (Index block = blockIdx.x * kPerBlock; block < walk.total; block += gridDim.x * kPerBlock) {
    const Index first = block + threadIdx.x;
    T units[kUnitsPerThread];
    int64_t to[kUnitsPerThread];
#pragma unroll
    for (int u = 0; u < kUnitsPerThread; ++u) {
      if (first + u * Index{kBlock} >= walk.total) continue;
      const auto at = walk.at(first + u * Index{kBlock});
      units[u] = src[at.src];
      to[u] = at.dst;
    }
#pragma unroll
    for (int u = 0; u < kUnitsPerThread; ++u) {
      if (first + u * Index{kBlock} < walk.total) dst[to[u]] = units[u];
    }
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
template <class Index>
struct Planes {
  Walk<Index> batch;
  CopyAxis outer, inner;
  Divider<Index> outer_tiles, inner_tiles;
  Index tiles;
};
template <class T>
constexpr int kTile = sizeof(T) <= 4 ? 64 : 32;

// Where tile `t` begins, in elements of T.
template <class T, class Index>
struct TilePlace {
  const T* src;
  T* dst;
  int outer, inner;  // sizes of the tile

  __device__ TilePlace(const Planes<Index>& p, Index t) {
    const Index row = p.outer_tiles(t), plane = p.inner_tiles(row);
    const auto o = static_cast<int64_t>(t - row * p.outer_tiles.divisor) * kTile<T>;
    const auto i = static_cast<int64_t>(row - plane * p.inner_tiles.divisor) * kTile<T>;
    const auto at = p.batch.at(plane);
    src = reinterpret_cast<const T*>(p.batch.src) + at.src + i * p.inner.src + o;
    dst = reinterpret_cast<T*>(p.batch.dst) + at.dst + o * p.outer.dst + i;
    outer = static_cast<int>(p.outer.size - o < kTile<T> ? p.outer.size - o : kTile<T>);
    inner = static_cast<int>(p.inner.size - i < kTile<T> ? p.inner.size - i : kTile<T>);
  }
  __device__ bool is_whole() const { return outer == kTile<T> && inner == kTile<T>; }
};

// Tiles of (inner, outer) of the source, written as (outer, inner). The padding of a tile's rows is
// one 4-byte bank.
template <class T, class Index>
__global__ void __launch_bounds__(kBlock)
    transpose_planes(const __grid_constant__ Planes<Index> p) {
  constexpr int kSide = kTile<T>, kPad = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  constexpr int kEach = kSide * kSide / kBlock, kRows = kBlock / kSide;
  __shared__ T tile[kSide][kSide + kPad];
  const int x = threadIdx.x % kSide, y = threadIdx.x / kSide;
  allow_next_kernel();
  wait_for_previous_kernel();
  for (Index t = blockIdx.x; t < p.tiles; t += gridDim.x) {
    const TilePlace<T, Index> at(p, t);
    const bool is_whole = at.is_whole();
    T held[kEach];
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const int i = y + n * kRows;
      if (is_whole || (x < at.outer && i < at.inner)) held[n] = at.src[x + i * p.inner.src];
    }
#pragma unroll
    for (int n = 0; n < kEach; ++n) tile[y + n * kRows][x] = held[n];
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const int o = y + n * kRows;
      if (is_whole || (x < at.inner && o < at.outer)) at.dst[o * p.outer.dst + x] = tile[x][o];
    }
    __syncthreads();
  }
}

// The same of 2-byte elements, two at a time: all sizes, strides and addresses are even.
template <class Index>
__global__ void __launch_bounds__(kBlock) transpose_pairs(const __grid_constant__ Planes<Index> p) {
  constexpr int kSide = kTile<uint16_t>, kPairs = kSide / 2, kRows = kBlock / kPairs;
  __shared__ uint32_t tile[kSide][kPairs + 1];
  const int x = threadIdx.x % kPairs, y = threadIdx.x / kPairs;
  allow_next_kernel();
  wait_for_previous_kernel();
  for (Index t = blockIdx.x; t < p.tiles; t += gridDim.x) {
    const TilePlace<uint16_t, Index> at(p, t);
    const bool is_whole = at.is_whole();
    uint32_t held[kSide / kRows];
#pragma unroll
    for (int n = 0; n < kSide / kRows; ++n) {
      const int i = y + n * kRows;
      if (is_whole || (2 * x < at.outer && i < at.inner))
        held[n] = *reinterpret_cast<const uint32_t*>(at.src + 2 * x + i * p.inner.src);
    }
#pragma unroll
    for (int n = 0; n < kSide / kRows; ++n) tile[y + n * kRows][x] = held[n];
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kPairs / kRows; ++n) {
      const int o = 2 * (y + n * kRows);
      if (!is_whole && (2 * x >= at.inner || o >= at.outer)) continue;
      const uint32_t first = tile[2 * x][o / 2], second = tile[2 * x + 1][o / 2];
      uint16_t* const dst = at.dst + o * p.outer.dst + 2 * x;
      *reinterpret_cast<uint32_t*>(dst) = __byte_perm(first, second, 0x5410);
      *reinterpret_cast<uint32_t*>(dst + p.outer.dst) = __byte_perm(first, second, 0x7632);
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock) fill_units(T* dst, int64_t count, T value) {
  for (int64_t i = first_item(); i < count; i += item_step()) dst[i] = value;
}

// ---- host side

// The axes that matter: outermost destination first, neighbors that step together merged.
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

// The axes of planes, taken out of the loops; false if tiles do not pay.
struct PlaneAxes {
  CopyAxis outer, inner;
};
bool take_plane(Loops& loops, PlaneAxes& plane) {
  constexpr int64_t kWorthwhile = 8;
  plane.inner = loops.inner();
  if (plane.inner.dst != 1 || plane.inner.src == 1 || plane.inner.size < kWorthwhile) return false;
  for (int i = 0; i + 1 < loops.count; ++i) {
    if (loops.axes[i].src != 1 || loops.axes[i].size < kWorthwhile) continue;
    plane.outer = loops.axes[i];
    loops.count -= 2;
    for (; i < loops.count; ++i) loops.axes[i] = loops.axes[i + 1];
    if (loops.count == 0) loops.axes[loops.count++] = {1, 0, 0};
    return true;
  }
  return false;
}
bool is_even(const StridedCopy& copy, const Loops& loops, const PlaneAxes& plane) {
  int64_t all = plane.outer.size | plane.outer.dst | plane.inner.size | plane.inner.src;
  for (int i = 0; i < loops.count; ++i) all |= loops.axes[i].src | loops.axes[i].dst;
  const auto address =
      reinterpret_cast<uintptr_t>(copy.src) | reinterpret_cast<uintptr_t>(copy.dst);
  return all % 2 == 0 && address % 4 == 0;
}

template <class Argument>
cudaError_t launch(void (*kernel)(Argument), int64_t blocks, const Argument& argument,
                   cudaStream_t stream) {
  return launch_overlapped(kernel, dim3(blocks_for(blocks, 1)), dim3(kBlock), 0, stream, argument);
}

template <class T, class Index>
cudaError_t launch_planes(const StridedCopy& copy, const Loops& loops, const PlaneAxes& plane,
                          cudaStream_t stream) {
  const int64_t outer = (plane.outer.size + kTile<T> - 1) / kTile<T>;
  const int64_t inner = (plane.inner.size + kTile<T> - 1) / kTile<T>;
  const int64_t tiles = loops.total() * outer * inner;
  const Planes<Index> planes{
      walk_of<Index>(copy, loops), plane.outer,           plane.inner,
      Divider<Index>(outer),       Divider<Index>(inner), static_cast<Index>(tiles)};
  if constexpr (sizeof(T) == 2) {
    if (is_even(copy, loops, plane)) return launch(&transpose_pairs<Index>, tiles, planes, stream);
  }
  return launch(&transpose_planes<T, Index>, tiles, planes, stream);
}

template <class T, class Index>
cudaError_t launch_copy(const StridedCopy& copy, const Loops& loops, cudaStream_t stream) {
  const int64_t blocks = blocks_for(loops.total(), kBlock * kUnitsPerThread);
  return launch(&copy_units<T, Index>, blocks, walk_of<Index>(copy, loops), stream);
}

}  // namespace

cudaError_t copy_strided(const StridedCopy& copy, cudaStream_t stream) {
  Loops loops(copy);
  const int64_t total = loops.total();
  if (total == 0) return cudaSuccess;
  const bool is_small = total < int64_t{1} << 31;
  if (copy.src_type != copy.dst_type) {
    convert_units<<<blocks_for(total), kBlock, 0, stream>>>(walk_of<uint64_t>(copy, loops),
                                                            copy.src_type, copy.dst_type);
    return cudaGetLastError();
  }
  cudaError_t status = cudaSuccess;
  PlaneAxes plane;
  if (take_plane(loops, plane)) {
    with_width(copy.elem_bytes, [&](auto unit) {
      using T = decltype(unit);
      status = is_small ? launch_planes<T, uint32_t>(copy, loops, plane, stream)
                        : launch_planes<T, uint64_t>(copy, loops, plane, stream);
    });
    return status;
  }
  const int width = widen(loops, copy);
  const auto run = [&](auto unit) {
    using T = decltype(unit);
    status = is_small ? launch_copy<T, uint32_t>(copy, loops, stream)
                      : launch_copy<T, uint64_t>(copy, loops, stream);
  };
  if (width == 16)
    run(uint4{});
  else
    with_width(width, run);
  return status;
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
