// LayerNorm, one block of 256 threads per row; contract in layer_norm.h. C++17.
#include "backend/cuda/kernels/layer_norm.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kHeld = 32;  // elements a thread keeps in registers: 256 · 32 = 8192 columns

// Sum over the block, the same order for every row: butterfly in each warp, then warp 0 in order.
__device__ float block_sum(float value, float* shared) {
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(~0u, value, offset);
  __syncthreads();  // the previous sum has been read
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += shared[warp];
  return total;
}

// kInRegisters: the row is read once; else it is read again for each pass.
template <bool kInRegisters>
__global__ void __launch_bounds__(kThreads) layer_norm_kernel(LayerNormLaunch args) {
  __shared__ float shared[kWarps];
  const float* x = args.x + static_cast<int64_t>(blockIdx.x) * args.cols;  // (cols)
  float* y = args.y + static_cast<int64_t>(blockIdx.x) * args.cols;        // (cols)
  float held[kInRegisters ? kHeld : 1];

  float sum = 0;
  if constexpr (kInRegisters) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int c = i * kThreads + static_cast<int>(threadIdx.x);
      held[i] = c < args.cols ? x[c] : 0.0f;
      sum += held[i];
    }
  } else {
    for (int c = threadIdx.x; c < args.cols; c += kThreads) sum += x[c];
  }
  const float mean = block_sum(sum, shared) / static_cast<float>(args.cols);

  float squares = 0;
  if constexpr (kInRegisters) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const float d = held[i] - mean;
      if (i * kThreads + static_cast<int>(threadIdx.x) < args.cols) squares += d * d;
    }
  } else {
    for (int c = threadIdx.x; c < args.cols; c += kThreads)
      squares += (x[c] - mean) * (x[c] - mean);
  }
  const float variance = block_sum(squares, shared) / static_cast<float>(args.cols);
  const float inverse = 1.0f / sqrtf(variance + args.epsilon);

  const auto write = [&](int c, float value) {
    y[c] = (value - mean) * inverse * args.scale[c] + (args.bias ? args.bias[c] : 0.0f);
  };
  if constexpr (kInRegisters) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int c = i * kThreads + static_cast<int>(threadIdx.x);
      if (c < args.cols) write(c, held[i]);
    }
  } else {
    for (int c = threadIdx.x; c < args.cols; c += kThreads) write(c, x[c]);
  }
}

}  // namespace

cudaError_t launch_layer_norm(const LayerNormLaunch& args, cudaStream_t stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(args.rows);
  if (args.cols <= kThreads * kHeld) {
    layer_norm_kernel<true><<<blocks, kThreads, 0, stream>>>(args);
  } else {
    layer_norm_kernel<false><<<blocks, kThreads, 0, stream>>>(args);
  }
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
