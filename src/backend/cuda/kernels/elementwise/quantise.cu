// QuantizeLinear, DequantizeLinear, NegativeLogLikelihoodLoss; contract in quantise.h. C++17.
#include <cuda_fp8.h>

#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/elementwise/quantise.h"

namespace vernier::backend::cuda {
namespace {

__device__ bool is_f8(DType type) { return type == DType::kF8E4M3 || type == DType::kF8E5M2; }

// Element `i` of an array of any type as double.
__device__ double value_at(const Array& a, int64_t i) {
  if (is_f8(a.dtype)) {
    const auto kind = a.dtype == DType::kF8E4M3 ? __NV_E4M3 : __NV_E5M2;
    const auto bits = reinterpret_cast<const __nv_fp8_storage_t*>(a.data)[i];
    return static_cast<double>(__half2float(__half(__nv_cvt_fp8_to_halfraw(bits, kind))));
  }
  if (a.dtype <= DType::kBF16) return load_f64(a.dtype, a.data, i);
  const int64_t value = load_integer(a.dtype, a.data, i);
  return a.dtype == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(value))
                                : static_cast<double>(value);
}

__device__ int64_t scale_of(const QuantiseLaunch& args, int64_t i) {
  if (args.one_scale) return 0;
  int64_t outer = i;
  const int64_t within = take_axis(outer, args.inner), along = take_axis(outer, args.size);
  if (args.block == 0) return along;
  return (outer * args.blocks + along / args.block) * args.inner + within;
}
__device__ double zero_of(const QuantiseLaunch& args, int64_t s) {
  return args.zero.data == nullptr ? 0 : value_at(args.zero, args.one_zero ? 0 : s);
}

__device__ void store_f8(const QuantiseLaunch& args, int64_t i, double v) {
  const bool e4m3 = args.y.dtype == DType::kF8E4M3;
  const double limit = e4m3 ? 448 : 57344;
  if (args.saturate && !isnan(v)) v = v < -limit ? -limit : v > limit ? limit : v;
  reinterpret_cast<__nv_fp8_storage_t*>(args.y.data)[i] =
      __nv_cvt_double_to_fp8(v, __NV_NOSAT, e4m3 ? __NV_E4M3 : __NV_E5M2);
}

__global__ void __launch_bounds__(kBlock)
    quantise_kernel(const __grid_constant__ QuantiseLaunch args, int64_t total) {
  for (int64_t i = first_item(); i < total; i += item_step()) {
    const int64_t s = scale_of(args, i);
    double quotient = value_at(args.x, i) / value_at(args.scale, s);
    if (args.scale.dtype != DType::kF64)
      quotient = static_cast<double>(static_cast<float>(quotient));
    const double zero = zero_of(args, s);
    if (is_f8(args.y.dtype)) {
      store_f8(args, i, quotient + zero);
      continue;
    }
    const double v = (isnan(quotient) ? 0.0 : nearbyint(quotient)) + zero;
    const int64_t whole = v <= static_cast<double>(args.lowest)    ? args.lowest
                          : v >= static_cast<double>(args.highest) ? args.highest
                                                                   : static_cast<int64_t>(v);
    store_integer(args.y.dtype, args.y.data, i, whole);
  }
}

__global__ void __launch_bounds__(kBlock)
    dequantise_kernel(const __grid_constant__ QuantiseLaunch args, int64_t total) {
  for (int64_t i = first_item(); i < total; i += item_step()) {
    const int64_t s = scale_of(args, i);
    store_f64(args.y.dtype, args.y.data, i,
              (value_at(args.x, i) - zero_of(args, s)) * value_at(args.scale, s));
  }
}

struct Loss {
  float loss, weight;
};
__device__ Loss loss_of(const LossLaunch& args, int64_t i) {
  const int64_t target = load_integer(args.targets.dtype, args.targets.data, i);
  if (args.ignores && target == args.ignore_index) return {0, 0};
  if (target < 0 || target >= args.classes) return {NAN, 1};
  int64_t outer = i;
  const int64_t within = take_axis(outer, args.inner);
  const float weight =
      args.weights.data == nullptr ? 1.0f : load_f32(args.weights.dtype, args.weights.data, target);
  const int64_t at = (outer * args.classes + target) * args.inner + within;
  return {-weight * load_f32(args.x.dtype, args.x.data, at), weight};
}

__global__ void __launch_bounds__(kBlock)
    losses_kernel(const __grid_constant__ LossLaunch args, int64_t total) {
  for (int64_t i = first_item(); i < total; i += item_step())
    store_f32(args.y.dtype, args.y.data, i, loss_of(args, i).loss);
}

// One block: each thread's losses in order, then a tree over the threads.
__global__ void __launch_bounds__(kBlock)
    loss_sum_kernel(const __grid_constant__ LossLaunch args, int64_t total) {
  __shared__ Loss sums[kBlock];
  Loss own{0, 0};
  for (int64_t i = threadIdx.x; i < total; i += kBlock) {
    const Loss one = loss_of(args, i);
    own.loss += one.loss;
    own.weight += one.weight;
  }
  sums[threadIdx.x] = own;
  for (int half = kBlock / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      sums[threadIdx.x].loss += sums[threadIdx.x + half].loss;
      sums[threadIdx.x].weight += sums[threadIdx.x + half].weight;
    }
  }
  if (threadIdx.x == 0) {
    const float result = args.mean ? sums[0].loss / sums[0].weight : sums[0].loss;
    store_f32(args.y.dtype, args.y.data, 0, result);
  }
}

}  // namespace

cudaError_t quantise(const QuantiseLaunch& args, cudaStream_t stream) {
  const int64_t total = elems_of(args.x);
  if (total == 0) return cudaSuccess;
  quantise_kernel<<<blocks_for(total), kBlock, 0, stream>>>(args, total);
  return cudaGetLastError();
}

cudaError_t dequantise(const QuantiseLaunch& args, cudaStream_t stream) {
  const int64_t total = elems_of(args.x);
  if (total == 0) return cudaSuccess;
  dequantise_kernel<<<blocks_for(total), kBlock, 0, stream>>>(args, total);
  return cudaGetLastError();
}

cudaError_t negative_log_likelihood(const LossLaunch& args, cudaStream_t stream) {
  const int64_t total = elems_of(args.targets);
  if (args.sums || args.mean)
    loss_sum_kernel<<<1, kBlock, 0, stream>>>(args, total);
  else if (total > 0)
    losses_kernel<<<blocks_for(total), kBlock, 0, stream>>>(args, total);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
