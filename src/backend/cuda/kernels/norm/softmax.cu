// LogSoftmax, Hardmax, LpNormalization, and softmax where softmax_packed.cu has none: 8 threads per
// row of up to 256 columns, a warp up to 1024, a block per longer row; 8 threads per line along
// another axis. Contract in softmax.h. C++17.
#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/kernels/norm/softmax_packed.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kColumns = 32, kSlices = 8;  // lines of a block, threads per line
constexpr int kNone = INT32_MAX;

/// One thread's part of a line, and the threads that share it:
///   each(body)     body(element by reference, its place) for this thread's elements
///   sum, max, min_place, sum_of_doubles   over all threads of the line
///   rewrite(f)     element = f(element as it was or as each() left it, its place), stored
/// `keeps`: what each() writes to an element stays until rewrite.
template <class Part>
__device__ void normalise(Part& part, LineKind kind) {
  if (kind == LineKind::kL1 || kind == LineKind::kL2) {
    double sum = 0;
    part.each([&](float& v, int) {
      const auto x = static_cast<double>(v);
      sum += kind == LineKind::kL1 ? fabs(x) : x * x;
    });
    sum = part.sum_of_doubles(sum);
    const double norm = kind == LineKind::kL1 ? sum : sqrt(sum);
    part.rewrite([&](float v, int) {
      return norm == 0 ? 0.0f : static_cast<float>(static_cast<double>(v) / norm);
    });
    return;
  }
  float max = -INFINITY, nan = 0;  // nan: 0, or NaN if there is one
  part.each([&](float& v, int) { max = fmaxf(max, v); });
  max = part.max(max);
  if (kind == LineKind::kHardmax) {
    int first = kNone;
    part.each([&](float& v, int at) {
      first = v == max && at < first ? at : first;
      nan = v != v ? v : nan;
    });
    first = part.min_place(first);
    nan = part.sum(nan);
    part.rewrite([&](float, int at) { return nan != nan ? nan : (at == first ? 1.0f : 0.0f); });
    return;
  }
  float sum = 0;
  if (kind == LineKind::kSoftmax) {
    part.each([&](float& v, int) {
      const float e = expf(v - max);
      sum += e;
      if (Part::kKeeps) v = e;
    });
    const float scale = 1.0f / part.sum(sum);
    part.rewrite([&](float v, int) { return (Part::kKeeps ? v : expf(v - max)) * scale; });
    return;
  }
  part.each([&](float& v, int) { sum += expf(v - max); });
  const float log_sum = logf(part.sum(sum));
  part.rewrite([&](float v, int) { return v - max - log_sum; });
}

// A row of neighbors, in vectors.
template <class T, int kThreads, bool kInRegisters>
struct RowPart {
  using R = RowThreads<T, kThreads>;
  static constexpr int kN = R::kN;
  static constexpr bool kKeeps = kInRegisters;
  const LineLaunch& args;
  double* shared;
  int64_t from, to;
  int cols;
  float fill;  // past the end: changes neither sums nor the maximum
  float x[kInRegisters ? R::kVectors : 1][kN];

  __device__ RowPart(const LineLaunch& launch, double* memory) : args(launch), shared(memory) {
    const int64_t row = R::row(args.lines);
    from = offset_of(args.x_lines, row);
    to = offset_of(args.y_lines, row);
    cols = static_cast<int>(args.size);
    fill = args.kind <= LineKind::kHardmax ? -INFINITY : 0.0f;
    if constexpr (kInRegisters) R::read_all(args.x, from, cols, args.is_aligned, fill, x);
  }
  template <class Body>
  __device__ void vectors(const Body& body) {
    for_each_vector<kInRegisters, R>(
        cols, x,
        [&](int c, float(&v)[kN]) { R::read(args.x, from, c, cols, args.is_aligned, fill, v); },
        body);
  }
  template <class Body>
  __device__ void each(const Body& body) {
    vectors([&](float(&v)[kN], int c) {
#pragma unroll
      for (int i = 0; i < kN; ++i) body(v[i], c + i);
    });
  }
  template <class F>
  __device__ void rewrite(const F& f) {
    vectors([&](float(&v)[kN], int c) {
#pragma unroll
      for (int i = 0; i < kN; ++i) v[i] = f(v[i], c + i);
      R::write(args.y, to, c, cols, args.is_aligned, v);
    });
  }
  __device__ float sum(float v) { return sum_row<kThreads>(v, as<float>()); }
  __device__ float max(float v) { return max_row<kThreads>(v, as<float>()); }
  __device__ double sum_of_doubles(double v) {
    return combine_row<kThreads>(v, shared, [](double a, double b) { return a + b; });
  }
  __device__ int min_place(int v) {
    return combine_row<kThreads>(v, as<int>(), [](int a, int b) { return a < b ? a : b; });
  }
  template <class V>
  __device__ V* as() {
    return reinterpret_cast<V*>(shared);
  }
};

template <class T, int kThreads, bool kInRegisters>
__global__ void __launch_bounds__(RowThreads<T, kThreads>::kBlock,
                                  RowThreads<T, kThreads>::kMinBlocks)
    row_kernel(const __grid_constant__ LineLaunch args) {
  __shared__ double shared[RowThreads<T, kThreads>::kBlock / kWarpThreads];
  RowPart<T, kThreads, kInRegisters> part(args, shared);
  normalise(part, args.kind);
}

// A line along another axis: every kSlices-th element of it; neighboring threads of a warp have
// neighboring lines.
template <class T>
struct ColumnPart {
  static constexpr bool kKeeps = false;
  const LineLaunch& args;
  double (*shared)[kColumns];
  int column, slice;
  bool is_line;
  int64_t from, to;

  __device__ ColumnPart(const LineLaunch& launch, double (*memory)[kColumns])
      : args(launch), shared(memory) {
    column = threadIdx.x % kColumns;
    slice = threadIdx.x / kColumns;
    const int64_t line = static_cast<int64_t>(blockIdx.x) * kColumns + column;
    is_line = line < args.lines;
    from = is_line ? offset_of(args.x_lines, line) : 0;
    to = is_line ? offset_of(args.y_lines, line) : 0;
  }
  template <class Body>
  __device__ void each(const Body& body) {
    if (!is_line) return;
#pragma unroll 4
    for (int i = slice; i < args.size; i += kSlices) {
      float v = load_one<T>(args.x, from + i * args.x_step);
      body(v, i);
    }
  }
  template <class F>
  __device__ void rewrite(const F& f) {
    each([&](float v, int i) { store_one<T>(args.y, to + i * args.y_step, f(v, i)); });
  }
  template <class V, class Combine>
  __device__ V combine(V value, const Combine& f) {
    __syncthreads();  // the previous result has been read
    auto* mine = reinterpret_cast<V*>(&shared[slice][column]);
    *mine = value;
    __syncthreads();
    value = *reinterpret_cast<V*>(&shared[0][column]);
#pragma unroll
    for (int s = 1; s < kSlices; ++s) value = f(value, *reinterpret_cast<V*>(&shared[s][column]));
    return value;
  }
  __device__ float sum(float v) {
    return combine(v, [](float a, float b) { return a + b; });
  }
  __device__ float max(float v) {
    return combine(v, [](float a, float b) { return fmaxf(a, b); });
  }
  __device__ double sum_of_doubles(double v) {
    return combine(v, [](double a, double b) { return a + b; });
  }
  __device__ int min_place(int v) {
    return combine(v, [](int a, int b) { return a < b ? a : b; });
  }
};

template <class T>
__global__ void __launch_bounds__(kColumns* kSlices)
    column_kernel(const __grid_constant__ LineLaunch args) {
  __shared__ double shared[kSlices][kColumns];
  ColumnPart<T> part(args, shared);
  normalise(part, args.kind);
}

}  // namespace

cudaError_t launch_lines(const LineLaunch& args, cudaStream_t stream) {
  if (args.lines == 0 || args.size == 0) return cudaSuccess;
  if (is_packed_softmax(args)) return launch_softmax_packed(args, stream);
  with_float_type(args.type, [&](auto element) {
    using T = decltype(element);
    if (!args.is_last_axis) {
      const auto blocks = static_cast<unsigned>((args.lines + kColumns - 1) / kColumns);
      column_kernel<T><<<blocks, kColumns * kSlices, 0, stream>>>(args);
      return;
    }
    with_row_size(args.size, [&](auto threads, auto in_registers) {
      using R = RowThreads<T, threads.value>;
      row_kernel<T, threads.value, in_registers.value>
          <<<R::blocks(args.lines), R::kBlock, 0, stream>>>(args);
    });
  });
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
