// WeightOnlyLinear for few rows; contract in weight_only.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/device/elementwise_math.cuh"
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/kernels/linear/weight_only.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarpThreads;
constexpr int kGroup = 8;  // rows of w that a lane takes at a time
constexpr unsigned kMaxRowBlocks = 65535;

// A byte as f32: 2^23 + byte, less 2^23.
__device__ inline float byte_as_float(uint32_t word, int byte) {
  constexpr uint32_t kTwo23 = 0x4b000000u;
  return __uint_as_float(__byte_perm(word, kTwo23, 0x7540 + byte)) - 8388608.0f;
}

// Numbers of a group less `zero`, as packed numbers have it.
template <int kBits>
__device__ void load_group(const std::byte* column, int group, float zero, float (&w)[kGroup]) {
  if constexpr (kBits == 8) {
    const uint2 words = reinterpret_cast<const uint2*>(column)[group];
    constexpr uint32_t kFlip = 0x80808080u;  // signed bytes as unsigned ones, 128 higher
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      w[i] = byte_as_float((i < 4 ? words.x : words.y) ^ kFlip, i % 4) - (zero + 128.0f);
  } else {
    const uint32_t word = reinterpret_cast<const uint32_t*>(column)[group];
    const uint32_t even = word & 0x0f0f0f0fu, odd = (word >> 4) & 0x0f0f0f0fu;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) w[i] = byte_as_float(i % 2 == 0 ? even : odd, i / 2) - zero;
  }
}

// Elements [8·group, 8·group + 8) of a row, zeros from `k` on.
template <class T>
__device__ void load_x(const T* row, int group, int k, bool aligned, float (&x)[kGroup]) {
  const int first = group * kGroup;
  if (aligned) {  // then k is a multiple of 8
    constexpr int kLoads = static_cast<int>(sizeof(T)) * kGroup / 16;
    __align__(16) T values[kGroup];
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      reinterpret_cast<uint4*>(values)[i] = reinterpret_cast<const uint4*>(row + first)[i];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) x[i] = to_f32(values[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) x[i] = first + i < k ? to_f32(row[first + i]) : 0.0f;
}

__device__ inline float zero_of(const WeightOnlyLaunch& p, int64_t at) {
  if (p.zeros == nullptr) return static_cast<float>(p.offset);
  const std::byte* zero = p.zeros + (p.one_zero ? 0 : at);
  const int number = p.unsigned_zeros ? *reinterpret_cast<const uint8_t*>(zero)
                                      : *reinterpret_cast<const int8_t*>(zero);
  return static_cast<float>(number + p.offset);
}

// kRows rows and kCols columns of a warp. Each result has its own sums, in one order.
template <class T, int kBits, int kRows, int kCols>
__global__ void __launch_bounds__(kThreads) weight_only_kernel(WeightOnlyLaunch p) {
  const int lane = threadIdx.x % kWarpThreads, warp = threadIdx.x / kWarpThreads;
  const int64_t col0 = (static_cast<int64_t>(blockIdx.x) * kWarps + warp) * kCols;
  const int64_t column_bytes = p.column_bytes;
  const int groups = (p.k + kGroup - 1) / kGroup;
  const T* x = reinterpret_cast<const T*>(p.x.data);
  const bool aligned = p.k % kGroup == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  wait_for_previous_kernel();
  allow_next_kernel();
  if (col0 >= p.n) return;
  for (int64_t row0 = static_cast<int64_t>(blockIdx.y) * kRows; row0 < p.m;
       row0 += static_cast<int64_t>(gridDim.y) * kRows) {
    float sums[kRows * kCols] = {};
    for (int group = lane; group < groups; group += kWarpThreads) {
      float values[kRows][kGroup];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row0 + r < p.m) {
          load_x(x + (row0 + r) * p.k, group, p.k, aligned, values[r]);
        } else {
#pragma unroll
          for (int i = 0; i < kGroup; ++i) values[r][i] = 0.0f;
        }
      }
      const int64_t block = p.block == 0 ? 0 : group * kGroup / p.block;
#pragma unroll
      for (int c = 0; c < kCols; ++c) {
        const int64_t col = col0 + c;
        if (col >= p.n) break;
        float w[kGroup];
        load_group<kBits>(p.w + col * column_bytes, group, zero_of(p, block * p.n + col), w);
        const float scale = p.scales[p.one_scale ? 0 : block * p.n + col];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float partial = 0.0f;
#pragma unroll
          for (int i = 0; i < kGroup; ++i) partial = fmaf(values[r][i], w[i], partial);
          sums[r * kCols + c] = fmaf(partial, scale, sums[r * kCols + c]);
        }
      }
    }
    sum_rows<kWarpThreads>(sums);
#pragma unroll
    for (int i = 0; i < kRows * kCols; ++i) {
      const int64_t row = row0 + i / kCols, col = col0 + i % kCols;
      if (i % kWarpThreads != lane || row >= p.m || col >= p.n) continue;
      float y = sums[i];
      if (p.bias.data != nullptr) y += load_f32(p.bias.type, p.bias.data, col);
      y = activated(p.activation, y);
      const int64_t at = row * p.n + col;
      if (p.residual.data != nullptr) y += load_f32(p.residual.type, p.residual.data, at);
      store_f32(p.y.type, p.y.data, at, y);
    }
  }
}

template <class T, int kBits>
cudaError_t launch(const WeightOnlyLaunch& p, cudaStream_t stream) {
  const auto run = [&](auto kernel, int rows, int cols) {
    const int64_t columns = static_cast<int64_t>(kWarps) * cols;
    const int64_t row_blocks = (p.m + rows - 1) / rows;
    const dim3 grid(static_cast<unsigned>((p.n + columns - 1) / columns),
                    static_cast<unsigned>(row_blocks < kMaxRowBlocks ? row_blocks : kMaxRowBlocks));
    return launch_overlapped(kernel, grid, dim3(kThreads), 0, stream, p);
  };
  if (p.m == 1) return run(&weight_only_kernel<T, kBits, 1, 1>, 1, 1);
  if (p.m <= 4) return run(&weight_only_kernel<T, kBits, 4, 1>, 4, 1);
  return run(&weight_only_kernel<T, kBits, 4, 4>, 4, 4);
}

template <class T>
cudaError_t launch(const WeightOnlyLaunch& p, cudaStream_t stream) {
  return p.bits == 4 ? launch<T, 4>(p, stream) : launch<T, 8>(p, stream);
}

}  // namespace

cudaError_t launch_weight_only(const WeightOnlyLaunch& call, cudaStream_t stream) {
  if (call.m == 0 || call.n == 0) return cudaSuccess;
  WeightOnlyLaunch p = call;
  p.column_bytes = weight_only_column_bytes(p.k, p.bits);
  if (p.x.type == DType::kF32) return launch<float>(p, stream);
  return p.x.type == DType::kF16 ? launch<__half>(p, stream) : launch<__nv_bfloat16>(p, stream);
}

}  // namespace vernier::backend::cuda
