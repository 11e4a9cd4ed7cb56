// QuantizeRows: many aligned rows of 16 bits and up to 4096 columns, a warp each, all of which is
// in flight at once; few of them a vector per thread, in little code; others, with the same bits, 8
// threads per row of up to 256 columns, a warp up to 1024, a block per longer row. Contract in
// quantize_rows.h. C++17.
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/quantize_row.cuh"
#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/kernels/elementwise/quantize_rows.h"

namespace vernier::backend::cuda {
namespace {

template <class T, int kThreads, bool kInRegisters>
__global__ void __launch_bounds__(RowThreads<T, kThreads>::kBlock)
    quantize_rows_kernel(const __grid_constant__ QuantizeRowsLaunch args) {
  using R = RowThreads<T, kThreads>;
  constexpr int kN = R::kN;
  __shared__ RowRange shared[R::kBlock / kWarpThreads];
  allow_next_kernel();
  wait_for_previous_kernel();
  const int64_t row = R::row(args.rows), at = offset_of(args.x_rows, row);
  const int cols = static_cast<int>(args.cols);
  float x[kInRegisters ? R::kVectors : 1][kN];
  if constexpr (kInRegisters) R::read_all(args.x, at, cols, args.is_aligned, 0, x);
  const auto each = [&](const auto& body) {
    const auto read = [&](int c, float(&v)[kN]) {
      R::read(args.x, at, c, cols, args.is_aligned, 0, v);
    };
    for_each_vector<kInRegisters, R>(cols, x, read, body);
  };
  PartRange part;
  each([&](float(&v)[kN], int c) {
    multiply_factors(args.factors, c, cols - c, v);
#pragma unroll
    for (int i = 0; i < kN; ++i) part.add(v[i]);  // past the end: 0
  });
  const RowScaling by = args.scale != nullptr
                            ? given_scaling(args.scale, args.zero, args.to_f8)
                            : scaling_of(range_of_row<kThreads>(part, shared), args.to_f8);
  each([&](float(&v)[kN], int c) {
    if constexpr (!kInRegisters) multiply_factors(args.factors, c, cols - c, v);
    store_bytes(args.q, row * args.cols + c, cols - c, args.is_aligned, v, by);
  });
  if (R::column(0) != 0) return;
  if (args.scales != nullptr) args.scales[row] = by.scale;
  if (args.zeros != nullptr) args.zeros[row] = by.zero;
}

constexpr int kWarpsOfBlock = 8, kVectorColumns = 8;  // of 16 bits

// A warp's row: lane l has vectors l, l + 32, … of up to kVectors.
template <class T, int kVectors>
__global__ void __launch_bounds__(kWarpsOfBlock* kWarpThreads)
    quantize_warp_rows_kernel(const __grid_constant__ QuantizeRowsLaunch args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarpsOfBlock +
                      static_cast<int>(threadIdx.x) / kWarpThreads;
  const auto column = [lane](int k) { return (k * kWarpThreads + lane) * kVectorColumns; };
  allow_next_kernel();
  wait_for_previous_kernel();
  if (row >= args.rows) return;
  const T* x = static_cast<const T*>(args.x.data) + offset_of(args.x_rows, row);
  const int cols = static_cast<int>(args.cols);
  Pack<T, kVectorColumns> raw[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (column(k) < cols)
      raw[k] = *reinterpret_cast<const Pack<T, kVectorColumns>*>(x + column(k));
    else
      raw[k] = {};
  }
  const auto widen = [&](int k, float(&v)[kVectorColumns]) {
#pragma unroll
    for (int i = 0; i < kVectorColumns; ++i) v[i] = to_f32(raw[k].element[i]);
    multiply_factors(args.factors, column(k), cols - column(k), v);
  };
  const auto range_of = [&] {
    PartRange part;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      float v[kVectorColumns];
      widen(k, v);
#pragma unroll
      for (int i = 0; i < kVectorColumns; ++i) part.add(v[i]);
    }
    return range_of_row<kWarpThreads>(part, nullptr);
  };
  const RowScaling by = args.scale != nullptr ? given_scaling(args.scale, args.zero, args.to_f8)
                                              : scaling_of(range_of(), args.to_f8);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (column(k) >= cols) continue;
    float v[kVectorColumns];
    widen(k, v);
    store_bytes(args.q, row * args.cols + column(k), kVectorColumns, true, v, by);
  }
  if (lane != 0) return;
  if (args.scales != nullptr) args.scales[row] = by.scale;
  if (args.zeros != nullptr) args.zeros[row] = by.zero;
}

template <class T>
cudaError_t launch_warp_rows(const QuantizeRowsLaunch& args, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((args.rows + kWarpsOfBlock - 1) / kWarpsOfBlock);
  const auto launch = [&](auto vectors) {
    return launch_overlapped(&quantize_warp_rows_kernel<T, vectors.value>, dim3(blocks),
                             dim3(kWarpsOfBlock * kWarpThreads), 0, stream, args);
  };
  constexpr int64_t kColumns = kWarpThreads * kVectorColumns;  // of a vector of every lane
  if (args.cols <= 2 * kColumns) return launch(std::integral_constant<int, 2>{});
  if (args.cols <= 4 * kColumns) return launch(std::integral_constant<int, 4>{});
  if (args.cols <= 6 * kColumns) return launch(std::integral_constant<int, 6>{});
  if (args.cols <= 12 * kColumns) return launch(std::integral_constant<int, 12>{});
  return launch(std::integral_constant<int, 16>{});
}

// Few rows, as norm_few_rows.cu has them: first once on ones, while the kernel before still runs,
// so that the instructions are there. A row has the block's x, whole warps; its y are rows.
constexpr int kFewRowsBlock = 512;
struct FewRowsLaunch {
  QuantizeRowsLaunch args;
  bool runs_empty;
};
template <class T>
__global__ void __launch_bounds__(kFewRowsBlock)
    quantize_few_rows_kernel(const __grid_constant__ FewRowsLaunch launch) {
  const QuantizeRowsLaunch& args = launch.args;
  __shared__ RowRange ranges[kFewRowsBlock / kWarpThreads];
  allow_next_kernel();
  const int thread = static_cast<int>(threadIdx.x), own = static_cast<int>(threadIdx.y);
  const int warps = static_cast<int>(blockDim.x) / kWarpThreads;  // of a row
  const int column = thread * kVectorColumns;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + own;
  const bool has_vector = row < args.rows && column < args.cols;
  const T* from = static_cast<const T*>(args.x.data) + offset_of(args.x_rows, row) + column;
#pragma unroll 1
  for (bool is_real = !launch.runs_empty;; is_real = true) {
    float x[kVectorColumns];
    fill_vector(1.0f, x);
    if (is_real) {
      wait_for_previous_kernel();
      if (has_vector) {
        const auto raw = *reinterpret_cast<const Pack<T, kVectorColumns>*>(from);
#pragma unroll
        for (int i = 0; i < kVectorColumns; ++i) x[i] = to_f32(raw.element[i]);
        multiply_factors(args.factors, column, kVectorColumns, x);
      }
    }
    PartRange part;
    if (has_vector) {
#pragma unroll
      for (const float v : x) part.add(v);
    }
    RowRange range = range_of_row<kWarpThreads>(part, nullptr);
    if (thread % kWarpThreads == 0) ranges[own * warps + thread / kWarpThreads] = range;
    __syncthreads();
    range = ranges[own * warps];
#pragma unroll 1
    for (int w = 1; w < warps; ++w) range = both_ranges(range, ranges[own * warps + w]);
    const RowScaling by = scaling_of(range, args.to_f8);
    if (is_real && has_vector) {
      store_bytes(args.q, row * args.cols + column, kVectorColumns, true, x, by);
      if (thread == 0) {
        if (args.scales != nullptr) args.scales[row] = by.scale;
        if (args.zeros != nullptr) args.zeros[row] = by.zero;
      }
    }
    if (is_real) return;
    __syncthreads();  // the ranges have been read
  }
}

template <class T>
cudaError_t launch_few_rows(const QuantizeRowsLaunch& args, cudaStream_t stream) {
  constexpr int64_t kEmptyRunRows = 512;  // with more rows empty runs are in the way
  constexpr int64_t kOfWarp = kWarpThreads * kVectorColumns;
  const auto threads = static_cast<unsigned>((args.cols + kOfWarp - 1) / kOfWarp * kWarpThreads);
  const unsigned rows = kFewRowsBlock / threads;  // of a block
  return launch_overlapped(
      &quantize_few_rows_kernel<T>, dim3(static_cast<unsigned>((args.rows + rows - 1) / rows)),
      dim3(threads, rows), 0, stream, FewRowsLaunch{args, args.rows <= kEmptyRunRows});
}

}  // namespace

cudaError_t launch_quantize_rows(const QuantizeRowsLaunch& args, cudaStream_t stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  // Of fewer rows a warp's part is too long: 128 of 4096 columns take 3.6 us more (H100).
  constexpr int64_t kMostWarpColumns = 16 * kWarpThreads * kVectorColumns, kFewestWarpRows = 2048,
                    kMostFewRows = 1024;
  static_assert(kMostWarpColumns <= kFewRowsBlock * kVectorColumns);
  if (args.is_aligned && args.cols <= kMostWarpColumns && args.rows <= kMostFewRows &&
      args.scale == nullptr) {
    if (args.x.type == DType::kF16) return launch_few_rows<__half>(args, stream);
    if (args.x.type == DType::kBF16) return launch_few_rows<__nv_bfloat16>(args, stream);
  }
  if (args.is_aligned && args.cols <= kMostWarpColumns && args.rows >= kFewestWarpRows) {
    if (args.x.type == DType::kF16) return launch_warp_rows<__half>(args, stream);
    if (args.x.type == DType::kBF16) return launch_warp_rows<__nv_bfloat16>(args, stream);
  }
  cudaError_t status = cudaSuccess;
  with_float_type(args.x.type, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_same_v<T, AnyFloat>) {
      status = cudaErrorInvalidValue;
    } else {
      with_row_size(args.cols, [&](auto threads, auto in_registers) {
        using R = RowThreads<T, threads.value>;
        status = launch_overlapped(&quantize_rows_kernel<T, threads.value, in_registers.value>,
                                   dim3(R::blocks(args.rows)), dim3(R::kBlock), 0, stream, args);
      });
    }
  });
  return status;
}

}  // namespace vernier::backend::cuda
