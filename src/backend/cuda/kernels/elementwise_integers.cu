// Short elementwise programs on integers. Contract in elementwise.h. C++17.
#include "backend/cuda/device/integer_math.cuh"
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/scalars.cuh"
#include "backend/cuda/kernels/elementwise.h"

namespace vernier::backend::cuda {
namespace {

constexpr int kThreads = 256;

// No switch: its table of jumps would be one more line to fetch.
__device__ int64_t apply(const IntegerStep& step, int64_t a, int64_t b) {
  const ElementwiseOp op = step.op;
  int64_t r = op == ElementwiseOp::kLoad ? b : a;  // kCast, kIdentity: a; to a float: when stored
  if (op == ElementwiseOp::kNot) r = a == 0;
  if (op == ElementwiseOp::kEqual) r = a == b;
  if (op == ElementwiseOp::kLess) r = a < b;
  if (op == ElementwiseOp::kLessOrEqual) r = a <= b;
  if (op == ElementwiseOp::kGreater) r = a > b;
  if (op == ElementwiseOp::kGreaterOrEqual) r = a >= b;
  if (op == ElementwiseOp::kAnd) r = a & b;
  if (op == ElementwiseOp::kOr) r = a | b;
  if (op == ElementwiseOp::kAdd) r = wrapping_add(a, b);
  if (op == ElementwiseOp::kSub) r = wrapping_sub(a, b);
  if (op == ElementwiseOp::kMul) r = wrapping_mul(a, b);
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
  switch (op) {
    case ElementwiseOp::kLoad:
    case ElementwiseOp::kCast:
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

cudaError_t launch_elementwise_integers(const IntegerLaunch& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  constexpr int64_t kMaxBlocks = 4096;  // the rest in the kernel's loop
  const int64_t blocks = min((args.count + kThreads - 1) / kThreads, kMaxBlocks);
  return launch_overlapped(integer_kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0,
                           stream, args);
}

}  // namespace vernier::backend::cuda
