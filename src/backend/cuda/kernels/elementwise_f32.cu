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
#define LOGIC_FLOAT(kind, expression)
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
  // body(E{}) for the array's element type; uint8_t: bool.
  template <class Body>
  static __device__ void with_stored(const AnyArray& array, const Body& body) {
    if (is_bool(array)) return body(uint8_t{});
    with_type<AnyFloat>(floats(array), body);
  }
  static __device__ float value(uint8_t x) { return x != 0 ? 1.0f : 0.0f; }
  template <class E>
  static __device__ float value(E x) {
    return to_f32(x);
  }
  template <class E>
  static __device__ E stored(float x) {
    if constexpr (std::is_same_v<E, uint8_t>) {
      return x != 0 ? 1 : 0;
    } else {
      return from_f32<E>(x);
    }
  }

  template <int kVectors, int kN>
  static __device__ void load_vectors(const AnyArray& array, const int64_t (&at)[kVectors],
                                      float (&v)[kVectors][kN]) {
    with_stored(array, [&](auto element) {
      using E = decltype(element);
      Pack<E, kN> packs[kVectors];
#pragma unroll
      for (int k = 0; k < kVectors; ++k)
        packs[k] = *reinterpret_cast<const Pack<E, kN>*>(static_cast<const E*>(array.data) + at[k]);
#pragma unroll
      for (int k = 0; k < kVectors * kN; ++k)
        v[k / kN][k % kN] = value(packs[k / kN].element[k % kN]);
    });
  }
  template <int kVectors, int kN>
  static __device__ void load_splats(const AnyArray& array, const int64_t (&at)[kVectors],
                                     float (&v)[kVectors][kN]) {
    with_stored(array, [&](auto element) {
      using E = decltype(element);
      float ones[kVectors];
#pragma unroll
      for (int k = 0; k < kVectors; ++k) ones[k] = value(static_cast<const E*>(array.data)[at[k]]);
#pragma unroll
      for (int k = 0; k < kVectors * kN; ++k) v[k / kN][k % kN] = ones[k / kN];
    });
  }
  template <int kVectors, int kN>
  static __device__ void store_vectors(const AnyArray& array, int64_t at, int64_t step,
                                       const float (&v)[kVectors][kN]) {
    with_stored(array, [&](auto element) {
      using E = decltype(element);
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        Pack<E, kN> pack;
#pragma unroll
        for (int i = 0; i < kN; ++i) pack.element[i] = stored<E>(v[k][i]);
        *reinterpret_cast<Pack<E, kN>*>(static_cast<E*>(array.data) + at + k * step) = pack;
      }
    });
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
#define COMMON_FLOAT(kind, expression)            \
  case ElementwiseOp::k##kind:                    \
    each([=](T a, T b, T c) -> T {                \
      static_cast<void>(b), static_cast<void>(c); \
      return expression;                          \
    });                                           \
    break;
#define LOGIC_FLOAT(kind, expression) COMMON_FLOAT(kind, expression)
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
