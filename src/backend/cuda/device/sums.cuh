// Sums, largest and best values over the threads that work on one row together, in an order that
// depends on their number only. C++17.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vernier::backend::cuda {

constexpr int kWarpThreads = 32;

/// `value` combined over the kWarps warps of a row; every thread gets the result. A butterfly in
/// each warp, then the warps in order. One warp: no barrier. Else the block is the row's, and
/// `shared` holds kWarps values.
template <int kWarps, class V, class Combine>
__device__ V combine_row(V value, V* shared, const Combine& combine) {
#pragma unroll
  for (int offset = kWarpThreads / 2; offset > 0; offset >>= 1)
    value = combine(value, __shfl_xor_sync(~0u, value, offset));
  if constexpr (kWarps > 1) {
    __syncthreads();  // the previous result has been read
    if (threadIdx.x % kWarpThreads == 0) shared[threadIdx.x / kWarpThreads] = value;
    __syncthreads();
    value = shared[0];
#pragma unroll 8
    for (int warp = 1; warp < kWarps; ++warp) value = combine(value, shared[warp]);
  }
  return value;
}

template <int kWarps>
__device__ float sum_row(float value, float* shared) {
  return combine_row<kWarps>(value, shared, [](float a, float b) { return a + b; });
}
/// NaN wins.
template <int kWarps>
__device__ float max_row(float value, float* shared) {
  return combine_row<kWarps>(value, shared, [](float a, float b) { return a > b || a != a ? a : b; });
}

}  // namespace vernier::backend::cuda
