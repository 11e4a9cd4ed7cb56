// The kernel of chains of elementwise operators, and of integers: see launch.h.
#include "backend/cuda/fp64/numbers.cuh"

namespace vernier::backend::cuda::fp64 {
namespace {

constexpr int kElems = 4;  // of a thread: an operator is looked up once for them

// Their code is long, and is there once.
__device__ __noinline__ double applied(Unary function, double x) { return apply(function, x, 1); }
__device__ __noinline__ double applied(Binary function, double a, double b) {
  return apply(function, a, b);
}

__device__ void combine(const ChainOperator& op, const double (&other)[kElems],
                        double (&v)[kElems]) {
  for (int e = 0; e < kElems; ++e) {
    const double a = op.other_is_left ? other[e] : v[e], b = op.other_is_left ? v[e] : other[e];
    switch (op.binary) {
      case Binary::kAdd:
        v[e] = __dadd_rn(a, b);
        break;
      case Binary::kSub:
        v[e] = __dsub_rn(a, b);
        break;
      case Binary::kMul:
        v[e] = __dmul_rn(a, b);
        break;
      default:
        v[e] = applied(op.binary, a, b);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    chain_kernel(const __grid_constant__ Chain chain, uint32_t elems, double* y) {
  const uint32_t first = blockIdx.x * (kThreads * kElems) + threadIdx.x;
  double v[kElems], slots[kChainSlots][kElems] = {};
  for (int e = 0; e < kElems; ++e) {
    const uint32_t i = first + e * kThreads;
    v[e] = i < elems ? chain.first[i] : 0.0;
  }
  for (int32_t s = 0; s < chain.steps; ++s) {
    const ChainOperator& op = chain.at[s];
    if (op.is_binary) {
      double other[kElems];
      for (int e = 0; e < kElems; ++e) {
        const uint32_t i = first + e * kThreads;
        if (op.other == ChainOperator::kItself)
          other[e] = v[e];
        else if (op.other != ChainOperator::kArray)
          other[e] = op.other == ChainOperator::kSlot ? slots[0][e] : slots[1][e];
        else
          other[e] = i < elems ? op.array[offsets_of<1>(op.layout, i).of[0]] : 0.0;
      }
      combine(op, other, v);
    } else {
      for (int e = 0; e < kElems; ++e) v[e] = applied(op.unary, v[e]);
    }
    for (int e = 0; e < kElems; ++e) {
      if (op.save_in == 0) slots[0][e] = v[e];
      if (op.save_in == 1) slots[1][e] = v[e];
    }
  }
  for (int e = 0; e < kElems; ++e) {
    const uint32_t i = first + e * kThreads;
    if (i < elems) y[i] = v[e];
  }
}

__global__ void integers_kernel(const double* x, int64_t* y, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    y[i] = static_cast<int64_t>(x[i]);
}

}  // namespace

void chain(const Chain& chain, int64_t elems, double* y, cudaStream_t stream) {
  constexpr int64_t kOfBlock = int64_t{kThreads} * kElems;
  const auto blocks = static_cast<unsigned>((elems + kOfBlock - 1) / kOfBlock);
  chain_kernel<<<blocks, kThreads, 0, stream>>>(chain, static_cast<uint32_t>(elems), y);
}

void to_integers(const double* x, int64_t* y, int64_t count, cudaStream_t stream) {
  integers_kernel<<<blocks_for(count), kThreads, 0, stream>>>(x, y, count);
}

}  // namespace vernier::backend::cuda::fp64
