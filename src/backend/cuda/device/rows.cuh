// Rows of floats spread over one warp or one block: thread t holds vectors t, t + threads, … of its
// row, so the order of sums depends on columns and type only. C++17.
#pragma once
#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/device/vectors.cuh"

namespace vernier::backend::cuda {

inline constexpr int kHeld = 32;          // elements of a row that a thread keeps in registers
inline constexpr int kWarpsPerBlock = 4;  // rows per block where a row is a warp's
inline constexpr int kRowWarps = 8;       // up to 8·32·32 = 8192 columns in registers
inline constexpr int kLongRowWarps = 16;  // longer rows, read again for each pass

/// The threads of one row, kWarps of them warps; T: element type of the row's arrays.
template <class T, int kWarps>
struct RowThreads {
  static constexpr int kN = kLanes<T>;
  static constexpr int kVectors = kHeld / kN;
  static constexpr int kThreads = kWarps * kWarpThreads;
  static constexpr int kBlockThreads = kWarps == 1 ? kWarpsPerBlock * kWarpThreads : kThreads;

  /// The row of this thread; may be past the last one.
  static __device__ int64_t row() {
    if constexpr (kWarps > 1) return blockIdx.x;
    return static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarpThreads;
  }
  /// First column of this thread's vector v.
  static __device__ int64_t column(int64_t v) {
    return (v * kThreads + threadIdx.x % kThreads) * kN;
  }
  /// Every vector of the row that begins at `at`; 0 past its end. All loads are under way before
  /// any is used. `aligned`: vectors are, and cols is a multiple of kN.
  static __device__ void read_all(const FloatArray& array, int64_t at, int64_t cols, bool aligned,
                                  float (&v)[kVectors][kN]) {
    if (aligned) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        if (column(k) < cols)
          load_vector<T>(array, at + column(k), v[k]);
        else
          load_part<T>(array, 0, 0, v[k]);
      }
    } else {
#pragma unroll
      for (int k = 0; k < kVectors; ++k)
        load_part<T>(array, at + column(k), cols - column(k), v[k]);
    }
  }
  /// Columns [c, c + kN) of the row at `at`.
  static __device__ void read(const FloatArray& array, int64_t at, int64_t c, int64_t cols,
                              bool aligned, float (&v)[kN]) {
    if (aligned)
      load_vector<T>(array, at + c, v);
    else
      load_part<T>(array, at + c, cols - c, v);
  }
  static __device__ void write(const FloatArray& array, int64_t at, int64_t c, int64_t cols,
                               bool aligned, const float (&v)[kN]) {
    if (aligned)
      store_vector<T>(array, at + c, v);
    else
      store_part<T>(array, at + c, cols - c, v);
  }
};

/// body(vector, its first column) for each vector of a row of `cols`: of those held in registers,
/// or of read(column, vector) once more. R: a RowThreads.
template <bool kInRegisters, class R, class Read, class Body>
__device__ void for_each_vector(int64_t cols,
                                float (&held)[kInRegisters ? R::kVectors : 1][R::kN],
                                const Read& read, const Body& body) {
  if constexpr (kInRegisters) {
#pragma unroll
    for (int k = 0; k < R::kVectors; ++k) {
      if (R::column(k) < cols) body(held[k], R::column(k));
    }
  } else {
    for (int64_t c = R::column(0); c < cols; c += R::kThreads * R::kN) {
      read(c, held[0]);
      body(held[0], c);
    }
  }
}

/// body(warps, in_registers) — integral constants — for rows of `cols` columns.
template <class Body>
void with_row_size(int64_t cols, const Body& body) {
  if (cols <= kWarpThreads * kHeld) {
    body(std::integral_constant<int, 1>{}, std::true_type{});
  } else if (cols <= kRowWarps * kWarpThreads * kHeld) {
    body(std::integral_constant<int, kRowWarps>{}, std::true_type{});
  } else {
    body(std::integral_constant<int, kLongRowWarps>{}, std::false_type{});
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
