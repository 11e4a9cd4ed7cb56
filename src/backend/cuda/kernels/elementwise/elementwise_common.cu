// The operators that models spend time in, each as a kernel of its own: operands of one float type,
// the second one dense, a number or broadcast on any axes; casts between float types. Contract in
// elementwise.h. C++17.
#include "backend/cuda/device/elementwise_math.cuh"
#include "backend/cuda/device/elementwise_staging.cuh"
#include "backend/cuda/device/overlap.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 2;  // per thread: 32 bytes of each operand in flight

template <ElementwiseOp kOp>
constexpr bool kIsBinary = kOp == ElementwiseOp::kAdd || kOp == ElementwiseOp::kSub ||
                           kOp == ElementwiseOp::kMul || kOp == ElementwiseOp::kDiv;

template <ElementwiseOp kOp, int variant>
__device__ float compute(float a, float b, float alpha) {
  using T = float;
  constexpr T beta = 0, c = 0;
  constexpr bool has_b = true, has_c = false;
  switch (kOp) {
#define COMMON_FLOAT(kind, expression) \
  case ElementwiseOp::k##kind:         \
    return expression;
#define RARE_FLOAT(kind, expression) COMMON_FLOAT(kind, expression)
#define LOGIC_FLOAT(kind, expression)
#define INTEGER(kind, expression)
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
    default:
      static_cast<void>(beta), static_cast<void>(c), static_cast<void>(has_b);
      return static_cast<T>(has_c);
  }
}

// The elements of the second operand for kN neighbors of the output from `at` on.
template <class A, int kN>
__device__ Pack<A, kN> second_operand(const CommonElementwiseLaunch& args, int64_t at) {
  const auto* b = static_cast<const A*>(args.b);
  const StridedIndex& index = args.b_index;
  if (args.second == Access::kDense) return *reinterpret_cast<const Pack<A, kN>*>(b + at);
  const ElementPlace place = small_place_of(index, index.strides, at);
  Pack<A, kN> z;
  if (args.second == Access::kVector) {
    z = *reinterpret_cast<const Pack<A, kN>*>(b + place.offset);
  } else if (args.second == Access::kElements) {
    // The last axis has at least kN elements, so these lie in two of its rows at most.
    const int64_t step = index.strides[index.axes - 1];
    int64_t next = 0;
    if (place.left < kN)
      next = small_place_of(index, index.strides, at + place.left).offset - place.left * step;
#pragma unroll
    for (int i = 0; i < kN; ++i)
      z.element[i] = b[(i < place.left ? place.offset : next) + i * step];
  } else {
    const A one = b[place.offset];
#pragma unroll
    for (int i = 0; i < kN; ++i) z.element[i] = one;
  }
  return z;
}

// A: type of the operands, Y: of the result.
template <ElementwiseOp kOp, int kVariant, class A, class Y>
__global__ void __launch_bounds__(kThreads)
    common_kernel(const __grid_constant__ CommonElementwiseLaunch args) {
  constexpr int kN = 16 / (sizeof(A) > sizeof(Y) ? sizeof(A) : sizeof(Y));
  constexpr int64_t kStep = int64_t{kThreads} * kN, kPerBlock = kStep * kVectors;
  using In = Pack<A, kN>;
  using Out = Pack<Y, kN>;
  const auto *a = static_cast<const A*>(args.a), *b = static_cast<const A*>(args.b);
  auto* y = static_cast<Y*>(args.y);
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kPerBlock;
  const int64_t base = block + static_cast<int64_t>(threadIdx.x) * kN;
  const auto result = [&](A x, A z) {
    return from_f32<Y>(compute<kOp, kVariant>(to_f32(x), to_f32(z), args.alpha));
  };
  allow_next_kernel();
  wait_for_previous_kernel();
  if (block + kPerBlock > args.count) {
    const auto in_b = [&](int64_t at) {
      return args.second == Access::kDense
                 ? at
                 : small_place_of(args.b_index, args.b_index.strides, at).offset;
    };
    for (int v = 0; v < kVectors; ++v) {
      for (int64_t at = base + v * kStep; at < base + v * kStep + kN && at < args.count; ++at)
        y[at] = result(a[at], kIsBinary<kOp> ? b[in_b(at)] : a[at]);
    }
    return;
  }
  In x[kVectors], z[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) x[v] = *reinterpret_cast<const In*>(a + base + v * kStep);
  if constexpr (kIsBinary<kOp>) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) z[v] = second_operand<A, kN>(args, base + v * kStep);
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    Out out;
#pragma unroll
    for (int i = 0; i < kN; ++i)
      out.element[i] = result(x[v].element[i], kIsBinary<kOp> ? z[v].element[i] : x[v].element[i]);
    *reinterpret_cast<Out*>(y + base + v * kStep) = out;
  }
}

template <ElementwiseOp kOp, int kVariant, class A, class Y>
cudaError_t run(const CommonElementwiseLaunch& args, cudaStream_t stream) {
  constexpr int64_t kPerBlock =
      int64_t{kThreads} * kVectors * (16 / (sizeof(A) > sizeof(Y) ? sizeof(A) : sizeof(Y)));
  const auto blocks = static_cast<unsigned>((args.count + kPerBlock - 1) / kPerBlock);
  return launch_overlapped(common_kernel<kOp, kVariant, A, Y>, dim3(blocks), dim3(kThreads), 0,
                           stream, args);
}

// body(A{}) for the float type of the operands.
template <class Body>
cudaError_t with_type_of(DType type, const Body& body) {
  if (type == DType::kF32) return body(float{});
  if (type == DType::kF16) return body(__half{});
  return body(__nv_bfloat16{});
}
template <ElementwiseOp kOp, int kVariant = 0>
cudaError_t run_op(const CommonElementwiseLaunch& args, cudaStream_t stream) {
  return with_type_of(args.a_type, [&](auto a) {
    return run<kOp, kVariant, decltype(a), decltype(a)>(args, stream);
  });
}
cudaError_t run_cast(const CommonElementwiseLaunch& args, cudaStream_t stream) {
  return with_type_of(args.a_type, [&](auto a) {
    return with_type_of(args.y_type, [&](auto y) {
      return run<ElementwiseOp::kCast, 0, decltype(a), decltype(y)>(args, stream);
    });
  });
}

}  // namespace

bool is_common_elementwise(ElementwiseOp op, DType a, DType y) {
  const auto is_ours = [](DType t) {
    return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
  };
  if (!is_ours(a) || !is_ours(y)) return false;
  switch (op) {
    case ElementwiseOp::kCast:
      return true;
    case ElementwiseOp::kAdd:
    case ElementwiseOp::kSub:
    case ElementwiseOp::kMul:
    case ElementwiseOp::kDiv:
    case ElementwiseOp::kRelu:
    case ElementwiseOp::kGelu:
    case ElementwiseOp::kSigmoid:
    case ElementwiseOp::kSwish:
    case ElementwiseOp::kTanh:
    case ElementwiseOp::kExp:
    case ElementwiseOp::kSqrt:
    case ElementwiseOp::kErf:
      return a == y;
    default:
      return false;
  }
}

cudaError_t launch_elementwise_common(const CommonElementwiseLaunch& args, cudaStream_t stream) {
  switch (args.op) {
    case ElementwiseOp::kAdd:
      return run_op<ElementwiseOp::kAdd>(args, stream);
    case ElementwiseOp::kSub:
      return run_op<ElementwiseOp::kSub>(args, stream);
    case ElementwiseOp::kMul:
      return run_op<ElementwiseOp::kMul>(args, stream);
    case ElementwiseOp::kDiv:
      return run_op<ElementwiseOp::kDiv>(args, stream);
    case ElementwiseOp::kRelu:
      return run_op<ElementwiseOp::kRelu>(args, stream);
    case ElementwiseOp::kGelu:
      return args.variant == 0 ? run_op<ElementwiseOp::kGelu, 0>(args, stream)
                               : run_op<ElementwiseOp::kGelu, 1>(args, stream);
    case ElementwiseOp::kSigmoid:
      return run_op<ElementwiseOp::kSigmoid>(args, stream);
    case ElementwiseOp::kSwish:
      return run_op<ElementwiseOp::kSwish>(args, stream);
    case ElementwiseOp::kTanh:
      return run_op<ElementwiseOp::kTanh>(args, stream);
    case ElementwiseOp::kExp:
      return run_op<ElementwiseOp::kExp>(args, stream);
    case ElementwiseOp::kSqrt:
      return run_op<ElementwiseOp::kSqrt>(args, stream);
    case ElementwiseOp::kErf:
      return run_op<ElementwiseOp::kErf>(args, stream);
    default:
      return run_cast(args, stream);
  }
}

}  // namespace vernier::backend::cuda
