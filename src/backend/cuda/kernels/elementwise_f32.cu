// Elementwise programs in f32 registers. Contract in elementwise.h. C++17.
#include "backend/cuda/device/elementwise_machine.cuh"
#include "backend/cuda/device/elementwise_math.cuh"

namespace vernier::backend::cuda {
namespace {

// Operators with long code; not inlined, so that the loop over steps stays small.
__device__ __noinline__ float rare_op(ElementwiseOp op, float a, float b, float alpha, float beta,
                                      int variant) {
  using T = float;
  switch (op) {
#define COMMON_FLOAT(kind, expression)
#define RARE_FLOAT(kind, expression) \
  case ElementwiseOp::k##kind:       \
    return expression;
#define INTEGER(kind, expression)
#include "backend/cuda/kernels/elementwise_ops.def"
    default:
      return a + b + alpha + beta + static_cast<T>(variant);
  }
}

// Values are f32; bool is 0 or 1.
struct FloatMachine {
  using Value = float;

  static __device__ float number(double x) { return static_cast<float>(x); }
  static __device__ bool is_bool(const AnyArray& array) { return array.type == DType::kBool; }
  static __device__ FloatArray floats(const AnyArray& array) { return {array.data, array.type}; }

  static __device__ float load(const AnyArray& array, int64_t at) {
    if (is_bool(array)) return static_cast<const uint8_t*>(array.data)[at] != 0 ? 1.0f : 0.0f;
    return load_one<AnyFloat>(floats(array), at);
  }
  template <int kN>
  static __device__ void load_vector(const AnyArray& array, int64_t at, float (&v)[kN]) {
    if (!is_bool(array)) return cuda::load_vector<AnyFloat>(floats(array), at, v);
    const auto pack = *reinterpret_cast<const Pack<uint8_t, kN>*>(
        static_cast<const uint8_t*>(array.data) + at);
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = pack.element[i] != 0 ? 1.0f : 0.0f;
  }
  template <int kN>
  static __device__ void store_vector(const AnyArray& array, int64_t at, const float (&v)[kN]) {
    if (!is_bool(array)) return cuda::store_vector<AnyFloat>(floats(array), at, v);
    Pack<uint8_t, kN> pack;
#pragma unroll
    for (int i = 0; i < kN; ++i) pack.element[i] = v[i] != 0 ? 1 : 0;
    *reinterpret_cast<Pack<uint8_t, kN>*>(static_cast<uint8_t*>(array.data) + at) = pack;
  }
  template <int kN>
  static __device__ void store(const AnyArray& array, int64_t at, int64_t count,
                               const float (&v)[kN]) {
    if (!is_bool(array)) return store_part<AnyFloat>(floats(array), at, count, v);
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      if (i < count) static_cast<uint8_t*>(array.data)[at + i] = v[i] != 0 ? 1 : 0;
    }
  }

  template <int kVectors, int kN>
  static __device__ void apply(const ElementwiseStep& step, float (&va)[kVectors][kN],
                               const float (&vb)[kVectors][kN], const float (&vc)[kVectors][kN]) {
    using T = float;
    const T alpha = static_cast<T>(step.alpha), beta = static_cast<T>(step.beta);
    const int variant = step.variant;
    const bool has_b = step.b != OperandFrom::kNowhere, has_c = step.c != OperandFrom::kNowhere;
    const auto each = [&](const auto& f) {
#pragma unroll
      for (int k = 0; k < kVectors * kN; ++k)
        va[k / kN][k % kN] = f(va[k / kN][k % kN], vb[k / kN][k % kN], vc[k / kN][k % kN]);
    };
    switch (step.op) {
#define COMMON_FLOAT(kind, expression)                               \
  case ElementwiseOp::k##kind:                                       \
    each([=](T a, T b, T c) -> T {                                   \
      static_cast<void>(b), static_cast<void>(c);                    \
      return expression;                                             \
    });                                                              \
    break;
#define RARE_FLOAT(kind, expression)
#define INTEGER(kind, expression)
#include "backend/cuda/kernels/elementwise_ops.def"
      default:
        each([&](T a, T b, T) -> T { return rare_op(step.op, a, b, alpha, beta, variant); });
    }
    static_cast<void>(has_b), static_cast<void>(has_c);
  }
};

}  // namespace

cudaError_t launch_elementwise_f32(const ElementwiseLaunch& args, int lanes, cudaStream_t stream) {
  return lanes == 8 ? run_elementwise<FloatMachine, 8, 1>(args, stream)
                    : run_elementwise<FloatMachine, 4, 2>(args, stream);
}

}  // namespace vernier::backend::cuda
