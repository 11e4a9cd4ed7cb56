// Einsum, one thread per output element; contract in einsum.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/linear/einsum.h"

namespace vernier::backend::cuda {
namespace {

struct FloatSum {
  float sum = 0;
  __device__ void add(const EinsumLaunch& e, const int64_t* at) {
    float product = load_f32(e.term[0].type, e.term[0].data, at[0]);
    if (e.terms == 2) {
      sum = fmaf(product, load_f32(e.term[1].type, e.term[1].data, at[1]), sum);
      return;
    }
    for (int n = 1; n < e.terms; ++n) product *= load_f32(e.term[n].type, e.term[n].data, at[n]);
    sum += product;
  }
  __device__ void store(const EinsumLaunch& e, int64_t i) const {
    store_f32(e.y_type, e.y, i, sum);
  }
};

struct IntegerSum {
  uint64_t sum = 0;
  __device__ void add(const EinsumLaunch& e, const int64_t* at) {
    uint64_t product = 1;
    for (int n = 0; n < e.terms; ++n)
      product *= static_cast<uint64_t>(load_integer(e.term[n].type, e.term[n].data, at[n]));
    sum += product;
  }
  __device__ void store(const EinsumLaunch& e, int64_t i) const {
    store_integer(e.y_type, e.y, i, static_cast<int64_t>(sum));
  }
};

// Adds the steps of flat index `flat` over labels [begin, end) to the offsets.
__device__ void move_to(const EinsumLaunch& e, int begin, int end, int64_t flat, int64_t* at) {
#pragma unroll 1
  for (int label = end - 1; label >= begin; --label) {
    const int64_t place = take_axis(flat, e.size[label]);
    for (int n = 0; n < kMaxTerms; ++n) at[n] += place * e.term[n].step[label];
  }
}

// The innermost summed label is a plain loop; `outer` counts the places of the others, `inner` its
// own. Without summed labels both are 1.
template <class Sum>
__global__ void __launch_bounds__(kBlock)
    einsum_kernel(const __grid_constant__ EinsumLaunch e, int64_t total, int64_t outer,
                  int64_t inner) {
  const int last = e.labels - 1;
  const bool sums = e.labels > e.outputs;
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t base[kMaxTerms] = {};
    move_to(e, 0, e.outputs, i, base);
    Sum sum;
    for (int64_t o = 0; o < outer; ++o) {
      int64_t at[kMaxTerms];
      for (int n = 0; n < kMaxTerms; ++n) at[n] = base[n];
      if (sums) move_to(e, e.outputs, last, o, at);
      for (int64_t k = 0; k < inner; ++k) {
        sum.add(e, at);
        for (int n = 0; n < kMaxTerms; ++n) at[n] += sums ? e.term[n].step[last] : 0;
      }
    }
    sum.store(e, i);
  }
}

}  // namespace

cudaError_t sum_products(const EinsumLaunch& e, cudaStream_t stream) {
  int64_t total = 1, outer = 1;
  for (int i = 0; i < e.outputs; ++i) total *= e.size[i];
  for (int i = e.outputs; i + 1 < e.labels; ++i) outer *= e.size[i];
  const int64_t inner = e.labels > e.outputs ? e.size[e.labels - 1] : 1;
  if (total == 0) return cudaSuccess;
  if (e.y_type <= DType::kBF16)
    einsum_kernel<FloatSum><<<blocks_for(total), kBlock, 0, stream>>>(e, total, outer, inner);
  else
    einsum_kernel<IntegerSum><<<blocks_for(total), kBlock, 0, stream>>>(e, total, outer, inner);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
