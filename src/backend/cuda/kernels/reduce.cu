// Reduce*: one warp or block per output where its elements are neighbours, else 32 neighbouring
// outputs per block. Contract in reduce.h. C++17.
#include "backend/cuda/kernels/reduce.h"

#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/device/scalars.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kSlices = 8;              // parts of a group that are reduced beside each other
constexpr int kRowColumns = 32;         // outputs per block of column_kernel
constexpr int64_t kLongRow = 4096;      // elements from which a row gets a block
constexpr int kLongRowBlockWarps = 16;

// ---- what is carried: double, or int64_t

template <class A>
__device__ A load_as(const AnyArray& array, int64_t at) {
  if constexpr (std::is_same_v<A, int64_t>) {
    return load_int64(array, at);
  } else {
    return is_float_type(array.type) ? load_double(array, at)
                                     : static_cast<double>(load_int64(array, at));
  }
}
__device__ inline double add(double a, double b) { return a + b; }
__device__ inline int64_t add(int64_t a, int64_t b) { return wrapping_add(a, b); }
__device__ inline double multiply(double a, double b) { return a * b; }
__device__ inline int64_t multiply(int64_t a, int64_t b) { return wrapping_mul(a, b); }
__device__ inline bool is_less(DType, double a, double b) { return a < b; }
__device__ inline bool is_less(DType t, int64_t a, int64_t b) { return less(t, a, b); }

template <class A>
struct SumOf {
  bool absolute, square;
  __device__ A start() const { return A(0); }
  __device__ A step(A a, A x) const {
    if (absolute && x < A(0)) x = multiply(x, A(-1));
    if (square) x = multiply(x, x);
    return add(a, x);
  }
  __device__ A join(A a, A b) const { return add(a, b); }
};
template <class A>
struct ProductOf {
  __device__ A start() const { return A(1); }
  __device__ A step(A a, A x) const { return multiply(a, x); }
  __device__ A join(A a, A b) const { return multiply(a, b); }
};
template <class A>
struct ExtremeOf {
  DType type;
  bool is_max;
  __device__ A start() const {
    if constexpr (std::is_same_v<A, int64_t>) {
      const int bits = type == DType::kBool ? 1 : bits_of(type);
      const bool has_sign = is_signed(type);
      const auto ones = static_cast<int64_t>(~uint64_t{0} >> (64 - bits + (has_sign ? 1 : 0)));
      return is_max ? (has_sign ? -ones - 1 : 0) : ones;
    } else {
      return is_max ? -HUGE_VAL : HUGE_VAL;
    }
  }
  // NaN once taken stays: no number is better than it.
  __device__ A step(A a, A x) const {
    const bool better = is_max ? is_less(type, a, x) : is_less(type, x, a);
    return better || x != x ? x : a;
  }
  __device__ A join(A a, A b) const { return a != a ? a : step(a, b); }
};
struct ExponentialsOf {
  double top;
  __device__ double start() const { return 0; }
  __device__ double step(double a, double x) const { return a + exp(x - top); }
  __device__ double join(double a, double b) const { return a + b; }
};

/// The value of a group: reduce(op) runs over it with that operation.
template <class A, class Reduce>
__device__ A value_of(const ReduceLaunch& args, const Reduce& reduce) {
  const ReduceKind kind = args.kind;
  if (kind == ReduceKind::kProd) return reduce(ProductOf<A>{});
  const bool is_log_sum_exp = kind == ReduceKind::kLogSumExp;
  if (kind == ReduceKind::kMax || kind == ReduceKind::kMin || is_log_sum_exp) {
    const A extreme = reduce(ExtremeOf<A>{args.x.type, kind != ReduceKind::kMin});
    if constexpr (std::is_same_v<A, double>) {
      // NaN, +inf, all −inf, or nothing
      if (is_log_sum_exp && isfinite(extreme)) return extreme + log(reduce(ExponentialsOf{extreme}));
    }
    return extreme;
  }
  const A sum = reduce(SumOf<A>{kind == ReduceKind::kL1,
                                kind == ReduceKind::kSumSquare || kind == ReduceKind::kL2});
  if constexpr (std::is_same_v<A, double>) {
    if (kind == ReduceKind::kL2) return sqrt(sum);
    if (kind == ReduceKind::kLogSum) return log(sum);
    if (kind == ReduceKind::kMean) return sum / static_cast<double>(args.count);
  } else if (kind == ReduceKind::kMean) {
    return args.count == 0 ? 0 : sum / args.count;
  }
  return sum;
}
template <class A>
__device__ void store_value(const AnyArray& y, int64_t at, A value) {
  if constexpr (std::is_same_v<A, double>) {
    if (is_float_type(y.type))
      store_double(y, at, value);
    else
      store_int64(y, at, static_cast<int64_t>(value));
  } else {
    store_int64(y, at, value);
  }
}

// T: element type of x, so that neighbours are read in vectors, whose elements a thread takes in any
// case; void: any type, element by element.
template <class T, class A, int kWarps>
__global__ void __launch_bounds__(kWarps == 1 ? kWarpsPerBlock * kWarpThreads
                                              : kWarps * kWarpThreads)
    row_kernel(const __grid_constant__ ReduceLaunch args) {
  constexpr int kThreads = kWarps * kWarpThreads;
  __shared__ A shared[kWarps];
  const int64_t row =
      kWarps == 1 ? static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kWarpThreads
                  : blockIdx.x;
  if (row >= args.outputs) return;  // a whole warp, or never
  const int64_t from = offset_of(args.kept, row);
  const int thread = threadIdx.x % kThreads;
  const A value = value_of<A>(args, [&](const auto& op) {
    A a = op.start();
    if constexpr (std::is_void_v<T>) {
      for (int64_t k = thread; k < args.count; k += kThreads)
        a = op.step(a, load_as<A>(args.x, from + offset_of(args.reduced, k)));
    } else {
      constexpr int kN = kLanes<T>;
      const FloatArray x{args.x.data, args.x.type};
#pragma unroll 4
      for (int64_t k = static_cast<int64_t>(thread) * kN; k < args.count; k += kThreads * kN) {
        float v[kN];
        if (args.is_one_row && args.is_aligned && k + kN <= args.count) {
          load_vector<T>(x, from + k, v);
        } else {
#pragma unroll
          for (int i = 0; i < kN; ++i)
            v[i] = k + i < args.count ? load_one<T>(x, from + offset_of(args.reduced, k + i)) : 0;
        }
#pragma unroll
        for (int i = 0; i < kN; ++i) {
          if (k + i < args.count) a = op.step(a, static_cast<A>(v[i]));
        }
      }
    }
    return combine_row<kWarps>(a, shared, [&](A l, A r) { return op.join(l, r); });
  });
  if (thread == 0) store_value(args.y, row, value);
}

// Block: kRowColumns outputs × kSlices parts of their groups, part s the elements s, s + kSlices, …
template <class A>
__global__ void __launch_bounds__(kRowColumns * kSlices)
    column_kernel(const __grid_constant__ ReduceLaunch args) {
  __shared__ A parts[kSlices][kRowColumns];
  const int column = threadIdx.x % kRowColumns, slice = threadIdx.x / kRowColumns;
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kRowColumns + column;
  const bool is_output = output < args.outputs;
  const int64_t from = is_output ? offset_of(args.kept, output) : 0;
  const A value = value_of<A>(args, [&](const auto& op) {
    A a = op.start();
    if (is_output) {
#pragma unroll 4
      for (int64_t k = slice; k < args.count; k += kSlices)
        a = op.step(a, load_as<A>(args.x, from + offset_of(args.reduced, k)));
    }
    __syncthreads();  // the previous result has been read
    parts[slice][column] = a;
    __syncthreads();
    a = parts[0][column];
#pragma unroll
    for (int s = 1; s < kSlices; ++s) a = op.join(a, parts[s][column]);
    return a;
  });
  if (is_output && slice == 0) store_value(args.y, output, value);
}

template <class T, class A>
void launch_rows(const ReduceLaunch& args, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(args.outputs);
  if (args.count < kLongRow) {
    const unsigned blocks = (rows + kWarpsPerBlock - 1) / kWarpsPerBlock;
    row_kernel<T, A, 1><<<blocks, kWarpsPerBlock * kWarpThreads, 0, stream>>>(args);
  } else {
    row_kernel<T, A, kLongRowBlockWarps>
        <<<rows, kLongRowBlockWarps * kWarpThreads, 0, stream>>>(args);
  }
}

template <class A>
void launch_any(const ReduceLaunch& args, cudaStream_t stream) {
  const auto outputs = static_cast<unsigned>(args.outputs);
  if (args.in_rows) return launch_rows<void, A>(args, stream);
  const unsigned blocks = (outputs + kRowColumns - 1) / kRowColumns;
  column_kernel<A><<<blocks, kRowColumns * kSlices, 0, stream>>>(args);
}

}  // namespace

cudaError_t launch_reduce(const ReduceLaunch& args, cudaStream_t stream) {
  if (args.outputs == 0) return cudaSuccess;
  const DType type = args.x.type;
  const bool is_integer = type >= DType::kI8;
  if (is_integer && !args.as_double) {
    launch_any<int64_t>(args, stream);
  } else if (args.in_rows && type == DType::kF32) {
    launch_rows<float, double>(args, stream);
  } else if (args.in_rows && type == DType::kF16) {
    launch_rows<__half, double>(args, stream);
  } else if (args.in_rows && type == DType::kBF16) {
    launch_rows<__nv_bfloat16, double>(args, stream);
  } else {
    launch_any<double>(args, stream);
  }
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
