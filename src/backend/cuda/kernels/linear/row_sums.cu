// Sums of rows of i8, a warp each. Contract in row_sums.h. C++17.
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/kernels/linear/row_sums.h"

namespace vernier::backend::cuda {
namespace {

struct RowSumsLaunch {
  const int8_t* x;
  int32_t* sums;
  int64_t rows, cols;
  bool in_vectors;  // of 16
};

constexpr int kWarpsOfBlock = 8;

__global__ void __launch_bounds__(kWarpsOfBlock* kWarpThreads)
    row_sums_kernel(const __grid_constant__ RowSumsLaunch args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarpsOfBlock +
                      static_cast<int>(threadIdx.x) / kWarpThreads;
  allow_next_kernel();
  wait_for_previous_kernel();
  if (row >= args.rows) return;
  const int8_t* x = args.x + row * args.cols;
  int sum = 0;
  if (args.in_vectors) {
    const auto* vectors = reinterpret_cast<const int4*>(x);
    for (int64_t i = lane; i < args.cols / 16; i += kWarpThreads) {
      const int4 v = vectors[i];
      constexpr int kOnes = 0x01010101;
      sum = __dp4a(v.x, kOnes, __dp4a(v.y, kOnes, __dp4a(v.z, kOnes, __dp4a(v.w, kOnes, sum))));
    }
  } else {
    for (int64_t i = lane; i < args.cols; i += kWarpThreads) sum += x[i];
  }
  sum = combine_row<kWarpThreads>(sum, static_cast<int*>(nullptr),
                                  [](int a, int b) { return a + b; });
  if (lane == 0) args.sums[row] = sum;
}

}  // namespace

cudaError_t launch_row_sums(const int8_t* x, int64_t rows, int64_t cols, int32_t* sums,
                            cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  const bool in_vectors = cols % 16 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  return launch_overlapped(&row_sums_kernel,
                           dim3(static_cast<unsigned>((rows + kWarpsOfBlock - 1) / kWarpsOfBlock)),
                           dim3(kWarpsOfBlock * kWarpThreads), 0, stream,
                           RowSumsLaunch{x, sums, rows, cols, in_vectors});
}

}  // namespace vernier::backend::cuda
