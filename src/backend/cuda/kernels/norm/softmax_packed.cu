// Softmax of rows of up to 32768 neighbors of one type: each row is read once into registers, by 4
// threads to a whole block; where rows are short, a thread has several. Contract in
// softmax_packed.h. C++17.
#include "backend/cuda/device/elementwise_math.cuh"
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/vectors.cuh"
#include "backend/cuda/kernels/norm/softmax_packed.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kSmallBlock = 128;  // threads of a block that has several rows

/// kThreads threads hold a row in kVectors vectors of kN each, and kRows rows at once. kN 1 is for
/// rows that are no multiple of a vector: there neighboring threads have neighboring elements.
template <int kN_, int kThreads_, int kVectors_, int kRows_ = 1>
struct Share {
  static constexpr int kN = kN_, kThreads = kThreads_, kVectors = kVectors_, kRows = kRows_;
  static constexpr int kBlock = kThreads > kSmallBlock ? kThreads : kSmallBlock;
  static constexpr int kGroups = kBlock / kThreads;  // of threads that share a row
  static constexpr int kMinBlocks = 1024 / kBlock;   // 64 registers
  static constexpr int kRowsPerBlock = kGroups * kRows;
};

// Combined over the threads of a row, in an order that depends on kThreads only. `shared`: a value
// per warp of the block, not used before.
template <int kThreads, class Combine>
__device__ float combine(float value, float* shared, const Combine& f) {
  constexpr int kPart = kThreads < 32 ? kThreads : 32;
#pragma unroll
  for (int offset = kPart / 2; offset > 0; offset >>= 1)
    value = f(value, __shfl_xor_sync(~0u, value, offset));
  if constexpr (kThreads > 32) {
    const int warp = static_cast<int>(threadIdx.x) / 32, first = warp - warp % (kThreads / 32);
    if (threadIdx.x % 32 == 0) shared[warp] = value;
    __syncthreads();
    value = shared[first];
#pragma unroll
    for (int w = 1; w < kThreads / 32; ++w) value = f(value, shared[first + w]);
  }
  return value;
}

// e^x for x <= 0. The rounding of the product, up to |x| ulp, is lost where the result is stored in
// 16 bits.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (sizeof(T) == 2) {
    return fast_exp2(x * 1.4426950409f);
  } else {
    return expf(x);
  }
}

__device__ __noinline__ int64_t far_offset(const StridedIndex& lines, int64_t row) {
  return offset_of(lines, row);
}
__device__ __forceinline__ int64_t offset_of_row(const StridedIndex& lines, int64_t row) {
  return lines.axes <= 1 ? row * lines.strides[0] : far_offset(lines, row);
}

template <class T, class S>
struct Rows {
  static constexpr int kN = S::kN;
  using Vector = Pack<T, kN>;
  const LineLaunch& args;
  float x[S::kRows][S::kVectors * kN];

  __device__ explicit Rows(const LineLaunch& launch) : args(launch) {}
  static __device__ int64_t row(int r) {
    const int group = static_cast<int>(threadIdx.x) / S::kThreads;
    return static_cast<int64_t>(blockIdx.x) * S::kRowsPerBlock + r * S::kGroups + group;
  }
  static __device__ int column(int v) {
    return (v * S::kThreads + static_cast<int>(threadIdx.x) % S::kThreads) * kN;
  }
  __device__ bool is_row(int r) const { return row(r) < args.lines; }
  // −inf where there is nothing: it changes neither the largest value nor the sum. What is there
  // instead is read too: without branches all reads are in flight together.
  __device__ void read_vectors() {
    uint4 words[S::kRows][S::kVectors];
    const int cols = static_cast<int>(args.size);
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      const int64_t from = offset_of_row(args.x_lines, is_row(r) ? row(r) : 0);
      const T* const src = static_cast<const T*>(args.x.data) + from;
#pragma unroll
      for (int v = 0; v < S::kVectors; ++v) {
        const int at = column(v) < cols ? column(v) : 0;
        words[r][v] = *reinterpret_cast<const uint4*>(src + at);
      }
    }
    const uint32_t none = sizeof(T) == 4                     ? 0xff800000u
                          : std::is_same_v<T, __nv_bfloat16> ? 0xff80ff80u
                                                             : 0xfc00fc00u;
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
#pragma unroll
      for (int v = 0; v < S::kVectors; ++v) {
        uint4 w = words[r][v];
        if (column(v) >= cols) w = {none, none, none, none};
        const auto pack = reinterpret_cast<const Vector&>(w);
#pragma unroll
        for (int i = 0; i < kN; ++i) x[r][v * kN + i] = to_f32(pack.element[i]);
      }
    }
  }
  __device__ void read_elements() {
    const int cols = static_cast<int>(args.size);
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      const int64_t from = offset_of_row(args.x_lines, is_row(r) ? row(r) : 0);
      const T* const src = static_cast<const T*>(args.x.data) + from;
#pragma unroll
      for (int i = 0; i < S::kVectors * kN; ++i) {
        const int at = column(i / kN) + i % kN;
        const float value = to_f32(src[at < cols ? at : 0]);
        x[r][i] = at < cols ? value : -INFINITY;
      }
    }
  }
  __device__ void write() {
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      if (!is_row(r)) continue;
      T* const dst = static_cast<T*>(args.y.data) + offset_of_row(args.y_lines, row(r));
#pragma unroll
      for (int v = 0; v < S::kVectors; ++v) {
        if (column(v) >= args.size) continue;
        Vector pack;
#pragma unroll
        for (int i = 0; i < kN; ++i) pack.element[i] = from_f32<T>(x[r][v * kN + i]);
        if (args.is_aligned) {
          *reinterpret_cast<Vector*>(dst + column(v)) = pack;
        } else {
#pragma unroll
          for (int i = 0; i < kN; ++i) dst[column(v) + i] = pack.element[i];
        }
      }
    }
  }
  __device__ void normalise(float (&shared)[2][S::kBlock / 32]) {
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      float max = x[r][0];
#pragma unroll
      for (int i = 1; i < S::kVectors * kN; ++i) max = fmaxf(max, x[r][i]);
      max = combine<S::kThreads>(max, shared[0], [](float a, float b) { return fmaxf(a, b); });
      float sum = 0;
#pragma unroll
      for (int i = 0; i < S::kVectors * kN; ++i) {
        x[r][i] = exponential<T>(x[r][i] - max);
        sum += x[r][i];
      }
      sum = combine<S::kThreads>(sum, shared[1], [](float a, float b) { return a + b; });
      const float scale = 1.0f / sum;
#pragma unroll
      for (int i = 0; i < S::kVectors * kN; ++i) x[r][i] *= scale;
    }
  }
};

template <class T, class S>
__global__ void __launch_bounds__(S::kBlock, S::kMinBlocks)
    softmax_kernel(const __grid_constant__ LineLaunch args) {
  __shared__ float shared[2][S::kBlock / 32];
  Rows<T, S> rows(args);
  allow_next_kernel();
  wait_for_previous_kernel();
  if constexpr (S::kN == 1) {
    rows.read_elements();
  } else {
    if (args.is_aligned)
      rows.read_vectors();
    else
      rows.read_elements();
  }
  rows.normalise(shared);
  rows.write();
}

template <class T, class S>
cudaError_t run(const LineLaunch& args, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((args.lines + S::kRowsPerBlock - 1) / S::kRowsPerBlock);
  return launch_overlapped(softmax_kernel<T, S>, dim3(blocks), dim3(S::kBlock), 0, stream, args);
}

template <class T>
cudaError_t run_rows(const LineLaunch& args, cudaStream_t stream) {
  constexpr int kN = 16 / sizeof(T);
  const int64_t size = args.size, vectors = size / kN;
  if (size % kN != 0) {
    if (size <= 64) return run<T, Share<1, 8, 8>>(args, stream);
    if (size <= 256) return run<T, Share<1, 32, 8>>(args, stream);
    if (size <= 1024) return run<T, Share<1, 128, 8>>(args, stream);
    if (size <= 4096) return run<T, Share<1, 512, 8>>(args, stream);
    if (size <= 8192) return run<T, Share<1, 1024, 8>>(args, stream);
    return run<T, Share<1, 1024, 32>>(args, stream);
  }
  if (vectors <= 4) return run<T, Share<kN, 4, 1, 4>>(args, stream);
  if (vectors <= 8) return run<T, Share<kN, 8, 1, 4>>(args, stream);
  if (vectors <= 16) return run<T, Share<kN, 8, 2, 2>>(args, stream);
  if (vectors <= 32) return run<T, Share<kN, 8, 4>>(args, stream);
  if (vectors <= 48) return run<T, Share<kN, 16, 3>>(args, stream);
  if (vectors <= 64) return run<T, Share<kN, 16, 4>>(args, stream);
  if (vectors <= 96) return run<T, Share<kN, 32, 3>>(args, stream);
  if (vectors <= 128) return run<T, Share<kN, 32, 4>>(args, stream);
  if (vectors <= 256) return run<T, Share<kN, 64, 4>>(args, stream);
  if (vectors <= 384) return run<T, Share<kN, 128, 3>>(args, stream);
  if (vectors <= 512) return run<T, Share<kN, 128, 4>>(args, stream);
  if (vectors <= 1024) return run<T, Share<kN, 256, 4>>(args, stream);
  if (vectors <= 2048) return run<T, Share<kN, 512, 4>>(args, stream);
  return run<T, Share<kN, 1024, 32 / kN>>(args, stream);
}

}  // namespace

bool is_packed_softmax(const LineLaunch& args) {
  constexpr int64_t kMost = 32768;  // 32 elements for each of 1024 threads
  const bool is_one_type =
      args.type == DType::kF32 || args.type == DType::kF16 || args.type == DType::kBF16;
  return args.kind == LineKind::kSoftmax && is_one_type && args.is_last_axis && args.size <= kMost;
}

cudaError_t launch_softmax_packed(const LineLaunch& args, cudaStream_t stream) {
  if (args.type == DType::kF32) return run_rows<float>(args, stream);
  if (args.type == DType::kF16) return run_rows<__half>(args, stream);
  return run_rows<__nv_bfloat16>(args, stream);
}

}  // namespace vernier::backend::cuda
