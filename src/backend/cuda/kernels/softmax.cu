// Softmax, LogSoftmax, Hardmax and LpNormalization: one warp per row of up to 1024 columns, one
// block per longer row, one thread per line along another axis. Contract in softmax.h. C++17.
#include "backend/cuda/kernels/softmax.h"

#include "backend/cuda/device/rows.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kColumnThreads = 128;
constexpr int64_t kNone = INT64_MAX;

// What has been found out about a line, and its results from that.
struct Line {
  LineKind kind;
  float max = 0;       // softmax, hardmax; NaN if there is one
  float scale = 0;     // softmax: 1 / sum; LogSoftmax: ln sum
  double norm = 0;     // kL1, kL2
  int64_t first = kNone;  // hardmax: of the largest

  __device__ bool has_max() const { return kind <= LineKind::kHardmax; }
  __device__ bool has_sum() const { return kind <= LineKind::kLogSoftmax; }
  __device__ double norm_term(float x) const {
    return kind == LineKind::kL1 ? fabs(static_cast<double>(x))
                                 : static_cast<double>(x) * static_cast<double>(x);
  }
  __device__ void take_sum(float sum) { scale = kind == LineKind::kSoftmax ? 1.0f / sum : logf(sum); }
  __device__ void take_norm(double sum) { norm = kind == LineKind::kL1 ? sum : sqrt(sum); }
  /// The result for element `at` of the line; x: the element, of a softmax held in registers its
  /// exponential.
  __device__ float finish(float x, int64_t at, bool is_exponential) const {
    switch (kind) {
      case LineKind::kSoftmax:
        return (is_exponential ? x : expf(x - max)) * scale;
      case LineKind::kLogSoftmax:
        return x - max - scale;
      case LineKind::kHardmax:
        return max != max ? max : (at == first ? 1.0f : 0.0f);
      default:
        return norm == 0 ? 0.0f : static_cast<float>(static_cast<double>(x) / norm);
    }
  }
};

template <class T, int kWarps, bool kInRegisters>
__global__ void __launch_bounds__(RowThreads<T, kWarps>::kBlockThreads)
    row_kernel(const __grid_constant__ LineLaunch args) {
  using R = RowThreads<T, kWarps>;
  constexpr int kN = R::kN;
  __shared__ double shared[kWarps];  // of floats, doubles and indices in turn
  auto* floats = reinterpret_cast<float*>(shared);
  const int64_t row = R::row(), cols = args.size;
  if (row >= args.lines) return;  // a whole warp, or never
  const int64_t from = offset_of(args.x_lines, row), to = offset_of(args.y_lines, row);
  float x[kInRegisters ? R::kVectors : 1][kN];
  if constexpr (kInRegisters) R::read_all(args.x, from, cols, args.is_aligned, x);
  const auto each = [&](const auto& body) {
    const auto read = [&](int64_t c, float(&v)[kN]) {
      R::read(args.x, from, c, cols, args.is_aligned, v);
    };
    for_each_vector<kInRegisters, R>(cols, x, read, [&](float(&v)[kN], int64_t c) {
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        if (c + i < cols) body(v[i], c + i);
      }
    });
  };

  Line line{args.kind};
  if (line.has_max()) {
    float max = -INFINITY;
    each([&](float v, int64_t) { max = v > max || v != v ? v : max; });
    line.max = max_row<kWarps>(max, floats);
  }
  if (line.has_sum()) {
    float sum = 0;
    const bool keep = kInRegisters && line.kind == LineKind::kSoftmax;
    each([&](float& v, int64_t) {
      const float e = expf(v - line.max);
      sum += e;
      if (keep) v = e;
    });
    line.take_sum(sum_row<kWarps>(sum, floats));
  } else if (line.kind == LineKind::kHardmax) {
    int64_t first = kNone;
    each([&](float v, int64_t c) { first = v == line.max && c < first ? c : first; });
    line.first = combine_row<kWarps>(first, reinterpret_cast<int64_t*>(shared),
                                     [](int64_t a, int64_t b) { return a < b ? a : b; });
  } else {
    double sum = 0;
    each([&](float v, int64_t) { sum += line.norm_term(v); });
    line.take_norm(combine_row<kWarps>(sum, shared, [](double a, double b) { return a + b; }));
  }
  const auto read = [&](int64_t c, float(&v)[kN]) {
    R::read(args.x, from, c, cols, args.is_aligned, v);
  };
  for_each_vector<kInRegisters, R>(cols, x, read, [&](float(&v)[kN], int64_t c) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = line.finish(v[i], c + i, kInRegisters);
    R::write(args.y, to, c, cols, args.is_aligned, v);
  });
}

// Any steps; neighbouring threads have neighbouring lines.
__global__ void __launch_bounds__(kColumnThreads)
    column_kernel(const __grid_constant__ LineLaunch args) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x;
  if (index >= args.lines) return;
  const int64_t from = offset_of(args.x_lines, index), to = offset_of(args.y_lines, index);
  const auto at = [&](int64_t i) { return load_one<AnyFloat>(args.x, from + i * args.x_step); };
  Line line{args.kind};
  if (line.has_max()) {
    line.max = -INFINITY;
    for (int64_t i = 0; i < args.size; ++i) {
      const float v = at(i);
      if (line.max == line.max && (v > line.max || v != v)) line.max = v;
    }
  }
  if (line.has_sum()) {
    float sum = 0;
    for (int64_t i = 0; i < args.size; ++i) sum += expf(at(i) - line.max);
    line.take_sum(sum);
  } else if (line.kind == LineKind::kHardmax) {
    for (int64_t i = args.size - 1; i >= 0; --i) {
      if (at(i) == line.max) line.first = i;
    }
  } else {
    double sum = 0;
    for (int64_t i = 0; i < args.size; ++i) sum += line.norm_term(at(i));
    line.take_norm(sum);
  }
  for (int64_t i = 0; i < args.size; ++i)
    store_one<AnyFloat>(args.y, to + i * args.y_step, line.finish(at(i), i, false));
}

}  // namespace

cudaError_t launch_lines(const LineLaunch& args, cudaStream_t stream) {
  if (args.lines == 0 || args.size == 0) return cudaSuccess;
  const auto lines = static_cast<unsigned>(args.lines);
  if (args.x_step != 1 || args.y_step != 1) {
    const unsigned blocks = (lines + kColumnThreads - 1) / kColumnThreads;
    column_kernel<<<blocks, kColumnThreads, 0, stream>>>(args);
    return cudaGetLastError();
  }
  with_float_type(args.type, [&](auto element) {
    with_row_size(args.size, [&](auto warps, auto in_registers) {
      using R = RowThreads<decltype(element), warps.value>;
      const unsigned blocks =
          warps.value == 1 ? (lines + kWarpsPerBlock - 1) / kWarpsPerBlock : lines;
      row_kernel<decltype(element), warps.value, in_registers.value>
          <<<blocks, R::kBlockThreads, 0, stream>>>(args);
    });
  });
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
