// Device side of norm_packed.cu and embed_packed.cu: a row without gaps over the lanes of a warp or
// half of one, its normalization, and the blocks of a launch. C++17.
#pragma once
#include <type_traits>

#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/row_norm.cuh"
#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/device/vectors.cuh"
#include "backend/cuda/kernels/norm/norm_packed.h"

namespace vernier::backend::cuda {

inline constexpr int kPackedThreads = 256;  // of a block, at most

/// How rows of T lie over kThreads lanes: lane l holds vectors l, l + kThreads, … of up to
/// kVectors. kIsExact: a row is all of them and every array is aligned. Sums run over the elements
/// of each vector, over a lane's vectors, over the lanes by halves; vectors past a row's end add 0.
/// So their order is the same for layouts of equal kThreads.
/// kInParts, for rows of kThreads · kVectors vectors: each eight lanes have a part of the row, of
/// which lane l has vectors l, l + 8, …; sums run over pairs of elements in a lane's vectors, over
/// the four pairs, over the lanes of a part, over the parts.
template <class T_, int kThreads_, int kVectors_, bool kIsExact_, bool kInParts_ = false>
struct PackedLayout {
  using T = T_;
  static constexpr int kThreads = kThreads_, kVectors = kVectors_, kN = kLanes<T>;
  static constexpr bool kIsExact = kIsExact_, kInParts = kInParts_;
  static_assert(!kInParts || (kN == 8 && kThreads % 8 == 0));
};

/// run(parts, vectors) of a row of 16 bits in parts: how many there are, and vectors of a lane;
/// both are std::integral_constant. cols: 256, 384, 512, 768 or 1024.
template <class Run>
cudaError_t with_parts(int cols, const Run& run) {
  const auto two = std::integral_constant<int, 2>();
  const auto three = std::integral_constant<int, 3>();
  const auto four = std::integral_constant<int, 4>();
  switch (cols) {
    case 256:
      return run(two, two);
    case 384:
      return run(two, three);
    case 512:
      return run(two, four);
    case 768:
      return run(four, three);
    default:
      return run(four, four);
  }
}

template <class L>
struct PackedRow {
  using T = typename L::T;
  static constexpr int kN = L::kN, kVectors = L::kVectors;

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % L::kThreads; }
  static __device__ int column(int k) {
    if (L::kInParts) return (lane() / 8 * kVectors * 8 + k * 8 + lane() % 8) * kN;
    return (k * L::kThreads + lane()) * kN;
  }
  static __device__ bool is_inside(int k, int cols) { return L::kIsExact || column(k) < cols; }

  static __device__ void load(const void* row, int cols, bool aligned, uint4 (&raw)[kVectors]) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const T* at = static_cast<const T*>(row) + column(k);
      if (!L::kIsExact) {
        raw[k] = uint4{0, 0, 0, 0};
        if (column(k) >= cols) continue;
        if (!aligned) {
          T* values = reinterpret_cast<T*>(&raw[k]);
#pragma unroll
          for (int i = 0; i < kN; ++i) values[i] = at[i];
          continue;
        }
      }
      raw[k] = *reinterpret_cast<const uint4*>(at);
    }
  }
  /// x = raw, or x + raw.
  template <bool kAdds>
  static __device__ void widen(const uint4 (&raw)[kVectors], float (&x)[kVectors][kN]) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const T* values = reinterpret_cast<const T*>(&raw[k]);
#pragma unroll
      for (int i = 0; i < kN; ++i)
        x[k][i] = kAdds ? x[k][i] + to_f32(values[i]) : to_f32(values[i]);
    }
  }
  static __device__ void store(void* row, int cols, bool aligned, const float (&x)[kVectors][kN]) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (!is_inside(k, cols)) continue;
      uint4 raw;
      T* values = reinterpret_cast<T*>(&raw);
#pragma unroll
      for (int i = 0; i < kN; ++i) values[i] = from_f32<T>(x[k][i]);
      T* to = static_cast<T*>(row) + column(k);
      if (L::kIsExact || aligned) {
        *reinterpret_cast<uint4*>(to) = raw;
      } else {
#pragma unroll
        for (int i = 0; i < kN; ++i) to[i] = values[i];
      }
    }
  }
};

/// Brings constant scale, bias and factors into the first-level cache, a 32-byte sector per thread,
/// while the kernel before may still run. The copies are not read: an unused load would be left
/// out.
__device__ inline void fetch_parameters(const PackedNorm& args) {
  __shared__ float nowhere[3][kPackedThreads];  // a place for each copy: two to one would race
  if (!args.has_constants) return;
  constexpr int kSector = 8;
  const int at = kSector * static_cast<int>(threadIdx.x);
  if (at >= args.cols) return;  // 128 threads and more: a sector each covers 1024 columns
  const float* const from[3] = {args.scale, args.bias, args.factors};
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (from[i] == nullptr) continue;
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(&nowhere[i][threadIdx.x]));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from[i] + at)
                 : "memory");
  }
}

/// v = parameters [c, c + kN); absent: `absent`. Through the first-level cache, where all blocks of
/// a processor find them: a copy to shared memory in each block costs 23 ns per block on an H200,
/// as all of them read the same few lines of the second level.
template <int kN>
__device__ void read_parameters(const float* from, int c, bool aligned, float absent,
                                float (&v)[kN]) {
  fill_vector(absent, v);
  if (from == nullptr) return;
  if (!aligned) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = from[c + i];
    return;
  }
#pragma unroll
  for (int i = 0; i < kN; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + c + i);
    v[i] = four.x;
    v[i + 1] = four.y;
    v[i + 2] = four.z;
    v[i + 3] = four.w;
  }
}

/// What `add(sum, a, b)` makes of a lane's pairs of elements, by pairs.
template <class L, class Add>
__device__ float sum_of_pairs(const float (&x)[L::kVectors][L::kN], const Add& add) {
  float sums[L::kN / 2] = {};
#pragma unroll
  for (int k = 0; k < L::kVectors; ++k) {
#pragma unroll
    for (int i = 0; i < L::kN / 2; ++i) sums[i] = add(sums[i], x[k][2 * i], x[k][2 * i + 1]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// The sums that normalise() needs of rows in parts; x loses its mean.
template <class L, int kRows>
__device__ void sums_in_parts(float (&x)[kRows][L::kVectors][L::kN], float cols, float reciprocal,
                              float (&sums)[2 * kRows]) {
  const auto values = [](float sum, float a, float b) { return pair_sum(sum, a, b); };
  const auto squares = [](float sum, float a, float b) { return pair_squares(sum, a, b); };
  float mean[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) mean[r] = sum_of_pairs<L>(x[r], values);
  sum_rows_upwards<L::kThreads>(mean);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float m = mean_of(mean[r], cols, reciprocal);
#pragma unroll
    for (int i = 0; i < L::kVectors * L::kN; ++i) x[r][i / L::kN][i % L::kN] -= m;
    sums[r] = sum_of_pairs<L>(x[r], squares);
    sums[kRows + r] = sum_of_pairs<L>(x[r], values);
  }
  sum_rows_upwards<L::kThreads>(sums);
}

/// The same of other rows, vector by vector. is_rms: x keeps its mean.
template <class L, int kRows>
__device__ void sums_of_vectors(float (&x)[kRows][L::kVectors][L::kN], int cols, bool is_rms,
                                float reciprocal, float (&sums)[2 * kRows]) {
  constexpr int kThreads = L::kThreads, kVectors = L::kVectors, kN = L::kN;
  float mean[kRows] = {};
  if (!is_rms) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        float part = x[r][k][0];  // past the end: 0
#pragma unroll
        for (int i = 1; i < kN; ++i) part += x[r][k][i];
        mean[r] += part;
      }
    }
    sum_rows<kThreads>(mean);
#pragma unroll
    for (float& m : mean) m = mean_of(m, static_cast<float>(cols), reciprocal);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      float part = 0, part_squares = 0;
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        x[r][k][i] -= mean[r];
        part += x[r][k][i];
        part_squares = __fmaf_rn(x[r][k][i], x[r][k][i], part_squares);
      }
      const bool inside = PackedRow<L>::is_inside(k, cols);
      sums[r] += inside ? part_squares : 0.0f;
      sums[kRows + r] += inside ? part : 0.0f;
    }
  }
  sum_rows<kThreads>(sums);
}

/// x becomes kRows normalized rows. Variance in a second pass over registers, in which the mean's
/// own rounding error is measured and taken out (device/row_norm.cuh).
template <class L, int kRows>
__device__ void normalise(const PackedNorm& args, bool is_rms,
                          float (&x)[kRows][L::kVectors][L::kN]) {
  constexpr int kVectors = L::kVectors, kN = L::kN;
  const auto cols = static_cast<float>(args.cols);
  const float reciprocal = 1.0f / cols;
  float sums[2 * kRows] = {};  // of squares, then of what the mean leaves
  if constexpr (L::kInParts) {
    sums_in_parts<L, kRows>(x, cols, reciprocal, sums);
  } else {
    sums_of_vectors<L, kRows>(x, args.cols, is_rms, reciprocal, sums);
  }
  RowScale by[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    by[r] = is_rms ? RowScale{1.0f / sqrtf(sums[r] / cols + args.epsilon), -0.0f}
                   : row_scale(sums[r], sums[kRows + r], cols, reciprocal, args.epsilon);
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (!PackedRow<L>::is_inside(k, args.cols)) continue;
    float scale[kN], bias[kN];
    const bool aligned = L::kIsExact || args.is_aligned;
    read_parameters(args.scale, PackedRow<L>::column(k), aligned, 1.0f, scale);
    read_parameters(args.bias, PackedRow<L>::column(k), aligned, -0.0f, bias);  // −0 changes none
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kN; ++i)
        x[r][k][i] =
            __fmaf_rn(__fmaf_rn(x[r][k][i], by[r].inverse, by[r].offset), scale[i], bias[i]);
    }
  }
}

/// The rows of this thread: `first`, `first` + step, … below `end`, the same number of them for all
/// lanes of a warp; rows past the last belong to no lane.
template <class L>
struct PackedRows {
  static constexpr int kPerWarp = kWarpThreads / L::kThreads;
  int64_t rows, first, end, step;

  __device__ explicit PackedRows(int64_t count) : rows(count) {
    const int lane_row = static_cast<int>(threadIdx.x) % kWarpThreads / L::kThreads;
    const auto per_block = static_cast<int64_t>(blockDim.x / L::kThreads);
    first = blockIdx.x * per_block + threadIdx.x / L::kThreads;
    step = gridDim.x * per_block;
    end = count + lane_row;
  }
  __device__ int64_t clamped(int64_t row) const { return row < rows ? row : rows - 1; }
};

template <class L>
__device__ const void* row_at(const void* array, int64_t row, int cols) {
  return static_cast<const typename L::T*>(array) + row * cols;
}
template <class L>
__device__ void* row_at(void* array, int64_t row, int cols) {
  return static_cast<typename L::T*>(array) + row * cols;
}

/// Blocks of kPackedThreads that the device holds at a time.
struct PackedRoom {
  int64_t processors = 1, blocks = 1;
};
template <class Argument>
PackedRoom room_for(void (*kernel)(Argument)) {
  int device = 0, processors = 1, each = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kPackedThreads, 0);
  return {processors, static_cast<int64_t>(processors) * (each > 0 ? each : 1)};
}

/// Few rows: small blocks, on some processors only, which leaves room for the next kernel to begin.
/// Many: one wave of blocks whose warps have the same number of rows. A warp takes `side_by_side`
/// rows (of each part of it) at a time.
template <class L, class Argument>
cudaError_t launch_packed(void (*kernel)(Argument), const PackedRoom& room, int64_t rows,
                          int side_by_side, const Argument& args, cudaStream_t stream) {
  constexpr int kFewWarps = 4, kWarps = kPackedThreads / kWarpThreads;
  const auto parts = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  const int64_t warps = parts(rows, PackedRows<L>::kPerWarp * side_by_side);
  const int per_block = warps <= kFewWarps * room.processors ? kFewWarps : kWarps;
  const int64_t wanted = parts(warps, per_block), waves = parts(wanted, room.blocks);
  return launch_overlapped(kernel, dim3(static_cast<unsigned>(parts(wanted, waves))),
                           dim3(per_block * kWarpThreads), 0, stream, args);
}

/// Launch::launch<layout>(args, stream) with the layout for rows of T: up to 512 columns of 16 bits
/// over half a warp, everything else over a warp.
template <class Launch, class T, class Argument>
cudaError_t with_packed_type(const PackedNorm& norm, const Argument& args, cudaStream_t stream) {
  constexpr int kPer = 8 / kLanes<T>;  // vectors of 8 columns
  constexpr int kShort = kWarpThreads / (kLanes<T> / 4);
  if (norm.is_aligned) {
    switch (norm.cols) {
      case 256:
        return Launch::template launch<PackedLayout<T, kShort, 2, true>>(args, stream);
      case 384:
        return Launch::template launch<PackedLayout<T, kShort, 3, true>>(args, stream);
      case 512:
        return Launch::template launch<PackedLayout<T, kShort, 4, true>>(args, stream);
      case 768:
        return Launch::template launch<PackedLayout<T, kWarpThreads, 3 * kPer, true>>(args, stream);
      case 1024:
        return Launch::template launch<PackedLayout<T, kWarpThreads, 4 * kPer, true>>(args, stream);
      default:
        break;
    }
  }
  if (norm.cols <= 512)
    return Launch::template launch<PackedLayout<T, kShort, 4, false>>(args, stream);
  return Launch::template launch<PackedLayout<T, kWarpThreads, 4 * kPer, false>>(args, stream);
}
template <class Launch, class Argument>
cudaError_t with_packed_layout(const PackedNorm& norm, const Argument& args, cudaStream_t stream) {
  if (norm.rows == 0 || norm.cols == 0) return cudaSuccess;
  if (norm.type == DType::kF16) return with_packed_type<Launch, __half>(norm, args, stream);
  if (norm.type == DType::kBF16) return with_packed_type<Launch, __nv_bfloat16>(norm, args, stream);
  return with_packed_type<Launch, float>(norm, args, stream);
}

}  // namespace vernier::backend::cuda
