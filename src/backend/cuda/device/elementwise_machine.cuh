// The machine that runs elementwise programs (kernels/elementwise/elementwise.h), for values of any
// kind. Machine is a struct with
//   Value                           what registers hold
//   load(array, at)                 one element
//   load_vectors(array, at, v)      v[k] = kN aligned elements at at[k]
//   load_splats(array, at, v)       v[k] = the element at at[k], kN times
//   number(x)                       a number of a step
//   apply(step, a, b, c)            a = op(a, b, c) for all elements of a thread
//   store(array, at, count, v)      up to kN elements
//   store_vectors(array, at, step, v)   v[k] at the aligned at + k·step
// C++17.
#pragma once
#include "backend/cuda/device/overlap.cuh"
#include "backend/cuda/device/vectors.cuh"
#include "backend/cuda/kernels/elementwise/elementwise.h"

namespace vernier::backend::cuda {

inline constexpr int kElementwiseThreads = 256;
inline constexpr int kElementwiseBlocks = 4;  // per multiprocessor at least: 64 registers

/// kVectors vectors of kN neighboring elements per thread; neighboring threads have neighboring
/// vectors.
template <class Machine, int kN, int kVectors>
struct ElementwiseThread {
  using Value = typename Machine::Value;
  using Values = Value[kVectors][kN];
  static constexpr int64_t kStep = int64_t{kElementwiseThreads} * kN;
  static constexpr int64_t kPerBlock = kStep * kVectors;
  const ElementwiseLaunch& args;
  int64_t base;   // the first output element of vector 0
  bool is_whole;  // the whole block is inside the output

  __device__ explicit ElementwiseThread(const ElementwiseLaunch& launch) : args(launch) {
    const int64_t block = static_cast<int64_t>(blockIdx.x) * kPerBlock;
    base = block + static_cast<int64_t>(threadIdx.x) * kN;
    is_whole = block + kPerBlock <= launch.count;
  }
  __device__ int64_t first(int v) const { return base + v * kStep; }
  // Where output element `at` is read in an input.
  __device__ int64_t offset(const ElementwiseInput& input, int64_t at) const {
    const StridedIndex& shape = args.shape;
    if (shape.axes == 0) return 0;
    int64_t offset = 0;
    if (shape.is_small) {
      auto rest = static_cast<uint32_t>(at);
      for (int axis = shape.axes - 1; axis > 0; --axis) {
        const uint32_t next = divide(rest, shape.divisors[axis]);
        offset +=
            static_cast<int64_t>(rest - next * shape.divisors[axis].size) * input.strides[axis];
        rest = next;
      }
      return offset + static_cast<int64_t>(rest) * input.strides[0];
    }
    for (int axis = shape.axes - 1; axis > 0; --axis) {
      offset += at % shape.sizes[axis] * input.strides[axis];
      at /= shape.sizes[axis];
    }
    return offset + at * input.strides[0];
  }

  __device__ void read_input(const ElementwiseInput& input, Values& value) const {
    if (input.access == Access::kScalar) {
      const Value one = Machine::load(input.array, 0);
#pragma unroll
      for (int k = 0; k < kVectors * kN; ++k) value[k / kN][k % kN] = one;
      return;
    }
    if (!is_whole || input.access == Access::kElements) return read_elements(input, value);
    int64_t at[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) at[v] = first(v);
    if (input.access != Access::kDense) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) at[v] = offset(input, at[v]);
    }
    if (input.access == Access::kSplat)
      Machine::load_splats(input.array, at, value);
    else
      Machine::load_vectors(input.array, at, value);
  }
  __device__ void read_elements(const ElementwiseInput& input, Values& value) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        const int64_t at = first(v) + i;
        value[v][i] =
            at < args.count ? Machine::load(input.array, offset(input, at)) : Machine::number(0);
      }
    }
  }

  __device__ void read(OperandFrom from, int index, double beta,
                       const Value (&saved)[kMaxSaved][kVectors * kN], Values& value) const {
    if (from == OperandFrom::kInput) {
      read_input(args.inputs[index], value);
    } else if (from == OperandFrom::kSaved) {
#pragma unroll
      for (int k = 0; k < kVectors * kN; ++k) value[k / kN][k % kN] = saved[index][k];
    } else {
#pragma unroll
      for (int k = 0; k < kVectors * kN; ++k) value[k / kN][k % kN] = Machine::number(beta);
    }
  }

  __device__ void run() const {
    Values a, b, c;
    Value saved[kMaxSaved][kVectors * kN];  // in local memory: few programs need it
    read(OperandFrom::kNowhere, 0, 0.0, saved, a);
    for (int s = 0; s < args.step_count; ++s) {
      const ElementwiseStep& step = args.steps[s];
      if (step.op == ElementwiseOp::kLoad) {
        read(step.b, step.b_index, step.beta, saved, a);
        continue;
      }
      if (step.op == ElementwiseOp::kSave) {
#pragma unroll
        for (int k = 0; k < kVectors * kN; ++k) saved[step.b_index][k] = a[k / kN][k % kN];
        continue;
      }
      if (step.b != OperandFrom::kNowhere) read(step.b, step.b_index, step.beta, saved, b);
      if (step.c != OperandFrom::kNowhere) read(step.c, step.c_index, step.beta, saved, c);
      Machine::apply(step, a, b, c);
    }
    if (is_whole && args.out_is_aligned) {
      Machine::store_vectors(args.out, base, kStep, a);
      return;
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      Machine::store(args.out, first(v), args.count - first(v), a[v]);
  }
};

template <class Machine, int kN, int kVectors>
__global__ void __launch_bounds__(kElementwiseThreads, kElementwiseBlocks)
    elementwise_kernel(const __grid_constant__ ElementwiseLaunch args) {
  allow_next_kernel();
  wait_for_previous_kernel();
  ElementwiseThread<Machine, kN, kVectors>(args).run();
}

template <class Machine, int kN, int kVectors>
cudaError_t run_elementwise(const ElementwiseLaunch& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  constexpr int64_t kPerBlock = ElementwiseThread<Machine, kN, kVectors>::kPerBlock;
  const auto blocks = static_cast<unsigned>((args.count + kPerBlock - 1) / kPerBlock);
  return launch_overlapped(elementwise_kernel<Machine, kN, kVectors>, dim3(blocks),
                           dim3(kElementwiseThreads), 0, stream, args);
}

}  // namespace vernier::backend::cuda
