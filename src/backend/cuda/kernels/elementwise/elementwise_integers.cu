// Short elementwise programs on integers. Contract in elementwise.h. C++17.
#include "backend/cuda/device/integer_math.cuh"
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/scalars.cuh"
#include "backend/cuda/kernels/elementwise/elementwise.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256;

// The operators that have a place here; the others' code would only make this one longer.
__host__ __device__ constexpr bool is_short(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::kIdentity:
    case ElementwiseOp::kNot:
    case ElementwiseOp::kEqual:
    case ElementwiseOp::kLess:
    case ElementwiseOp::kLessOrEqual:
    case ElementwiseOp::kGreater:
    case ElementwiseOp::kGreaterOrEqual:
    case ElementwiseOp::kAnd:
    case ElementwiseOp::kOr:
    case ElementwiseOp::kAdd:
    case ElementwiseOp::kSub:
    case ElementwiseOp::kMul:
      return true;
    default:
      return false;
  }
}

// No switch: its table of jumps would be one more line to fetch.
__device__ int64_t apply(const IntegerStep& step, int64_t a, int64_t b) {
  constexpr DType type = DType::kI64;  // none is u64, so all compare as these
  constexpr int64_t c = 0;
  constexpr int variant = 0;
  constexpr bool has_b = false, has_c = false;
  int64_t r = step.op == ElementwiseOp::kLoad ? b : a;  // Cast: a; to a float: when it is stored
#define COMMON_FLOAT(kind, expression)
#define RARE_FLOAT(kind, expression)
#define LOGIC_FLOAT(kind, expression)
#define INTEGER(kind, expression)                            \
  if constexpr (is_short(ElementwiseOp::k##kind)) {          \
    if (step.op == ElementwiseOp::k##kind) r = (expression); \
  }
#include "backend/cuda/kernels/elementwise/elementwise_formulas.def"
  static_cast<void>(type), static_cast<void>(c), static_cast<void>(variant);
  static_cast<void>(has_b), static_cast<void>(has_c);
  return is_float_type(step.result) ? r : wrap(step.result, r);
}

__global__ void __launch_bounds__(kThreads)
    integer_kernel(const __grid_constant__ IntegerLaunch args) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < args.count;
       i += step) {
    int64_t a = 0;
#pragma unroll 1
    for (int s = 0; s < args.step_count; ++s) {
      int64_t b = 0;
      if (args.steps[s].input >= 0) {
        const IntegerLaunch::Input& input = args.inputs[args.steps[s].input];
        b = load_int64({input.data, input.type}, input.is_scalar ? 0 : i);
      }
      a = apply(args.steps[s], a, b);
    }
    if (is_float_type(args.y_type))
      store_double({args.y, args.y_type}, i, static_cast<double>(a));
    else
      store_int64({args.y, args.y_type}, i, a);
  }
}

}  // namespace

bool is_integer_step_op(ElementwiseOp op) {
  return op == ElementwiseOp::kLoad || op == ElementwiseOp::kCast || is_short(op);
}

cudaError_t launch_elementwise_integers(const IntegerLaunch& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  constexpr int64_t kMaxBlocks = 4096;  // the rest in the kernel's loop
  const int64_t blocks = min((args.count + kThreads - 1) / kThreads, kMaxBlocks);
  return launch_overlapped(integer_kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0,
                           stream, args);
}

}  // namespace vernier::backend::cuda
