// Sums, largest and best values over the threads that work on one row together, in an order that
// depends on their number only. C++17.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vernier::backend::cuda {

constexpr int kWarpThreads = 32;

/// `value` of the thread whose number differs in the bits of `offset`.
template <class V>
__device__ V shuffled(V value, int offset) {
  return __shfl_xor_sync(~0u, value, offset);
}

/// `value` combined over the kThreads threads of a row; every thread gets the result. A butterfly
/// in each warp, then the warps in order. Up to a warp (of which the row has an aligned part): no
/// barrier. Else the block is the row's, and `shared` holds a value per warp.
template <int kThreads, class V, class Combine>
__device__ V combine_row(V value, V* shared, const Combine& combine) {
  constexpr int kPart = kThreads < kWarpThreads ? kThreads : kWarpThreads;
#pragma unroll
  for (int offset = kPart / 2; offset > 0; offset >>= 1)
    value = combine(value, shuffled(value, offset));
  if constexpr (kThreads > kWarpThreads) {
    __syncthreads();  // the previous result has been read
    if (threadIdx.x % kWarpThreads == 0) shared[threadIdx.x / kWarpThreads] = value;
    __syncthreads();
    value = shared[0];
#pragma unroll 8
    for (int warp = 1; warp < kThreads / kWarpThreads; ++warp) value = combine(value, shared[warp]);
  }
  return value;
}

template <int kThreads>
__device__ float sum_row(float value, float* shared) {
  return combine_row<kThreads>(value, shared, [](float a, float b) { return a + b; });
}
/// sum_row() of several values for rows of up to a warp, side by side: one waits while the lanes of
/// another answer.
template <int kThreads, int kCount>
__device__ void sum_rows(float (&values)[kCount]) {
#pragma unroll
  for (int offset = kThreads / 2; offset > 0; offset >>= 1) {
#pragma unroll
    for (float& value : values) value += __shfl_xor_sync(~0u, value, offset);
  }
}
/// The same, neighbors first.
template <int kThreads, int kCount>
__device__ void sum_rows_upwards(float (&values)[kCount]) {
#pragma unroll
  for (int offset = 1; offset < kThreads; offset *= 2) {
#pragma unroll
    for (float& value : values) value += __shfl_xor_sync(~0u, value, offset);
  }
}
/// NaN may get lost.
template <int kThreads>
__device__ float max_row(float value, float* shared) {
  return combine_row<kThreads>(value, shared, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace vernier::backend::cuda
