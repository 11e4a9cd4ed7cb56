// Where the tokens of a padded batch lie: one block per row adds up the tokens of the rows before
// it and writes its own. Of large masks another kernel counts them first, of small ones every block
// does. Contract: token_index.h. C++17.
#include "backend/cuda/kernels/movement/token_index.h"
#include "backend/cuda/kernels/movement/token_rows.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
// Of a mask that every block counts.
constexpr int64_t kSmallMask = 8192;

__device__ Span kept_of_row(const TokenIndexLaunch& args, int64_t row, bool of_floats) {
  return tokens_of_row(args.mask, args.padding, row, of_floats, args.front, args.behind);
}

__global__ void __launch_bounds__(kThreads)
    count_kernel(const __grid_constant__ TokenIndexLaunch args, int64_t batch, bool of_floats) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= batch) return;
  const Span kept = kept_of_row(args, row, of_floats);
  if (threadIdx.x % 32 == 0) args.counts[row] = static_cast<int32_t>(kept.count);
}

// What the rows before a block's have, its own, and all.
struct Tokens {
  int64_t before, own, all;
};
template <bool kCounted>
__device__ Tokens count_tokens(const TokenIndexLaunch& args, int64_t row, int64_t batch,
                               bool of_floats) {
  __shared__ int64_t parts[kWarps][3];
  Tokens sum{0, 0, 0};
  const auto add = [&](int64_t b, int64_t tokens) {
    sum.all += tokens;
    sum.before += b < row ? tokens : 0;
    sum.own += b == row ? tokens : 0;
  };
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (kCounted) {
    for (int64_t b = threadIdx.x; b < batch; b += kThreads) add(b, args.counts[b]);
    for (int offset = 16; offset > 0; offset /= 2) {
      sum.all += __shfl_xor_sync(~0u, sum.all, offset);
      sum.before += __shfl_xor_sync(~0u, sum.before, offset);
      sum.own += __shfl_xor_sync(~0u, sum.own, offset);
    }
  } else {
    for (int64_t b = warp; b < batch; b += kWarps) add(b, kept_of_row(args, b, of_floats).count);
  }
  if (threadIdx.x % 32 == 0) {
    parts[warp][0] = sum.before;
    parts[warp][1] = sum.own;
    parts[warp][2] = sum.all;
  }
  __syncthreads();
  sum = {0, 0, 0};
  for (const auto& part : parts) {
    sum.before += part[0];
    sum.own += part[1];
    sum.all += part[2];
  }
  return sum;
}

__device__ void put(const Array& list, int64_t at, int64_t value) {
  if (list.data != nullptr) reinterpret_cast<int32_t*>(list.data)[at] = static_cast<int32_t>(value);
}
__device__ void put_kept(const Array& list, int64_t at, bool value) {
  if (list.data != nullptr) reinterpret_cast<bool*>(list.data)[at] = value;
}

template <bool kCounted>
__global__ void __launch_bounds__(kThreads)
    write_kernel(const __grid_constant__ TokenIndexLaunch args, int64_t batch, int64_t room,
                 bool of_floats) {
  const int64_t length = args.mask.size[1], row = blockIdx.x;
  const Tokens counted = count_tokens<kCounted>(args, row, batch, of_floats);
  const int64_t all = min(counted.all, room), start = min(counted.before, room),
                tokens = min(counted.own, room - start);
  __shared__ int64_t begin;
  if (threadIdx.x < 32 && row < batch) {
    const Span kept = kept_of_row(args, row, of_floats);
    if (threadIdx.x == 0) begin = kept.first;
  }
  __syncthreads();
  const int64_t first = begin;  // unused in the last block, which has no row
  for (int64_t t = threadIdx.x; t < tokens; t += kThreads) {
    put(args.rows, start + t, row * length + first + t);
    put(args.positions, start + t, first + t);
    if (args.kept.data != nullptr)
      put_kept(args.kept, start + t,
               !is_padding(args.mask, args.padding, row * length + first + t, of_floats));
  }
  for (int64_t s = threadIdx.x; row < batch && s < length; s += kThreads)
    put(args.places, row * length + s,
        s >= first && s < first + tokens ? start + s - first : start);
  if (threadIdx.x == 0) {
    put(args.starts, row, start);  // of row `batch`: of all tokens
    put(args.ordinals, row, row);
  }
  // What is left behind the last token, shared by all blocks.
  for (int64_t t = all + row * kThreads + threadIdx.x; t < room; t += (batch + 1) * kThreads) {
    put(args.rows, t, 0);
    put(args.positions, t, 0);
    put_kept(args.kept, t, false);
  }
}

}  // namespace

cudaError_t index_tokens(const TokenIndexLaunch& args, cudaStream_t stream) {
  const int64_t batch = args.mask.size[0], length = args.mask.size[1];
  int64_t room = batch * length;
  for (const Array* list : {&args.rows, &args.positions, &args.kept})
    if (list->data != nullptr) room = list->size[0];
  const bool of_floats = args.mask.dtype <= DType::kBF16;
  const auto blocks = static_cast<unsigned>(batch) + 1;
  if (batch * length <= kSmallMask) {
    write_kernel<false><<<blocks, kThreads, 0, stream>>>(args, batch, room, of_floats);
    return cudaGetLastError();
  }
  count_kernel<<<static_cast<unsigned>((batch + kWarps - 1) / kWarps), kThreads, 0, stream>>>(
      args, batch, of_floats);
  write_kernel<true><<<blocks, kThreads, 0, stream>>>(args, batch, room, of_floats);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
