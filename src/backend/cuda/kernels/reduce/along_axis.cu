// ArgMax, ArgMin, CumSum, MaskedMean and BatchNormalization. Contracts in reduce.h. C++17.
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/device/scalars.cuh"
#include "backend/cuda/kernels/reduce/reduce.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSlices = 8;  // parts of a sequence that are summed beside each other

// ---- ArgMax, ArgMin: one warp per line

template <class A>
__device__ A load_as(const AnyArray& array, int64_t at) {
  if constexpr (std::is_same_v<A, int64_t>) {
    return load_int64(array, at);
  } else {
    return load_double(array, at);
  }
}
__device__ inline bool is_less(DType, double a, double b) { return a < b; }
__device__ inline bool is_less(DType t, int64_t a, int64_t b) { return less(t, a, b); }

template <class A>
struct Best {
  A value;
  int64_t at;  // −1: none yet
};
template <class A>
__device__ Best<A> better(const ArgReduceLaunch& args, const Best<A>& a, const Best<A>& b) {
  if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  bool a_wins = false, b_wins = false;
  if (a_nan || b_nan) {
    a_wins = !b_nan;
    b_wins = !a_nan;
  } else {
    a_wins = is_less(args.x.type, args.is_max ? b.value : a.value, args.is_max ? a.value : b.value);
    b_wins = is_less(args.x.type, args.is_max ? a.value : b.value, args.is_max ? b.value : a.value);
  }
  if (a_wins != b_wins) return a_wins ? a : b;
  return (a.at < b.at) != args.last ? a : b;
}

template <class A>
__global__ void __launch_bounds__(kThreads)
    arg_reduce_kernel(const __grid_constant__ ArgReduceLaunch args) {
  const int lane = threadIdx.x % kWarpThreads;
  const int64_t line =
      static_cast<int64_t>(blockIdx.x) * (kThreads / kWarpThreads) + threadIdx.x / kWarpThreads;
  if (line >= args.count) return;
  const int64_t from = offset_of(args.lines, line);
  Best<A> best{A(0), -1};
  for (int64_t i = lane; i < args.size; i += kWarpThreads)
    best = better(args, best, Best<A>{load_as<A>(args.x, from + i * args.step), i});
#pragma unroll
  for (int offset = kWarpThreads / 2; offset > 0; offset >>= 1) {
    const Best<A> other{__shfl_xor_sync(~0u, best.value, offset),
                        __shfl_xor_sync(~0u, best.at, offset)};
    best = better(args, best, other);
  }
  if (lane == 0) args.y[line] = best.at < 0 ? 0 : best.at;
}

// ---- CumSum: floats one thread per line, in order; integers, whose sums are exact, a warp per
// line

struct CumSumLines {
  int64_t inner = 1, size, lines;
  __device__ explicit CumSumLines(const CumSumLaunch& args) {
    int64_t axis = load_int64(args.axis, 0);
    if (axis < 0) axis += args.rank;
    if (axis < 0 || axis >= args.rank) axis = 0;
    for (int64_t i = axis + 1; i < args.rank; ++i) inner *= args.sizes[i];
    size = args.sizes[axis];
    lines = args.elems / size;
  }
  __device__ int64_t at(const CumSumLaunch& args, int64_t line, int64_t k) const {
    const int64_t first = line / inner * size * inner + line % inner;
    return first + (args.reverse ? size - 1 - k : k) * inner;
  }
};

__global__ void __launch_bounds__(kThreads) cum_sum_floats(CumSumLaunch args) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const CumSumLines of(args);
  for (int64_t line = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; line < of.lines;
       line += static_cast<int64_t>(gridDim.x) * kThreads) {
    double sum = 0;
#pragma unroll 4
    for (int64_t k = 0; k < of.size; ++k) {
      const int64_t at = of.at(args, line, k);
      const double before = sum;
      sum += load_double(args.x, at);
      store_double(args.y, at, args.exclusive ? before : sum);
    }
  }
}

__global__ void __launch_bounds__(kThreads) cum_sum_integers(CumSumLaunch args) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const CumSumLines of(args);
  constexpr int kWarps = kThreads / kWarpThreads;
  const int lane = threadIdx.x % kWarpThreads;
  for (int64_t line = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpThreads;
       line < of.lines; line += static_cast<int64_t>(gridDim.x) * kWarps) {
    int64_t carry = 0;
#pragma unroll 4
    for (int64_t begin = 0; begin < of.size; begin += kWarpThreads) {
      const int64_t at = of.at(args, line, begin + lane);
      const bool is_inside = begin + lane < of.size;
      const int64_t x = is_inside ? load_int64(args.x, at) : 0;
      int64_t sum = x;  // of the lanes up to this one
#pragma unroll
      for (int offset = 1; offset < kWarpThreads; offset *= 2) {
        const int64_t lower = __shfl_up_sync(~0u, sum, offset);
        if (lane >= offset) sum = wrapping_add(sum, lower);
      }
      sum = wrapping_add(sum, carry);
      carry = __shfl_sync(~0u, sum, kWarpThreads - 1);
      if (is_inside) store_int64(args.y, at, args.exclusive ? wrapping_sub(sum, x) : sum);
    }
  }
}

// ---- MaskedMean: a block is 32·kN columns of one sequence × kSlices parts of it

__device__ float load_mask(const AnyArray& mask, int64_t at) {
  switch (mask.type) {
    case DType::kF32:
      return static_cast<const float*>(mask.data)[at];
    case DType::kF16:
      return __half2float(static_cast<const __half*>(mask.data)[at]);
    case DType::kI64:
      return static_cast<float>(static_cast<const int64_t*>(mask.data)[at]);
    default:
      return is_float_type(mask.type) ? static_cast<float>(load_double(mask, at))
                                      : static_cast<float>(load_int64(mask, at));
  }
}

template <class T, int kN>
__global__ void __launch_bounds__(kWarpThreads* kSlices)
    masked_mean_kernel(const __grid_constant__ MaskedMeanLaunch args) {
  __shared__ float parts[kSlices][kWarpThreads][kN + 1];  // sums, and that of the mask
  const int lane = threadIdx.x % kWarpThreads, slice = threadIdx.x / kWarpThreads;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kWarpThreads + lane) * kN;
  const int64_t b = blockIdx.x;
  float sums[kN] = {}, total = 0;
  allow_next_kernel();
  wait_for_previous_kernel();
  if (column < args.width) {
    const int64_t from = b * args.x_strides[0] + column;
#pragma unroll 4
    for (int64_t s = slice; s < args.seq; s += kSlices) {
      const int64_t at = b * args.mask_strides[0] + s * args.mask_strides[1];
      const float m = load_mask(args.mask, at);
      float x[kN];
      load_vector<T>(args.x, from + s * args.x_strides[1], x);
      total += m;
#pragma unroll
      for (int i = 0; i < kN; ++i) sums[i] = fmaf(x[i], m, sums[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kN; ++i) parts[slice][lane][i] = sums[i];
  parts[slice][lane][kN] = total;
  __syncthreads();
  if (slice != 0 || column >= args.width) return;
  for (int s = 1; s < kSlices; ++s) {
#pragma unroll
    for (int i = 0; i < kN; ++i) sums[i] += parts[s][lane][i];
    total += parts[s][lane][kN];
  }
  const float divisor = total < args.minimum ? args.minimum : total;  // NaN stays
#pragma unroll
  for (int i = 0; i < kN; ++i) sums[i] /= divisor;
  store_part<AnyFloat>(args.y, b * args.width + column, kN, sums);
}

// ---- BatchNormalization: a block is a part of one plane

template <int kN>
__global__ void __launch_bounds__(kThreads)
    channel_norm_kernel(const __grid_constant__ ChannelNormLaunch args) {
  const int64_t plane = blockIdx.x, channel = plane % args.channels;
  const float mean = load_one<AnyFloat>(args.mean, channel);
  const float inverse = 1.0f / sqrtf(load_one<AnyFloat>(args.variance, channel) + args.epsilon);
  const float scale = load_one<AnyFloat>(args.scale, channel);
  const float bias = load_one<AnyFloat>(args.bias, channel);
  const int64_t from = plane * args.elems;
  const int64_t step = static_cast<int64_t>(gridDim.y) * kThreads * kN;
  for (int64_t i = (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * kN; i < args.elems;
       i += step) {
    float x[kN];
    load_vector<AnyFloat>(args.x, from + i, x);
#pragma unroll
    for (int k = 0; k < kN; ++k) x[k] = (x[k] - mean) * inverse * scale + bias;
    store_vector<AnyFloat>(args.y, from + i, x);
  }
}

unsigned blocks_for(int64_t elems, int64_t per_block) {
  return static_cast<unsigned>((elems + per_block - 1) / per_block);
}

}  // namespace

cudaError_t launch_arg_reduce(const ArgReduceLaunch& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  const unsigned blocks = blocks_for(args.count, kThreads / kWarpThreads);
  if (args.x.type < DType::kI8)
    arg_reduce_kernel<double><<<blocks, kThreads, 0, stream>>>(args);
  else
    arg_reduce_kernel<int64_t><<<blocks, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_cum_sum(const CumSumLaunch& args, cudaStream_t stream) {
  if (args.elems == 0) return cudaSuccess;
  constexpr unsigned kMaxBlocks = 4096;  // the rest in the kernel's loop
  const unsigned blocks = min(blocks_for(args.elems, kThreads), kMaxBlocks);
  const auto kernel = args.x.type < DType::kI8 ? &cum_sum_floats : &cum_sum_integers;
  return launch_overlapped(kernel, dim3(blocks), dim3(kThreads), 0, stream, args);
}

cudaError_t launch_masked_mean(const MaskedMeanLaunch& args, cudaStream_t stream) {
  if (args.batch == 0 || args.width == 0) return cudaSuccess;
  const int lanes = args.is_aligned ? 4 : 1;
  const dim3 blocks(static_cast<unsigned>(args.batch),
                    blocks_for(args.width, kWarpThreads * lanes));
  with_float_type(args.x.type, [&](auto element) {
    using T = decltype(element);
    const auto kernel = args.is_aligned ? &masked_mean_kernel<T, 4> : &masked_mean_kernel<T, 1>;
    launch_overlapped(kernel, blocks, dim3(kWarpThreads * kSlices), 0, stream, args);
  });
  return cudaGetLastError();
}

cudaError_t launch_channel_norm(const ChannelNormLaunch& args, cudaStream_t stream) {
  if (args.planes == 0 || args.elems == 0) return cudaSuccess;
  constexpr unsigned kMaxParts = 1024;
  const int lanes = args.is_aligned ? 4 : 1;
  const unsigned parts = min(blocks_for(args.elems, int64_t{4} * kThreads * lanes), kMaxParts);
  const dim3 blocks(static_cast<unsigned>(args.planes), parts);
  if (args.is_aligned)
    channel_norm_kernel<4><<<blocks, kThreads, 0, stream>>>(args);
  else
    channel_norm_kernel<1><<<blocks, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
