// Rows of floats spread over a part of a warp, a warp or a block: thread t holds vectors t,
// t + threads, … of its row, so the order of sums depends on columns and type only. C++17.
#pragma once
#include <type_traits>

#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/device/vectors.cuh"

namespace vernier::backend::cuda {

inline constexpr int kHeld = 32;             // elements of a row that a thread keeps in registers
inline constexpr int kSmallBlock = 128;      // threads of a block that has several rows
inline constexpr int kShortRow = 8;          // threads of a row of up to 8·32 = 256 columns
inline constexpr int kRowThreads = 256;      // of a row of up to 8192; a warp takes 1024
inline constexpr int kLongRowThreads = 512;  // of longer ones, read again for each pass
inline constexpr int64_t kMaxColumns = int64_t{1} << 30;

/// The kThreads threads of one row of fewer than kMaxColumns; T: element type of its arrays.
template <class T, int kThreads_>
struct RowThreads {
  static constexpr int kThreads = kThreads_;
  static constexpr int kN = kLanes<T>;
  static constexpr int kVectors = kHeld / kN;
  static constexpr int kBlock = kThreads > kWarpThreads ? kThreads : kSmallBlock;
  static constexpr int kRowsPerBlock = kBlock / kThreads;
  static constexpr int kMinBlocks = 768 / kBlock;  // 24 warps per multiprocessor: 80 registers

  /// The row of this thread. Threads past the last row take that one, too: whole warps stay
  /// together for their sums, and write what the others write.
  static __device__ int64_t row(int64_t rows) {
    if constexpr (kRowsPerBlock == 1) return blockIdx.x;
    const int64_t own =
        static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.x) / kThreads;
    return own < rows ? own : rows - 1;
  }
  static unsigned blocks(int64_t rows) {
    return static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock);
  }
  /// First column of this thread's vector v.
  static __device__ int column(int v) {
    return (v * kThreads + static_cast<int>(threadIdx.x) % kThreads) * kN;
  }
  /// Columns [c, c + kN) of the row at `at`; `fill` past its end. `aligned`: vectors are, and cols
  /// is a multiple of kN.
  static __device__ void read(const FloatArray& array, int64_t at, int c, int cols, bool aligned,
                              float fill, float (&v)[kN]) {
    if (aligned)
      load_vector<T>(array, at + c, v);
    else
      load_part<T>(array, at + c, cols - c, v, fill);
  }
  /// Every vector of the row that this thread holds. All loads are in flight before any is used.
  static __device__ void read_all(const FloatArray& array, int64_t at, int cols, bool aligned,
                                  float fill, float (&v)[kVectors][kN]) {
    with_type<T>(array, [&](auto element) {
      using E = decltype(element);
      if (aligned) {
#pragma unroll
        for (int k = 0; k < kVectors; ++k) {
          if (column(k) < cols)
            load_vector<E>(array, at + column(k), v[k]);
          else
            fill_vector(fill, v[k]);
        }
      } else {
#pragma unroll
        for (int k = 0; k < kVectors; ++k)
          load_part<E>(array, at + column(k), cols - column(k), v[k], fill);
      }
    });
  }
  static __device__ void write(const FloatArray& array, int64_t at, int c, int cols, bool aligned,
                               const float (&v)[kN]) {
    if (aligned)
      store_vector<T>(array, at + c, v);
    else
      store_part<T>(array, at + c, cols - c, v);
  }
};

/// body(vector, its first column) for each vector of a row of `cols`: of those held in registers,
/// or of read(column, vector) once more. R: a RowThreads.
template <bool kInRegisters, class R, class Read, class Body>
__device__ void for_each_vector(int cols, float (&held)[kInRegisters ? R::kVectors : 1][R::kN],
                                const Read& read, const Body& body) {
  if constexpr (kInRegisters) {
#pragma unroll
    for (int k = 0; k < R::kVectors; ++k) {
      if (R::column(k) < cols) body(held[k], R::column(k));
    }
  } else {
    for (int c = R::column(0); c < cols; c += R::kThreads * R::kN) {
      read(c, held[0]);
      body(held[0], c);
    }
  }
}

/// body(threads, in_registers) — integral constants — for rows of `cols` columns.
template <class Body>
void with_row_size(int64_t cols, const Body& body) {
  if (cols <= kShortRow * kHeld) {
    body(std::integral_constant<int, kShortRow>{}, std::true_type{});
  } else if (cols <= kWarpThreads * kHeld) {
    body(std::integral_constant<int, kWarpThreads>{}, std::true_type{});
  } else if (cols <= kRowThreads * kHeld) {
    body(std::integral_constant<int, kRowThreads>{}, std::true_type{});
  } else {
    body(std::integral_constant<int, kLongRowThreads>{}, std::false_type{});
  }
}
/// body(T{}) for the one element type of a launch; AnyFloat where there are several.
template <class Body>
void with_float_type(DType type, const Body& body) {
  switch (type) {
    case DType::kF32:
      return body(float{});
    case DType::kF16:
      return body(__half{});
    case DType::kBF16:
      return body(__nv_bfloat16{});
    default:
      return body(AnyFloat{});
  }
}

}  // namespace vernier::backend::cuda
