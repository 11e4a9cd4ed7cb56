// The machine that runs elementwise programs (kernels/elementwise.h), for values of any kind.
// Machine is a struct with
//   Value                           what registers hold
//   load(array, at)                 one element
//   load_vector<kN>(array, at, v)   kN aligned elements (only where kN > 1)
//   number(x)                       a number of a step
//   apply(step, a, b, c)            a = op(a, b, c) for all elements of a thread
//   store(array, at, count, v), store_vector(array, at, v)
// C++17.
#pragma once
#include "backend/cuda/device/vectors.cuh"
#include "backend/cuda/kernels/elementwise.h"

namespace vernier::backend::cuda {

inline constexpr int kElementwiseThreads = 256;
inline constexpr int kElementwiseBlocks = 4;  // per multiprocessor at least: 64 registers

/// kVectors vectors of kN neighbouring elements per thread.
template <class Machine, int kN, int kVectors>
struct ElementwiseThread {
  using Value = typename Machine::Value;
  using Values = Value[kVectors][kN];
  const ElementwiseLaunch& args;

  /// The first output element of vector v.
  __device__ int64_t first(int v) const {
    const int64_t vector =
        (static_cast<int64_t>(blockIdx.x) * kVectors + v) * kElementwiseThreads + threadIdx.x;
    return vector * kN;
  }
  // Where output element `at` is read in an input.
  __device__ int64_t offset(const ElementwiseInput& input, int64_t at) const {
    const StridedIndex& shape = args.shape;
    if (shape.axes == 0) return 0;
    int64_t offset = 0;
    if (shape.is_small) {
      auto rest = static_cast<uint32_t>(at);
      for (int axis = shape.axes - 1; axis > 0; --axis) {
        const uint32_t next = divide(rest, shape.divisors[axis]);
        offset += static_cast<int64_t>(rest - next * shape.divisors[axis].size) *
                  input.strides[axis];
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
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = first(v);
      if (input.access != Access::kElements && at + kN <= args.count) {
        const int64_t from = offset(input, at);
        if (input.access == Access::kVector) {
          Machine::load_vector(input.array, from, value[v]);
          continue;
        }
        const Value one = Machine::load(input.array, from);
#pragma unroll
        for (int i = 0; i < kN; ++i) value[v][i] = one;
        continue;
      }
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        value[v][i] = at + i < args.count ? Machine::load(input.array, offset(input, at + i))
                                          : Machine::number(0);
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
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = first(v);
      if (args.out_is_aligned && at + kN <= args.count)
        Machine::store_vector(args.out, at, a[v]);
      else
        Machine::store(args.out, at, args.count - at, a[v]);
    }
  }
};

template <class Machine, int kN, int kVectors>
__global__ void __launch_bounds__(kElementwiseThreads, kElementwiseBlocks)
    elementwise_kernel(const __grid_constant__ ElementwiseLaunch args) {
  ElementwiseThread<Machine, kN, kVectors>{args}.run();
}

template <class Machine, int kN, int kVectors>
cudaError_t run_elementwise(const ElementwiseLaunch& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  constexpr int64_t kPerBlock = int64_t{kElementwiseThreads} * kVectors * kN;
  const auto blocks = static_cast<unsigned>((args.count + kPerBlock - 1) / kPerBlock);
  elementwise_kernel<Machine, kN, kVectors><<<blocks, kElementwiseThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
