// Einsum as one loop over all labels. Host-side entry of einsum.cu in plain types.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

inline constexpr int kMaxLabels = 16;
inline constexpr int kMaxTerms = 4;  // operands

struct EinsumLaunch {
  int labels, outputs, terms;  // the first `outputs` labels are those of y, in its order
  int64_t size[kMaxLabels];
  struct Term {
    std::byte* data;
    DType type;
    int64_t step[kMaxLabels];  // 0: the operand does not have the label, or repeats along it
  } term[kMaxTerms];
  std::byte* y;  // dense
  DType y_type;
};

/// y[outputs] = Σ over the other labels of Π terms, the last label fastest. Floats (f32, f16, bf16
/// in any mix): two terms by fused multiply-add, sums in f32 in the order of the loop, rounded
/// once; integers wrap. One thread per element of y.
cudaError_t sum_products(const EinsumLaunch& e, cudaStream_t stream);

}  // namespace vernier::backend::cuda
