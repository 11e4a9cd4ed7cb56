// Elementwise programs in 64-bit registers: int64_t, or the bits of a double. Contract in
// elementwise.h. C++17.
#include "backend/cuda/device/elementwise_machine.cuh"
#include "backend/cuda/device/elementwise_math.cuh"
#include "backend/cuda/device/scalars.cuh"

namespace vernier::backend::cuda {
namespace {

// What one operator needs beside its operands.
struct StepNumbers {
  ElementwiseOp op;
  DType type;
  bool has_b, has_c;
  int variant;
  double alpha, beta;
};

__device__ __noinline__ double float_op(const StepNumbers& step, double a, double b, double c) {
  using T = double;
  const T alpha = step.alpha, beta = step.beta;
  const int variant = step.variant;
  const bool has_b = step.has_b, has_c = step.has_c;
  switch (step.op) {
#define COMMON_FLOAT(kind, expression) \
  case ElementwiseOp::k##kind:         \
    return expression;
#define RARE_FLOAT(kind, expression) COMMON_FLOAT(kind, expression)
#define LOGIC_FLOAT(kind, expression)
#define INTEGER(kind, expression)
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
    default:
      return a;
  }
}

__device__ __noinline__ int64_t integer_op(const StepNumbers& step, int64_t a, int64_t b,
                                           int64_t c) {
  const DType type = step.type;
  const int variant = step.variant;
  const bool has_b = step.has_b, has_c = step.has_c;
  switch (step.op) {
#define COMMON_FLOAT(kind, expression)
#define RARE_FLOAT(kind, expression)
#define LOGIC_FLOAT(kind, expression)
#define INTEGER(kind, expression) \
  case ElementwiseOp::k##kind:    \
    return expression;
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
    default:
      return a;
  }
}

struct WideMachine {
  using Value = int64_t;

  static __device__ int64_t number(double x) { return __double_as_longlong(x); }
  static __device__ int64_t load(const AnyArray& array, int64_t at) {
    return is_float_type(array.type) ? __double_as_longlong(load_double(array, at))
                                     : load_int64(array, at);
  }
  template <int kVectors, int kN>
  static __device__ void load_vectors(const AnyArray& array, const int64_t (&at)[kVectors],
                                      int64_t (&v)[kVectors][kN]) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) v[k][0] = load(array, at[k]);
  }
  template <int kVectors, int kN>
  static __device__ void load_splats(const AnyArray& array, const int64_t (&at)[kVectors],
                                     int64_t (&v)[kVectors][kN]) {
    load_vectors(array, at, v);
  }
  template <int kVectors, int kN>
  static __device__ void store_vectors(const AnyArray& array, int64_t at, int64_t step,
                                       const int64_t (&v)[kVectors][kN]) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) store(array, at + k * step, 1, v[k]);
  }
  template <int kN>
  static __device__ void store(const AnyArray& array, int64_t at, int64_t count,
                               const int64_t (&v)[kN]) {
    if (count <= 0) return;
    if (is_float_type(array.type))
      store_double(array, at, __longlong_as_double(v[0]));
    else
      store_int64(array, at, v[0]);
  }

  static __device__ int64_t cast(const ElementwiseStep& step, int64_t a) {
    if (is_float_type(step.type)) {
      return is_float_type(step.result) ? a
                                        : double_to_integer(step.result, __longlong_as_double(a));
    }
    return is_float_type(step.result) ? __double_as_longlong(integer_to_double(step.type, a))
                                      : wrap(step.result, a);
  }
  static __device__ int64_t compute(const ElementwiseStep& step, const StepNumbers& numbers,
                                    int64_t a, int64_t b, int64_t c) {
    if (!is_float_type(step.type)) return wrap(step.result, integer_op(numbers, a, b, c));
    const double second =
        is_float_type(step.b_type) ? __longlong_as_double(b) : integer_to_double(step.b_type, b);
    const double r = float_op(numbers, __longlong_as_double(a), second, __longlong_as_double(c));
    if (step.result == DType::kBool) return r != 0;
    return __double_as_longlong(
        step.result == DType::kF32 ? static_cast<double>(static_cast<float>(r)) : r);
  }
  template <int kVectors, int kN>
  static __device__ void apply(const ElementwiseStep& step, int64_t (&a)[kVectors][kN],
                               const int64_t (&b)[kVectors][kN], const int64_t (&c)[kVectors][kN]) {
    const StepNumbers numbers{step.op,
                              step.type,
                              step.b != OperandFrom::kNowhere,
                              step.c != OperandFrom::kNowhere,
                              step.variant,
                              step.alpha,
                              step.beta};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      int64_t& value = a[v][0];
      if (step.op == ElementwiseOp::kCast)
        value = cast(step, value);
      else if (step.op == ElementwiseOp::kWhere)
        value = value != 0 ? b[v][0] : c[v][0];
      else
        value = compute(step, numbers, value, b[v][0], c[v][0]);
    }
  }
};

}  // namespace

cudaError_t launch_elementwise_wide(const ElementwiseLaunch& args, cudaStream_t stream) {
  return run_elementwise<WideMachine, 1, 4>(args, stream);
}

}  // namespace vernier::backend::cuda
