// Linear with a few columns (the head of a classifier): one block per row. Contract in
// linear_plain.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/device/elementwise_math.cuh"
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/kernels/linear/linear_plain.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 128;

template <class T, int kCols>
__global__ void __launch_bounds__(kThreads) linear_narrow_kernel(LinearPlain p) {
  __shared__ float parts[kThreads / kWarpThreads];
  const int64_t row = blockIdx.x;
  const T* x = reinterpret_cast<const T*>(p.x.data) + row * p.k;
  const T* w = reinterpret_cast<const T*>(p.w.data);
  const int64_t along_k = p.trans_w ? 1 : kCols, along_n = p.trans_w ? p.k : 1;
  wait_for_previous_kernel();
  float sums[kCols] = {};
#pragma unroll 4
  for (int k = static_cast<int>(threadIdx.x); k < p.k; k += kThreads) {
    const float value = static_cast<float>(x[k]);
#pragma unroll
    for (int n = 0; n < kCols; ++n)
      sums[n] = fmaf(value, static_cast<float>(w[k * along_k + n * along_n]), sums[n]);
  }
  allow_next_kernel();
#pragma unroll
  for (int n = 0; n < kCols; ++n) {
    float y = sum_row<kThreads>(sums[n], parts);
    if (threadIdx.x != 0) continue;
    if (p.bias.data != nullptr) y += load_f32(p.bias.type, p.bias.data, n);
    y = activated(p.activation, y);
    const int64_t at = row * kCols + n;
    if (p.residual.data != nullptr) y += load_f32(p.residual.type, p.residual.data, at);
    store_f32(p.y.type, p.y.data, at, y);
  }
}

template <class T>
void (*kernel_for(int64_t cols))(LinearPlain) {
  switch (cols) {
    case 1:
      return &linear_narrow_kernel<T, 1>;
    case 2:
      return &linear_narrow_kernel<T, 2>;
    case 3:
      return &linear_narrow_kernel<T, 3>;
    case 4:
      return &linear_narrow_kernel<T, 4>;
    case 5:
      return &linear_narrow_kernel<T, 5>;
    case 6:
      return &linear_narrow_kernel<T, 6>;
    case 7:
      return &linear_narrow_kernel<T, 7>;
    default:
      return nullptr;
  }
}

}  // namespace

cudaError_t launch_linear_narrow(const LinearPlain& p, cudaStream_t stream) {
  if (p.m == 0 || p.n == 0) return cudaSuccess;
  void (*kernel)(LinearPlain) = p.x.type == DType::kF32   ? kernel_for<float>(p.n)
                                : p.x.type == DType::kF16 ? kernel_for<__half>(p.n)
                                                          : kernel_for<__nv_bfloat16>(p.n);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  return launch_overlapped(kernel, dim3(static_cast<unsigned>(p.m)), dim3(kThreads), 0, stream, p);
}

}  // namespace vernier::backend::cuda
