// Pools; contract in pool.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/convolution/pool.h"

namespace vernier::backend::cuda {
namespace {

__device__ float larger(float best, float x) { return x > best || x != x ? x : best; }

// Taps of one axis that lie inside: positions first + t·dilation for t in [begin, end).
struct Taps {
  int first, begin, end;
  int with_padding;  // taps inside the input or its declared padding
};
__device__ Taps taps_of(const Windows& w, int axis, int at) {
  Taps t{at * w.stride[axis] - w.pad[axis], 0, 0, 0};
  for (int k = 0; k < w.kernel[axis]; ++k) {
    const int position = t.first + k * w.dilation[axis];
    if (position < w.in[axis] + w.pad_end[axis]) ++t.with_padding;
    if (position < 0) ++t.begin;
    if (position < w.in[axis]) t.end = k + 1;
  }
  return t;
}

// visit(offset in the plane) for every element under the window, in order.
template <class Visit>
__device__ void for_each_tap(const Windows& w, const Taps* taps, const Visit& visit) {
  for (int i = taps[0].begin; i < taps[0].end; ++i) {
    const int p0 = taps[0].first + i * w.dilation[0];
    for (int j = taps[1].begin; j < taps[1].end; ++j) {
      const int64_t row = int64_t{p0} * w.in[1] + taps[1].first + j * w.dilation[1];
      for (int k = taps[2].begin; k < taps[2].end; ++k)
        visit(row * w.in[2] + taps[2].first + k * w.dilation[2]);
    }
  }
}

template <bool kIntegers>
__global__ void __launch_bounds__(kBlock)
    windows_kernel(const __grid_constant__ PoolLaunch pool, int64_t total, int64_t in_plane) {
  const Windows& w = pool.windows;
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t plane = i;
    Taps taps[kSpatial];
    for (int axis = kSpatial - 1; axis >= 0; --axis)
      taps[axis] = taps_of(w, axis, static_cast<int>(take_axis(plane, w.out[axis])));
    const int64_t base = plane * in_plane;
    if (kIntegers) {
      int64_t best = pool.lowest;
      for_each_tap(w, taps, [&](int64_t at) {
        const int64_t x = load_integer(pool.x_type, pool.x, base + at);
        const bool wins = pool.x_type == DType::kU64
                              ? static_cast<uint64_t>(x) > static_cast<uint64_t>(best)
                              : x > best;
        if (wins) best = x;
      });
      store_integer(pool.y_type, pool.y, i, best);
      continue;
    }
    float result = pool.average ? 0.0f : -INFINITY;
    int count = 0;
    for_each_tap(w, taps, [&](int64_t at) {
      const float x = load_f32(pool.x_type, pool.x, base + at);
      result = pool.average ? result + x : larger(result, x);
      ++count;
    });
    if (pool.count_include_pad)
      count = taps[0].with_padding * taps[1].with_padding * taps[2].with_padding;
    if (pool.average) result /= static_cast<float>(count);
    store_f32(pool.y_type, pool.y, i, result);
  }
}

__global__ void __launch_bounds__(kBlock) planes_kernel(const __grid_constant__ PlaneLaunch pool) {
  constexpr int kWarps = kBlock / 32;
  const int lane = threadIdx.x % 32;
  for (int64_t plane = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       plane < pool.planes; plane += static_cast<int64_t>(gridDim.x) * kWarps) {
    float result = pool.average ? 0.0f : -INFINITY;
    for (int64_t i = lane; i < pool.elems; i += 32) {
      const float x = load_f32(pool.x_type, pool.x, plane * pool.elems + i);
      result = pool.average ? result + x : larger(result, x);
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
      const float other = __shfl_xor_sync(~0u, result, offset);
      result = pool.average ? result + other : larger(result, other);
    }
    if (pool.average) result /= static_cast<float>(pool.elems);
    if (lane == 0) store_f32(pool.y_type, pool.y, plane, result);
  }
}

}  // namespace

cudaError_t pool_windows(const PoolLaunch& pool, cudaStream_t stream) {
  const int64_t total = pool.planes * pool.windows.out_plane();
  if (total == 0) return cudaSuccess;
  const int64_t in_plane = pool.windows.in_plane();
  if (pool.x_type <= DType::kBF16)
    windows_kernel<false><<<blocks_for(total), kBlock, 0, stream>>>(pool, total, in_plane);
  else
    windows_kernel<true><<<blocks_for(total), kBlock, 0, stream>>>(pool, total, in_plane);
  return cudaGetLastError();
}

cudaError_t pool_planes(const PlaneLaunch& pool, cudaStream_t stream) {
  if (pool.planes == 0) return cudaSuccess;
  planes_kernel<<<blocks_for(pool.planes, kBlock / 32), kBlock, 0, stream>>>(pool);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
