// TopK by radix selection and bitonic sort; contract in top_k.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/reduce/top_k.h"

namespace vernier::backend::cuda {
namespace {

constexpr int64_t kShared = 1024;    // candidates that shared memory holds: 16 KiB
constexpr int64_t kMaxBlocks = 512;  // that share the workspace

/// The line's best have the largest keys; of equal keys the first index is better.
struct Candidate {
  uint64_t key;
  int64_t index;
};
__device__ bool is_better(const Candidate& a, const Candidate& b) {
  return a.key != b.key ? a.key > b.key : a.index < b.index;
}

struct Line {
  const std::byte* data;
  int64_t offset, step, size;
};

__device__ uint64_t bits_at(const Line& line, int width, int64_t i) {
  const int64_t at = line.offset + i * line.step;
  if (width == 8) return reinterpret_cast<const uint64_t*>(line.data)[at];
  if (width == 4) return reinterpret_cast<const uint32_t*>(line.data)[at];
  if (width == 2) return reinterpret_cast<const uint16_t*>(line.data)[at];
  return reinterpret_cast<const uint8_t*>(line.data)[at];
}

// Rises with the value; every NaN has the largest key, −0 that of +0. Smallest first: the
// complement.
__device__ uint64_t key_at(const TopKLaunch& args, const Line& line, int width, int64_t i) {
  const uint64_t all = width == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * width)) - 1;
  const uint64_t sign = uint64_t{1} << (8 * width - 1);
  uint64_t key = bits_at(line, width, i);
  if (args.order == BitOrder::kSigned) key ^= sign;
  if (args.order == BitOrder::kFloat) {
    const uint64_t magnitude = key & ~sign;
    key = magnitude > args.infinity ? all
          : magnitude == 0          ? sign
          : (key & sign) != 0       ? ~key & all
                                    : key | sign;
  }
  return args.largest ? key : ~key & all;
}

// The worst candidate that is kept: better keys are kept, and equal ones up to `index`.
struct Threshold {
  uint64_t key;
  int64_t index;
};

// One digit of the threshold: of the candidates that `digit` gives a digit in [0, 256) (others −1),
// the digit of number `wanted` (from 1) in falling order; `wanted` becomes its number among those.
template <class Digit>
__device__ int select_digit(int64_t size, unsigned* histogram, long long& wanted,
                            long long* shared_wanted, int* shared_digit, const Digit& digit) {
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += kBlock) histogram[i] = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < size; i += kBlock) {
    const int d = digit(i);
    if (d >= 0) atomicAdd(histogram + d, 1u);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    long long left = wanted;
    int d = 255;
    for (; d > 0 && left > static_cast<long long>(histogram[d]); --d) left -= histogram[d];
    *shared_digit = d;
    *shared_wanted = left;
  }
  __syncthreads();
  wanted = *shared_wanted;
  return *shared_digit;
}

__device__ Threshold select(const TopKLaunch& args, const Line& line, int width,
                            unsigned* histogram) {
  __shared__ long long shared_wanted;
  __shared__ int shared_digit;
  long long wanted = args.k;
  uint64_t key = 0, known = 0;
  for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) {
    const int digit =
        select_digit(line.size, histogram, wanted, &shared_wanted, &shared_digit, [&](int64_t i) {
          const uint64_t own = key_at(args, line, width, i);
          return (own & known) == key ? static_cast<int>(own >> shift & 255) : -1;
        });
    key |= static_cast<uint64_t>(digit) << shift;
    known |= uint64_t{255} << shift;
  }
  // Among equal keys small indices come first: digits of the complement.
  uint64_t index = 0, index_known = 0;
  int bytes = 1;
  while ((line.size - 1) >> (8 * bytes) != 0) ++bytes;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    const int digit =
        select_digit(line.size, histogram, wanted, &shared_wanted, &shared_digit, [&](int64_t i) {
          const uint64_t own = ~static_cast<uint64_t>(i);
          if ((own & index_known) != index || key_at(args, line, width, i) != key) return -1;
          return static_cast<int>(own >> shift & 255);
        });
    index |= static_cast<uint64_t>(digit) << shift;
    index_known |= uint64_t{255} << shift;
  }
  return {key, static_cast<int64_t>(~index & index_known)};
}

// Best first; `capacity` a power of two (Batcher's bitonic network).
__device__ void sort(Candidate* kept, int64_t capacity) {
  for (int64_t block = 2; block <= capacity; block *= 2) {
    for (int64_t step = block / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int64_t i = threadIdx.x; i < capacity; i += kBlock) {
        const int64_t other = i ^ step;
        if (other < i) continue;
        const bool up = (i & block) == 0;
        if (is_better(kept[other], kept[i]) == up) {
          const Candidate swapped = kept[i];
          kept[i] = kept[other];
          kept[other] = swapped;
        }
      }
    }
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kBlock) top_k_kernel(const __grid_constant__ TopKLaunch args,
                                                       int64_t lines, int64_t capacity, int width) {
  __shared__ Candidate shared[kShared];
  __shared__ unsigned histogram[256];
  __shared__ int collected;
  auto* scratch = reinterpret_cast<Candidate*>(args.scratch) + blockIdx.x * capacity;
  Candidate* kept = capacity <= kShared ? shared : scratch;
  const Array& x = args.x;
  for (int64_t l = blockIdx.x; l < lines; l += gridDim.x) {
    Line line{x.data, 0, x.stride[args.axis], x.size[args.axis]};
    int64_t rest = l, to = 0, inner = 1;
    for (int axis = x.rank - 1; axis >= 0; --axis) {
      if (axis == args.axis) {
        inner = to = 1;
        for (int i = axis + 1; i < x.rank; ++i) inner *= x.size[i];
        continue;
      }
      line.offset += take_axis(rest, x.size[axis]) * x.stride[axis];
    }
    to = l / inner * args.k * inner + l % inner;
    const bool whole = line.size <= capacity;
    Threshold least{0, line.size};
    if (!whole) least = select(args, line, width, histogram);
    __syncthreads();  // the previous line has been written
    if (threadIdx.x == 0) collected = 0;
    for (int64_t i = threadIdx.x; i < capacity; i += kBlock) kept[i] = {0, INT64_MAX};
    __syncthreads();
    for (int64_t i = threadIdx.x; i < line.size; i += kBlock) {
      const Candidate own{key_at(args, line, width, i), i};
      if (whole)
        kept[i] = own;
      else if (own.key > least.key || (own.key == least.key && i <= least.index))
        kept[atomicAdd(&collected, 1)] = own;
    }
    sort(kept, capacity);
    for (int64_t n = threadIdx.x; n < args.k; n += kBlock) {
      const int64_t from = line.offset + kept[n].index * line.step, at = to + n * inner;
      if (args.values.data != nullptr)
        move_element(x.dtype, x.data, from, x.dtype, args.values.data, at, width);
      if (args.indices.data != nullptr)
        reinterpret_cast<int64_t*>(args.indices.data)[at] = kept[n].index;
    }
  }
}

int64_t lines_of(const Array& x, int axis) {
  const int64_t elems = elems_of(x);
  return elems == 0 ? 0 : elems / x.size[axis];
}
// Candidates that are sorted: all of a short line, else the k best, rounded up to a power of two.
int64_t capacity_of(const Array& x, int axis, int64_t k) {
  const int64_t count = x.size[axis] <= kShared ? x.size[axis] : k;
  int64_t capacity = 1;
  while (capacity < count) capacity *= 2;
  return capacity;
}
int64_t blocks_of(const Array& x, int axis) {
  const int64_t lines = lines_of(x, axis);
  return lines < kMaxBlocks ? lines : kMaxBlocks;
}

}  // namespace

size_t top_k_workspace(const Array& x, int axis, int64_t k) {
  const int64_t capacity = capacity_of(x, axis, k);
  if (capacity <= kShared) return 0;
  return static_cast<size_t>(blocks_of(x, axis) * capacity) * sizeof(Candidate);
}

cudaError_t top_k(const TopKLaunch& args, cudaStream_t stream) {
  const int64_t lines = lines_of(args.x, args.axis);
  if (lines == 0 || args.k == 0) return cudaSuccess;
  const int64_t capacity = capacity_of(args.x, args.axis, args.k);
  const int64_t blocks = capacity <= kShared ? lines : blocks_of(args.x, args.axis);
  top_k_kernel<<<blocks_for(blocks, 1), kBlock, 0, stream>>>(args, lines, capacity,
                                                             width_of(args.x.dtype));
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
