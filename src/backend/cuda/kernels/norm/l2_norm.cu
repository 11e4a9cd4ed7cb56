// L2Norm: 8 threads per row of up to 256 columns, a warp up to 1024, a block per longer row; where
// there is f64, a warp per row. Contract in l2_norm.h. C++17.
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/device/scalars.cuh"
#include "backend/cuda/kernels/norm/l2_norm.h"

namespace vernier::backend::cuda {
namespace {

template <int kThreads>
__device__ double divisor_of_row(double squares, double minimum, double* shared) {
  squares = combine_row<kThreads>(squares, shared, [](double a, double b) { return a + b; });
  const double norm = sqrt(squares);
  return norm < minimum ? minimum : norm;  // NaN stays
}

template <class T, int kThreads, bool kInRegisters>
__global__ void __launch_bounds__(RowThreads<T, kThreads>::kBlock)
    l2_norm_kernel(const __grid_constant__ L2NormLaunch args) {
  using R = RowThreads<T, kThreads>;
  constexpr int kN = R::kN;
  __shared__ double shared[R::kBlock / kWarpThreads];
  allow_next_kernel();
  wait_for_previous_kernel();
  const FloatArray from{args.x.data, args.x.type}, to{args.y.data, args.y.type};
  const int64_t row = R::row(args.rows), at = offset_of(args.x_rows, row);
  const int cols = static_cast<int>(args.cols);
  float x[kInRegisters ? R::kVectors : 1][kN];
  if constexpr (kInRegisters) R::read_all(from, at, cols, args.is_aligned, 0, x);
  const auto each = [&](const auto& body) {
    const auto read = [&](int c, float(&v)[kN]) {
      R::read(from, at, c, cols, args.is_aligned, 0, v);
    };
    for_each_vector<kInRegisters, R>(cols, x, read, body);
  };
  double squares = 0;
  each([&](const float(&v)[kN], int) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {  // past the end: 0
      const auto element = static_cast<double>(v[i]);
      squares += element * element;
    }
  });
  const auto divisor = static_cast<float>(divisor_of_row<kThreads>(squares, args.minimum, shared));
  each([&](float(&v)[kN], int c) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] /= divisor;
    R::write(to, row * args.cols, c, cols, args.is_aligned, v);
  });
}

__global__ void __launch_bounds__(kSmallBlock)
    wide_l2_norm_kernel(const __grid_constant__ L2NormLaunch args) {
  using R = RowThreads<AnyFloat, kWarpThreads>;
  allow_next_kernel();
  wait_for_previous_kernel();
  const int64_t row = R::row(args.rows), from = offset_of(args.x_rows, row);
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  double squares = 0;
  for (int64_t c = lane; c < args.cols; c += kWarpThreads) {
    const double x = load_double(args.x, from + c);
    squares += x * x;
  }
  const double divisor = divisor_of_row<kWarpThreads>(squares, args.minimum, nullptr);
  for (int64_t c = lane; c < args.cols; c += kWarpThreads)
    store_double(args.y, row * args.cols + c, load_double(args.x, from + c) / divisor);
}

}  // namespace

cudaError_t launch_l2_norm(const L2NormLaunch& args, cudaStream_t stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  if (args.x.type == DType::kF64 || args.y.type == DType::kF64) {
    using R = RowThreads<AnyFloat, kWarpThreads>;
    return launch_overlapped(&wide_l2_norm_kernel, dim3(R::blocks(args.rows)), dim3(R::kBlock), 0,
                             stream, args);
  }
  cudaError_t status = cudaSuccess;
  with_float_type(args.type, [&](auto element) {
    with_row_size(args.cols, [&](auto threads, auto in_registers) {
      using R = RowThreads<decltype(element), threads.value>;
      status =
          launch_overlapped(&l2_norm_kernel<decltype(element), threads.value, in_registers.value>,
                            dim3(R::blocks(args.rows)), dim3(R::kBlock), 0, stream, args);
    });
  });
  return status;
}

}  // namespace vernier::backend::cuda
