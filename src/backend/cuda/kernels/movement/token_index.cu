// Where the tokens of a padded batch lie: one kernel counts them, one block per row; a second one
// adds up the counts of the rows before its own and writes. Contract: token_index.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/movement/token_index.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256;
constexpr bool is_float_type(DType type) { return type <= DType::kBF16; }

__device__ bool is_padding(const TokenIndexLaunch& args, int64_t at, bool of_floats) {
  if (of_floats)
    return load_f64(args.mask.dtype, args.mask.data, at) == static_cast<double>(args.padding);
  return load_integer(args.mask.dtype, args.mask.data, at) == args.padding;
}

// The sum of everybody's `value`, for all threads of the block.
__device__ int64_t sum_of_block(int64_t value) {
  __shared__ int64_t parts[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  int64_t sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += parts[i];
  return sum;
}

// A row has tokens in its first n places only if n places are none of padding and the last of them
// stands at n - 1: then the sum of its tokens and the end of its last one agree.
__global__ void __launch_bounds__(kThreads)
    count_kernel(const __grid_constant__ TokenIndexLaunch args, bool of_floats) {
  const int64_t length = args.mask.size[1], row = blockIdx.x;
  int64_t tokens = 0;
  int end = 0;
  __shared__ int last;
  if (threadIdx.x == 0) last = 0;
  __syncthreads();
  for (int64_t s = threadIdx.x; s < length; s += kThreads) {
    if (is_padding(args, row * length + s, of_floats)) continue;
    ++tokens;
    end = static_cast<int>(s + 1);
  }
  if (end > 0) atomicMax(&last, end);
  const int64_t all = sum_of_block(tokens);
  if (threadIdx.x == 0)
    args.counts[row] = static_cast<int32_t>(all > 0 && all == last ? all : length);
}

__device__ void put(const Array& list, int64_t at, int64_t value) {
  if (list.data != nullptr) reinterpret_cast<int32_t*>(list.data)[at] = static_cast<int32_t>(value);
}

__global__ void __launch_bounds__(kThreads)
    write_kernel(const __grid_constant__ TokenIndexLaunch args, int64_t batch, int64_t room) {
  const int64_t length = args.mask.size[1], row = blockIdx.x;
  int64_t before = 0, all = 0;
  for (int64_t b = threadIdx.x; b < batch; b += kThreads) {
    all += args.counts[b];
    if (b < row) before += args.counts[b];
  }
  before = sum_of_block(before);
  all = min(sum_of_block(all), room);
  const int64_t own = row < batch ? args.counts[row] : 0;
  const int64_t start = min(before, room), tokens = min(own, room - start);
  for (int64_t s = threadIdx.x; s < tokens; s += kThreads) {
    put(args.rows, start + s, row * length + s);
    put(args.positions, start + s, s);
  }
  for (int64_t s = threadIdx.x; row < batch && s < length; s += kThreads)
    put(args.places, row * length + s, s < tokens ? start + s : start);
  if (threadIdx.x == 0) {
    put(args.starts, row, start);  // of row `batch`: of all tokens
    put(args.ordinals, row, row);
  }
  // What is left behind the last token, shared by all blocks.
  for (int64_t t = all + row * kThreads + threadIdx.x; t < room; t += (batch + 1) * kThreads) {
    put(args.rows, t, 0);
    put(args.positions, t, 0);
  }
}

}  // namespace

cudaError_t index_tokens(const TokenIndexLaunch& args, cudaStream_t stream) {
  const int64_t batch = args.mask.size[0], length = args.mask.size[1];
  const int64_t room = args.rows.data != nullptr        ? args.rows.size[0]
                       : args.positions.data != nullptr ? args.positions.size[0]
                                                        : batch * length;
  if (batch > 0) {
    count_kernel<<<static_cast<unsigned>(batch), kThreads, 0, stream>>>(
        args, is_float_type(args.mask.dtype));
  }
  write_kernel<<<static_cast<unsigned>(batch) + 1, kThreads, 0, stream>>>(args, batch, room);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
