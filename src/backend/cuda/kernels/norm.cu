// LayerNorm, RMSNorm, AddLayerNorm, EmbedNorm and GroupNormalization: one warp per row of up to
// 1024 columns, one block per longer row. Contract in norm.h. C++17.
#include "backend/cuda/kernels/norm.h"

#include "backend/cuda/device/sums.cuh"
#include "backend/cuda/device/vectors.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kHeld = 32;           // elements of a row that a thread keeps in registers
constexpr int kWarpsPerBlock = 4;   // rows per block where a row is a warp's
constexpr int kRowWarps = 8;        // up to 8·32·32 = 8192 columns
constexpr int kLongRowWarps = 16;   // longer ones, read again for each pass

__device__ int64_t source_offset(const NormSource& source, int64_t row, int64_t cols) {
  const int64_t at = offset_of(source.index, row);
  if (source.ids.data == nullptr) return at;
  int64_t id = source.ids.type == DType::kI32 ? static_cast<const int32_t*>(source.ids.data)[at]
                                              : static_cast<const int64_t*>(source.ids.data)[at];
  if (id < 0) id += source.table_rows;
  if (id < 0 || id >= source.table_rows) id = 0;
  return id * cols;
}

// The threads of one row. Vector v of a thread is columns [column(v), column(v) + kN).
template <class T, int kWarps>
struct Row {
  static constexpr int kN = kLanes<T>;
  static constexpr int kVectors = kHeld / kN;
  static constexpr int kThreads = kWarps * kWarpThreads;
  const NormLaunch& args;
  int64_t row;

  __device__ int64_t column(int64_t v) const {
    return (v * kThreads + threadIdx.x % kThreads) * kN;
  }
  __device__ void read(int64_t c, float (&x)[kN]) const {
    for (int s = 0; s < args.source_count; ++s) {
      const NormSource& source = args.sources[s];
      const int64_t at = source_offset(source, row, args.cols) + c;
      float v[kN];
      load_part<T>(source.array, at, args.cols - c, v);
#pragma unroll
      for (int i = 0; i < kN; ++i) x[i] = s == 0 ? v[i] : x[i] + v[i];
    }
  }
  // Every vector of the row at `at`; 0 past its end. All loads are under way before any is used.
  __device__ void read_vectors(const FloatArray& array, int64_t at,
                               float (&v)[kVectors][kN]) const {
    if (args.is_aligned) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        if (column(k) < args.cols)
          load_vector<T>(array, at + column(k), v[k]);
        else
          load_part<T>(array, 0, 0, v[k]);
      }
    } else {
#pragma unroll
      for (int k = 0; k < kVectors; ++k)
        load_part<T>(array, at + column(k), args.cols - column(k), v[k]);
    }
  }
  __device__ void read_all(float (&x)[kVectors][kN]) const {
    for (int s = 0; s < args.source_count; ++s) {
      const NormSource& source = args.sources[s];
      const int64_t at = source_offset(source, row, args.cols);
      float v[kVectors][kN];
      read_vectors(source.array, at, v);
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
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
  __device__ void write(const FloatArray& array, int64_t c, const float (&v)[kN]) const {
    const int64_t at = row * args.cols + c;
    if (args.is_aligned)
      store_vector<T>(array, at, v);
    else
      store_part<T>(array, at, args.cols - c, v);
  }
  __device__ void finish(int64_t c, float (&x)[kN], float mean, float correction,
                         float inverse) const {
    if (args.sum.data != nullptr) write(args.sum, c, x);
    float p[kN];
#pragma unroll
    for (int i = 0; i < kN; ++i) x[i] = (x[i] - mean - correction) * inverse;
    if (args.scale.data != nullptr) {
      read_parameter(args.scale, c, p);
#pragma unroll
      for (int i = 0; i < kN; ++i) x[i] *= p[i];
    }
    if (args.bias.data != nullptr) {
      read_parameter(args.bias, c, p);
#pragma unroll
      for (int i = 0; i < kN; ++i) x[i] += p[i];
    }
    write(args.y, c, x);
  }
};

// body(vector of x, its first column) for each vector of the row: from registers, or read again.
template <bool kInRegisters, class R, class Body>
__device__ void for_each_vector(const R& row, float (&held)[kInRegisters ? R::kVectors : 1][R::kN],
                                const Body& body) {
  if constexpr (kInRegisters) {
#pragma unroll
    for (int k = 0; k < R::kVectors; ++k) {
      if (row.column(k) < row.args.cols) body(held[k], row.column(k));
    }
  } else {
    for (int64_t c = row.column(0); c < row.args.cols; c += R::kThreads * R::kN) {
      row.read(c, held[0]);
      body(held[0], c);
    }
  }
}

template <class T, int kWarps, bool kInRegisters>
__global__ void __launch_bounds__(kWarps == 1 ? kWarpsPerBlock * kWarpThreads
                                              : kWarps * kWarpThreads)
    norm_kernel(const __grid_constant__ NormLaunch args) {
  using R = Row<T, kWarps>;
  constexpr int kN = R::kN;
  __shared__ float shared[kWarps];
  const R row{args, kWarps == 1 ? static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock +
                                      threadIdx.x / kWarpThreads
                                : static_cast<int64_t>(blockIdx.x)};
  if (row.row >= args.rows) return;  // a whole warp, or never
  const auto cols = static_cast<float>(args.cols);
  float x[kInRegisters ? R::kVectors : 1][kN];
  if constexpr (kInRegisters) row.read_all(x);

  float mean = 0, correction = 0, total = 0, squares = 0;
  if (!args.is_rms) {
    for_each_vector<kInRegisters>(row, x, [&](const float(&v)[kN], int64_t) {
#pragma unroll
      for (int i = 0; i < kN; ++i) total += v[i];  // past the end: 0
    });
    mean = sum_row<kWarps>(total, shared) / cols;
    total = 0;
  }
  for_each_vector<kInRegisters>(row, x, [&](const float(&v)[kN], int64_t c) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const float d = c + i < args.cols ? v[i] - mean : 0.0f;
      total += d;
      squares += d * d;
    }
  });
  if (!args.is_rms) correction = sum_row<kWarps>(total, shared) / cols;
  squares = sum_row<kWarps>(squares, shared);
  // NaN and infinity make the row NaN; the correction may leave a variance just below 0.
  const float variance =
      args.is_rms ? squares / cols
                  : fmaxf(squares / cols - correction * correction, 0.0f) + (squares - squares);
  const float inverse = 1.0f / sqrtf(variance + args.epsilon);
  for_each_vector<kInRegisters>(row, x, [&](float(&v)[kN], int64_t c) {
    row.finish(c, v, mean, correction, inverse);
  });
  if (row.column(0) != 0) return;
  if (args.mean.data != nullptr)
    store_one<AnyFloat>(args.mean, row.row, isfinite(mean) ? mean + correction : mean);
  if (args.inverse.data != nullptr) store_one<AnyFloat>(args.inverse, row.row, inverse);
}

template <class T>
void launch_typed(const NormLaunch& args, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(args.rows);
  if (args.cols <= kWarpThreads * kHeld) {
    const unsigned blocks = (rows + kWarpsPerBlock - 1) / kWarpsPerBlock;
    norm_kernel<T, 1, true><<<blocks, kWarpsPerBlock * kWarpThreads, 0, stream>>>(args);
  } else if (args.cols <= kRowWarps * kWarpThreads * kHeld) {
    norm_kernel<T, kRowWarps, true><<<rows, kRowWarps * kWarpThreads, 0, stream>>>(args);
  } else {
    norm_kernel<T, kLongRowWarps, false><<<rows, kLongRowWarps * kWarpThreads, 0, stream>>>(args);
  }
}

}  // namespace

cudaError_t launch_norm(const NormLaunch& args, cudaStream_t stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  switch (args.type) {
    case DType::kF32:
      launch_typed<float>(args, stream);
      break;
    case DType::kF16:
      launch_typed<__half>(args, stream);
      break;
    case DType::kBF16:
      launch_typed<__nv_bfloat16>(args, stream);
      break;
    default:
      launch_typed<AnyFloat>(args, stream);
  }
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
