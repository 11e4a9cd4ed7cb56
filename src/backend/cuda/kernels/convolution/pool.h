// Pools. Host-side entry of pool.cu in plain types.
#pragma once
#include "backend/cuda/kernels/convolution/windows.h"

namespace vernier::backend::cuda {

struct PoolLaunch {
  const std::byte* x;
  std::byte* y;
  DType x_type, y_type;
  int64_t planes;  // batch · channels
  Windows windows;
  bool average, count_include_pad;
  int64_t lowest;  // of an integer type: the result of a window without elements
};
/// y[plane, p] = the largest (average) of x[plane, window p]. Padding is left out; with
/// count_include_pad it counts as zeros, but what a window reaches beyond it never counts. NaN wins
/// in the largest. f32, f16 and bf16 in any mix (sums in f32 in window order, rounded once), the
/// largest also of integers of one type. One thread per element of y.
cudaError_t pool_windows(const PoolLaunch& pool, cudaStream_t stream);

struct PlaneLaunch {
  const std::byte* x;
  std::byte* y;
  DType x_type, y_type;
  int64_t planes, elems;
  bool average;
};
/// y[plane] = the largest (average) of x[plane, 0 … elems). One warp per plane; its lanes' sums are
/// added in an order that depends on elems only. Averages in f32. f32, f16 and bf16 in any mix.
cudaError_t pool_planes(const PlaneLaunch& pool, cudaStream_t stream);

}  // namespace vernier::backend::cuda
