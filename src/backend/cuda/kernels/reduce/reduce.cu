// Reduce*: one warp or block per output where its elements are neighbors, else 32 neighboring
// outputs per block. Contract in reduce.h. C++17.
#include "backend/cuda/device/integer_math.cuh"
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/rows.cuh"
#include "backend/cuda/device/scalars.cuh"
#include "backend/cuda/kernels/reduce/reduce.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kSlices = 8;          // parts of a group that are reduced beside each other
constexpr int kLanesPerBlock = 32;  // threads beside each other in column_kernel
constexpr int kVectorColumns = 4;   // outputs of a thread there, where they are neighbors
constexpr int kSmallBlock = 128;
constexpr int64_t kLongRow = 4096;  // elements from which a row gets a block
constexpr int kLongRowThreads = 512;

// ---- what is carried: double or int64_t; largest and smallest f32, f16, bf16 as they are

template <class A>
__device__ A load_as(const AnyArray& array, int64_t at) {
  if constexpr (std::is_same_v<A, int64_t>) {
    return load_int64(array, at);
  } else {
    return static_cast<A>(is_float_type(array.type) ? load_double(array, at)
                                                    : static_cast<double>(load_int64(array, at)));
  }
}
__device__ inline double add(double a, double b) { return a + b; }
__device__ inline int64_t add(int64_t a, int64_t b) { return wrapping_add(a, b); }
__device__ inline double multiply(double a, double b) { return a * b; }
__device__ inline int64_t multiply(int64_t a, int64_t b) { return wrapping_mul(a, b); }
template <class A>
__device__ bool is_less(DType t, A a, A b) {
  if constexpr (std::is_same_v<A, int64_t>) {
    return less(t, a, b);
  } else {
    return a < b;
  }
}

enum class Term : uint8_t { kItself, kAbsolute, kSquare };
// Operations: Value, start(), step(a, element, column of a thread), join(a, b).
template <class A, Term kTerm>
struct SumOf {
  using Value = A;
  __device__ A start() const { return A(0); }
  __device__ A step(A a, A x, int) const {
    if constexpr (kTerm == Term::kAbsolute) x = x < A(0) ? multiply(x, A(-1)) : x;
    if constexpr (kTerm == Term::kSquare) x = multiply(x, x);
    return add(a, x);
  }
  __device__ A join(A a, A b) const { return add(a, b); }
};
template <class A>
struct ProductOf {
  using Value = A;
  __device__ A start() const { return A(1); }
  __device__ A step(A a, A x, int) const { return multiply(a, x); }
  __device__ A join(A a, A b) const { return multiply(a, b); }
};
template <class A>
struct ExtremeOf {
  using Value = A;
  DType type;
  bool is_max;
  __device__ A start() const {
    if constexpr (std::is_same_v<A, int64_t>) {
      const int bits = type == DType::kBool ? 1 : bits_of(type);
      const bool has_sign = is_signed(type);
      const auto ones = static_cast<int64_t>(~uint64_t{0} >> (64 - bits + (has_sign ? 1 : 0)));
      return is_max ? (has_sign ? -ones - 1 : 0) : ones;
    } else {
      return static_cast<A>(is_max ? -HUGE_VAL : HUGE_VAL);
    }
  }
  // NaN once taken stays: no number is better than it.
  __device__ A step(A a, A x, int) const {
    const bool better = is_max ? is_less(type, a, x) : is_less(type, x, a);
    return better || x != x ? x : a;
  }
  __device__ A join(A a, A b) const { return a != a ? a : step(a, b, 0); }
};
// Long code, once.
__device__ __noinline__ double exponential(double x) { return exp(x); }
template <int kN>
struct ExponentialsOf {
  using Value = double;
  double top[kN];
  __device__ double start() const { return 0; }
  __device__ double step(double a, double x, int column) const {
    return a + (isfinite(top[column]) ? exponential(x - top[column]) : 0.0);
  }
  __device__ double join(double a, double b) const { return a + b; }
};

/// y = the values of kN groups; reduce(operation, results) runs over all of them. Extreme: what
/// largest and smallest elements are carried in.
template <class A, class Extreme, int kN, class Reduce>
__device__ void values_of(const ReduceLaunch& args, const Reduce& reduce, A (&y)[kN]) {
  const ReduceKind kind = args.kind;
  const auto each = [&](const auto& f) {
#pragma unroll
    for (int i = 0; i < kN; ++i) y[i] = f(y[i], i);
  };
  switch (kind) {
    case ReduceKind::kProd:
      return reduce(ProductOf<A>{}, y);
    case ReduceKind::kL1:
      return reduce(SumOf<A, Term::kAbsolute>{}, y);
    case ReduceKind::kMax:
    case ReduceKind::kMin:
    case ReduceKind::kLogSumExp: {
      Extreme extremes[kN];
      reduce(ExtremeOf<Extreme>{args.x.type, kind != ReduceKind::kMin}, extremes);
      each([&](A, int i) { return static_cast<A>(extremes[i]); });
      break;
    }
    case ReduceKind::kL2:
    case ReduceKind::kSumSquare:
      reduce(SumOf<A, Term::kSquare>{}, y);
      break;
    default:
      reduce(SumOf<A, Term::kItself>{}, y);
  }
  if constexpr (std::is_same_v<A, double>) {
    if (kind == ReduceKind::kLogSumExp) {
      ExponentialsOf<kN> op{};
      double sums[kN];
#pragma unroll
      for (int i = 0; i < kN; ++i) op.top[i] = y[i];
      reduce(op, sums);
      // NaN, +inf, all −inf, or nothing: the maximum itself
      each([&](double top, int i) { return isfinite(top) ? top + log(sums[i]) : top; });
    }
    if (kind == ReduceKind::kL2) each([](double v, int) { return sqrt(v); });
    if (kind == ReduceKind::kLogSum) each([](double v, int) { return log(v); });
    if (kind == ReduceKind::kMean)
      each([&](double v, int) { return v / static_cast<double>(args.count); });
  } else if (kind == ReduceKind::kMean) {
    each([&](A v, int) { return args.count == 0 ? 0 : v / args.count; });
  }
}
template <class A>
__device__ void store_value(const AnyArray& y, int64_t at, A value) {
  if constexpr (std::is_same_v<A, double>) {
    if (is_float_type(y.type))
      store_double(y, at, value);
    else
      store_int64(y, at, double_to_integer(DType::kI64, value));
  } else {
    store_int64(y, at, value);
  }
}

// T: element type of x, so that neighbors are read in vectors, whose elements a thread takes in
// any case; void: any type, element by element.
template <class T, class A>
using ExtremeValue = std::conditional_t<std::is_void_v<T>, A, float>;

template <class T, class A, int kThreads>
__global__ void __launch_bounds__(kThreads > kWarpThreads ? kThreads : kSmallBlock)
    row_kernel(const __grid_constant__ ReduceLaunch args) {
  constexpr int kBlock = kThreads > kWarpThreads ? kThreads : kSmallBlock;
  __shared__ double shared[kBlock / kWarpThreads];
  allow_next_kernel();
  wait_for_previous_kernel();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kBlock / kThreads) +
                      static_cast<int>(threadIdx.x) / kThreads;
  if (row >= args.outputs) return;  // a whole warp, or never
  const int64_t from = offset_of(args.kept, row);
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  A y[1];
  const auto reduce = [&](const auto& op, auto(&result)[1]) {
    using V = typename std::decay_t<decltype(op)>::Value;
    V a = op.start();
    if constexpr (std::is_void_v<T>) {
      for (int64_t k = thread; k < args.count; k += kThreads)
        a = op.step(a, load_as<V>(args.x, from + offset_of(args.reduced, k)), 0);
    } else {
      constexpr int kN = kLanes<T>;
      const FloatArray x{args.x.data, args.x.type};
      int64_t k = static_cast<int64_t>(thread) * kN;
      if (args.is_one_row && args.is_aligned) {
#pragma unroll 4
        for (; k + kN <= args.count; k += kThreads * kN) {
          float v[kN];
          load_vector<T>(x, from + k, v);
#pragma unroll
          for (int i = 0; i < kN; ++i) a = op.step(a, static_cast<V>(v[i]), 0);
        }
      }
      for (; k < args.count; k += kThreads * kN) {
        for (int64_t i = k; i < k + kN && i < args.count; ++i) {
          const float v = load_one<T>(x, from + offset_of(args.reduced, i));
          a = op.step(a, static_cast<V>(v), 0);
        }
      }
    }
    result[0] = combine_row<kThreads>(a, reinterpret_cast<V*>(shared),
                                      [&](V l, V r) { return op.join(l, r); });
  };
  values_of<A, ExtremeValue<T, A>>(args, reduce, y);
  if (thread == 0) store_value(args.y, row, y[0]);
}

// Block: kLanesPerBlock threads of kN neighboring outputs × kSlices parts of their groups, part s
// the elements s, s + kSlices, …
template <class T, class A, int kN>
__global__ void __launch_bounds__(kLanesPerBlock* kSlices)
    column_kernel(const __grid_constant__ ReduceLaunch args) {
  __shared__ double parts[kSlices][kLanesPerBlock][kN];
  const int lane = threadIdx.x % kLanesPerBlock, slice = threadIdx.x / kLanesPerBlock;
  const int64_t output = (static_cast<int64_t>(blockIdx.x) * kLanesPerBlock + lane) * kN;
  const bool is_output = output < args.outputs;
  const int64_t from = is_output ? offset_of(args.kept, output) : 0;
  A y[kN];
  const auto reduce = [&](const auto& op, auto(&result)[kN]) {
    using V = typename std::decay_t<decltype(op)>::Value;
    V a[kN];
#pragma unroll
    for (int i = 0; i < kN; ++i) a[i] = op.start();
    if (is_output) {
#pragma unroll 4
      for (int64_t k = slice; k < args.count; k += kSlices) {
        const int64_t at = from + offset_of(args.reduced, k);
        if constexpr (std::is_void_v<T>) {
          a[0] = op.step(a[0], load_as<V>(args.x, at), 0);
        } else {
          float v[kN];
          load_vector<T>(FloatArray{args.x.data, args.x.type}, at, v);
#pragma unroll
          for (int i = 0; i < kN; ++i) a[i] = op.step(a[i], static_cast<V>(v[i]), i);
        }
      }
    }
    __syncthreads();  // the previous result has been read
#pragma unroll
    for (int i = 0; i < kN; ++i) *reinterpret_cast<V*>(&parts[slice][lane][i]) = a[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      a[i] = *reinterpret_cast<V*>(&parts[0][lane][i]);
      for (int s = 1; s < kSlices; ++s)
        a[i] = op.join(a[i], *reinterpret_cast<V*>(&parts[s][lane][i]));
      result[i] = a[i];
    }
  };
  values_of<A, ExtremeValue<T, A>>(args, reduce, y);
  if (!is_output || slice != 0) return;
#pragma unroll
  for (int i = 0; i < kN; ++i) store_value(args.y, output + i, y[i]);
}

template <class T, class A>
void launch_rows(const ReduceLaunch& args, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(args.outputs);
  if (args.count < kLongRow) {
    constexpr unsigned kRows = kSmallBlock / kWarpThreads;
    launch_overlapped(row_kernel<T, A, kWarpThreads>, dim3((rows + kRows - 1) / kRows),
                      dim3(kSmallBlock), 0, stream, args);
  } else {
    launch_overlapped(row_kernel<T, A, kLongRowThreads>, dim3(rows), dim3(kLongRowThreads), 0,
                      stream, args);
  }
}
template <class T, class A, int kN>
void launch_columns(const ReduceLaunch& args, cudaStream_t stream) {
  constexpr int64_t kOutputs = kLanesPerBlock * kN;
  const auto blocks = static_cast<unsigned>((args.outputs + kOutputs - 1) / kOutputs);
  column_kernel<T, A, kN><<<blocks, kLanesPerBlock * kSlices, 0, stream>>>(args);
}
template <class T>
void launch_floats(const ReduceLaunch& args, cudaStream_t stream) {
  if (args.in_rows)
    launch_rows<T, double>(args, stream);
  else if (args.in_vectors)
    launch_columns<T, double, kVectorColumns>(args, stream);
  else
    launch_columns<T, double, 1>(args, stream);
}
template <class A>
void launch_any(const ReduceLaunch& args, cudaStream_t stream) {
  if (args.in_rows)
    launch_rows<void, A>(args, stream);
  else
    launch_columns<void, A, 1>(args, stream);
}

}  // namespace

cudaError_t launch_reduce(const ReduceLaunch& args, cudaStream_t stream) {
  if (args.outputs == 0) return cudaSuccess;
  switch (args.x.type) {
    case DType::kF32:
      launch_floats<float>(args, stream);
      break;
    case DType::kF16:
      launch_floats<__half>(args, stream);
      break;
    case DType::kBF16:
      launch_floats<__nv_bfloat16>(args, stream);
      break;
    case DType::kF64:
      launch_any<double>(args, stream);
      break;
    default:
      if (args.as_double)
        launch_any<double>(args, stream);
      else
        launch_any<int64_t>(args, stream);
  }
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
