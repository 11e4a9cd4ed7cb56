// LayerNorm, RMSNorm, AddLayerNorm, EmbedNorm and GroupNormalization: 8 threads per row of up to
// 256 columns, a warp up to 1024, a block per longer row. Contract in norm.h. C++17.
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/kernels/norm/norm.h"

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

// One row. x is what its thread holds of it: kCount vectors, or one.
template <class T, int kThreads>
struct NormRow : RowThreads<T, kThreads> {
  using R = RowThreads<T, kThreads>;
  static constexpr int kN = R::kN;
  const NormLaunch& args;
  int64_t row;
  int cols;

  __device__ explicit NormRow(const NormLaunch& launch)
      : args(launch), row(R::row(launch.rows)), cols(static_cast<int>(launch.cols)) {}

  // x = the sources at columns [c, c + kN).
  __device__ void read_sources(int c, float (&x)[kN]) const {
    for (int s = 0; s < args.source_count; ++s) {
      const NormSource& source = args.sources[s];
      float v[kN];
      R::read(source.array, source_offset(source, row, args.cols), c, cols, args.is_aligned, 0, v);
#pragma unroll
      for (int i = 0; i < kN; ++i) x[i] = s == 0 ? v[i] : x[i] + v[i];
    }
  }
  // The same for all columns of this thread.
  __device__ void read_all_sources(float (&x)[R::kVectors][kN]) const {
    const auto read = [&](int s, float(&v)[R::kVectors][kN]) {
      const NormSource& source = args.sources[s];
      R::read_all(source.array, source_offset(source, row, args.cols), cols, args.is_aligned, 0, v);
    };
    read(0, x);
    for (int s = 1; s < args.source_count; ++s) {
      float v[R::kVectors][kN];
      read(s, v);
#pragma unroll
      for (int k = 0; k < R::kVectors * kN; ++k) x[k / kN][k % kN] += v[k / kN][k % kN];
    }
  }

  // body(vector of x, its first column): of held vectors all that are in the row; else x is at c.
  template <int kCount, class Body>
  __device__ void each(float (&x)[kCount][kN], int c, const Body& body) const {
    if constexpr (kCount == 1) {
      body(x[0], c);
    } else {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (R::column(k) < cols) body(x[k], R::column(k));
      }
    }
  }
  // Scales or biases of columns [c, c + kN): one per column, or per channel of a group.
  template <class E>
  __device__ void read_parameter(const FloatArray& array, int c, float (&v)[kN]) const {
    if (args.channels != 0)
      read_channels<E>(array, row * args.row_channels % args.channels, c, v);
    else if (args.is_aligned)
      load_vector<E>(array, c, v);
    else
      load_part<E>(array, c, cols - c, v);
  }
  // combine(element of x, its scale or bias).
  template <int kCount, class Combine>
  __device__ void with_parameter(const FloatArray& array, float (&x)[kCount][kN], int c,
                                 const Combine& combine) const {
    if (array.data == nullptr) return;
    with_type<AnyFloat>(array, [&](auto element) {
      each(x, c, [&](float(&v)[kN], int at) {
        float p[kN];
        read_parameter<decltype(element)>(array, at, p);
#pragma unroll
        for (int i = 0; i < kN; ++i) v[i] = combine(v[i], p[i]);
      });
    });
  }
  // x·scale + bias, both in flight together where they have one type.
  template <int kCount>
  __device__ void scale_and_shift(float (&x)[kCount][kN], int c) const {
    if (args.bias.data == nullptr || args.scale.type != args.bias.type) {
      with_parameter(args.scale, x, c, [](float v, float p) { return v * p; });
      with_parameter(args.bias, x, c, [](float v, float p) { return v + p; });
      return;
    }
    with_type<AnyFloat>(args.scale, [&](auto element) {
      using E = decltype(element);
      each(x, c, [&](float(&v)[kN], int at) {
        float scale[kN], bias[kN];
        read_parameter<E>(args.scale, at, scale);
        read_parameter<E>(args.bias, at, bias);
#pragma unroll
        for (int i = 0; i < kN; ++i) v[i] = v[i] * scale[i] + bias[i];
      });
    });
  }
  template <class E>
  __device__ void read_channels(const FloatArray& array, int64_t first, int c,
                                float (&v)[kN]) const {
    const auto channel = [&](int at) {
      return first + (at < cols ? divide(static_cast<uint32_t>(at), args.channel) : 0);
    };
    v[0] = load_one<E>(array, channel(c));
    const bool one_channel = args.channel.size % kN == 0;
#pragma unroll
    for (int i = 1; i < kN; ++i) v[i] = one_channel ? v[0] : load_one<E>(array, channel(c + i));
  }
  template <int kCount>
  __device__ void write_row(const FloatArray& array, float (&x)[kCount][kN], int c) const {
    each(x, c, [&](const float(&v)[kN], int at) {
      R::write(array, row * args.cols, at, cols, args.is_aligned, v);
    });
  }
  template <int kCount>
  __device__ void finish(float (&x)[kCount][kN], int c, float mean, float correction,
                         float inverse) const {
    if (args.sum.data != nullptr) write_row(args.sum, x, c);
#pragma unroll
    for (int k = 0; k < kCount * kN; ++k)
      x[k / kN][k % kN] = (x[k / kN][k % kN] - mean - correction) * inverse;
    scale_and_shift(x, c);
    write_row(args.y, x, c);
  }
};

template <class T, int kThreads, bool kInRegisters>
__global__ void __launch_bounds__(RowThreads<T, kThreads>::kBlock)
    norm_kernel(const __grid_constant__ NormLaunch args) {
  using R = RowThreads<T, kThreads>;
  constexpr int kN = R::kN;
  allow_next_kernel();
  wait_for_previous_kernel();
  __shared__ float shared[R::kBlock / kWarpThreads];
  const NormRow<T, kThreads> row(args);
  const auto count = static_cast<float>(args.cols);
  float x[kInRegisters ? R::kVectors : 1][kN];
  if constexpr (kInRegisters) row.read_all_sources(x);
  const auto each = [&](const auto& body) {
    const auto read = [&](int c, float(&v)[kN]) { row.read_sources(c, v); };
    for_each_vector<kInRegisters, R>(row.cols, x, read, body);
  };

  float mean = 0, correction = 0, total = 0, squares = 0;
  if (!args.is_rms) {
    each([&](const float(&v)[kN], int) {
#pragma unroll
      for (int i = 0; i < kN; ++i) total += v[i];  // past the end: 0
    });
    mean = sum_row<kThreads>(total, shared) / count;
    total = 0;
  }
  each([&](float(&v)[kN], int c) {
    if (!args.is_aligned) {
#pragma unroll
      for (int i = 0; i < kN; ++i) v[i] = c + i < row.cols ? v[i] : mean;
    }
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      const float d = v[i] - mean;
      total += d;
      squares += d * d;
    }
  });
  if (!args.is_rms) correction = sum_row<kThreads>(total, shared) / count;
  squares = sum_row<kThreads>(squares, shared);
  // NaN and infinity make the row NaN; the correction may leave a variance just below 0.
  const float variance =
      args.is_rms ? squares / count
                  : fmaxf(squares / count - correction * correction, 0.0f) + (squares - squares);
  const float inverse = 1.0f / sqrtf(variance + args.epsilon);
  if constexpr (kInRegisters) {
    row.finish(x, 0, mean, correction, inverse);
  } else {
    for (int c = R::column(0); c < row.cols; c += kThreads * kN) {
      row.read_sources(c, x[0]);
      row.finish(x, c, mean, correction, inverse);
    }
  }
  if (R::column(0) != 0) return;
  if (args.mean.data != nullptr)
    store_one<AnyFloat>(args.mean, row.row, isfinite(mean) ? mean + correction : mean);
  if (args.inverse.data != nullptr) store_one<AnyFloat>(args.inverse, row.row, inverse);
}

}  // namespace

cudaError_t launch_norm(const NormLaunch& args, cudaStream_t stream) {
  if (args.rows == 0 || args.cols == 0) return cudaSuccess;
  cudaError_t status = cudaSuccess;
  with_float_type(args.type, [&](auto element) {
    with_row_size(args.cols, [&](auto threads, auto in_registers) {
      using R = RowThreads<decltype(element), threads.value>;
      status = launch_overlapped(&norm_kernel<decltype(element), threads.value, in_registers.value>,
                                 dim3(R::blocks(args.rows)), dim3(R::kBlock), 0, stream, args);
    });
  });
  return status;
}

}  // namespace vernier::backend::cuda
