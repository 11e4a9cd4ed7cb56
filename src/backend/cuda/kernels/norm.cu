// LayerNorm, RMSNorm, AddLayerNorm, EmbedNorm and GroupNormalization: one warp per row of up to
// 1024 columns, one block per longer row. Contract in norm.h. C++17.
#include "backend/cuda/kernels/norm.h"

#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/kernels/norm_dense.h"

namespace vernier::backend::cuda {
namespace {

__device__ int64_t source_offset(const NormSource& source, int64_t row, int64_t cols) {
  const int64_t at = offset_of(source.index, row);
  if (source.ids.data == nullptr) return at;
  int64_t id = source.ids.type == DType::kI32 ? static_cast<const int32_t*>(source.ids.data)[at]
                                              : static_cast<const int64_t*>(source.ids.data)[at];
  if (id < 0) id += source.table_rows;
  if (id < 0 || id >= source.table_rows) id = 0;
  return id * cols;
}

template <class T, int kWarps>
struct NormRow : RowThreads<T, kWarps> {
  using R = RowThreads<T, kWarps>;
  static constexpr int kN = R::kN;
  const NormLaunch& args;
  int64_t row;

  __device__ explicit NormRow(const NormLaunch& launch) : args(launch), row(R::row()) {}

  // x = the sources at columns [c, c + kN).
  __device__ void read_sources(int64_t c, float (&x)[kN]) const {
    for (int s = 0; s < args.source_count; ++s) {
      const NormSource& source = args.sources[s];
      float v[kN];
      R::read(source.array, source_offset(source, row, args.cols), c, args.cols, args.is_aligned,
              v);
#pragma unroll
      for (int i = 0; i < kN; ++i) x[i] = s == 0 ? v[i] : x[i] + v[i];
    }
  }
  // The same for all columns of this thread.
  __device__ void read_all_sources(float (&x)[R::kVectors][kN]) const {
    for (int s = 0; s < args.source_count; ++s) {
      const NormSource& source = args.sources[s];
      float v[R::kVectors][kN];
      R::read_all(source.array, source_offset(source, row, args.cols), args.cols, args.is_aligned,
                  v);
#pragma unroll
      for (int k = 0; k < R::kVectors; ++k) {
#pragma unroll
        for (int i = 0; i < kN; ++i) x[k][i] = s == 0 ? v[k][i] : x[k][i] + v[k][i];
      }
    }
  }

  // Scale or bias of columns [c, c + kN): one per column, or per channel of a group.
  __device__ void read_parameter(const FloatArray& array, int64_t c, float (&v)[kN]) const {
    if (args.channels == 0) {
      if (args.is_aligned)
        load_vector<AnyFloat>(array, c, v);
      else
        load_part<AnyFloat>(array, c, args.cols - c, v);
      return;
    }
    const int64_t first = row * args.row_channels % args.channels;
    const auto channel = [&](int64_t at) {
      return first + (at < args.cols ? divide(static_cast<uint32_t>(at), args.channel) : 0);
    };
    v[0] = load_one<AnyFloat>(array, channel(c));
    const bool one_channel = args.channel.size % kN == 0;
#pragma unroll
    for (int i = 1; i < kN; ++i) v[i] = one_channel ? v[0] : load_one<AnyFloat>(array, channel(c + i));
  }
  __device__ void write_row(const FloatArray& array, int64_t c, const float (&v)[kN]) const {
    R::write(array, row * args.cols, c, args.cols, args.is_aligned, v);
  }
  __device__ void finish(int64_t c, float (&x)[kN], float mean, float correction,
                         float inverse) const {
    if (args.sum.data != nullptr) write_row(args.sum, c, x);
    float p[kN];
#pragma unroll
    for (int i = 0; i < kN; ++i) x[i] = __fmul_rn(x[i] - mean - correction, inverse);
    if (args.scale.data != nullptr) {
      read_parameter(args.scale, c, p);
#pragma unroll
      for (int i = 0; i < kN; ++i) x[i] = __fmul_rn(x[i], p[i]);
    }
    if (args.bias.data != nullptr) {
      read_parameter(args.bias, c, p);
#pragma unroll
      for (int i = 0; i < kN; ++i) x[i] = __fadd_rn(x[i], p[i]);
    }
    write_row(args.y, c, x);
  }
};

template <class T, int kWarps, bool kInRegisters>
__global__ void __launch_bounds__(RowThreads<T, kWarps>::kBlockThreads)
    norm_kernel(const __grid_constant__ NormLaunch args) {
  using R = RowThreads<T, kWarps>;
  constexpr int kN = R::kN;
  __shared__ float shared[kWarps];
  const NormRow<T, kWarps> row(args);
  if (row.row >= args.rows) return;  // a whole warp, or never
  const auto cols = static_cast<float>(args.cols);
  float x[kInRegisters ? R::kVectors : 1][kN];
  if constexpr (kInRegisters) row.read_all_sources(x);
  const auto each = [&](const auto& body) {
    const auto read = [&](int64_t c, float(&v)[kN]) { row.read_sources(c, v); };
    for_each_vector<kInRegisters, R>(args.cols, x, read, body);
  };

  float mean = 0, correction = 0, total = 0, squares = 0;
  if (!args.is_rms) {
    each([&](const float(&v)[kN], int64_t) {
#pragma unroll
      for (int i = 0; i < kN; ++i) total += v[i];  // past the end: 0
    });
    mean = sum_row<kWarps>(total, shared) / cols;
    total = 0;
  }
  each([&](const float(&v)[kN], int64_t c) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const float d = c + i < args.cols ? v[i] - mean : 0.0f;
      total += d;
      squares = __fmaf_rn(d, d, squares);
    }
  });
  if (!args.is_rms) correction = sum_row<kWarps>(total, shared) / cols;
  squares = sum_row<kWarps>(squares, shared);
  // NaN and infinity make the row NaN; the correction may leave a variance just below 0.
  const float variance =
      args.is_rms ? squares / cols
                  : fmaxf(__fmaf_rn(-correction, correction, squares / cols), 0.0f) + (squares - squares);
  const float inverse = 1.0f / sqrtf(variance + args.epsilon);
  each([&](float(&v)[kN], int64_t c) { row.finish(c, v, mean, correction, inverse); });
  if (R::column(0) != 0) return;
  if (args.mean.data != nullptr)
    store_one<AnyFloat>(args.mean, row.row, isfinite(mean) ? mean + correction : mean);
  if (args.inverse.data != nullptr) store_one<AnyFloat>(args.inverse, row.row, inverse);
}

}  // namespace

cudaError_t launch_norm(const NormLaunch& args, cudaStream_t stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  if (is_dense_norm(args)) return launch_norm_dense(args, stream);
  with_float_type(args.type, [&](auto element) {
    with_row_size(args.cols, [&](auto warps, auto in_registers) {
      using R = RowThreads<decltype(element), warps.value>;
      const auto rows = static_cast<unsigned>(args.rows);
      const unsigned blocks =
          warps.value == 1 ? (rows + kWarpsPerBlock - 1) / kWarpsPerBlock : rows;
      norm_kernel<decltype(element), warps.value, in_registers.value>
          <<<blocks, R::kBlockThreads, 0, stream>>>(args);
    });
  });
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
