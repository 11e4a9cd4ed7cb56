// The k first elements of lines. Host-side entry of top_k.cu in plain types.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

/// How the bits of a type are ordered.
enum class BitOrder : uint8_t { kUnsigned, kSigned, kFloat };

struct TopKLaunch {
  Array x;                // any strides
  Array values, indices;  // dense, as x with k elements along `axis`; data null: unwanted
  int axis;
  int64_t k;
  bool largest;
  BitOrder order;
  uint64_t infinity;   // of floats: the bits of +inf
  std::byte* scratch;  // top_k_workspace() bytes
};

size_t top_k_workspace(const Array& x, int axis, int64_t k);

/// values, indices = the k first elements of each line along `axis`, largest (smallest) first,
/// equal ones by index; NaN above every number, −0 equals +0. indices i64. Elements are moved as
/// bits. One block per line. Lines up to 1024 are sorted whole in shared memory; longer ones are
/// first cut to their k best: a radix selection over the bytes of the key, then of the index where
/// keys are equal, which is one pass over the line per byte. No two candidates are equal, so the
/// result does not depend on the order in which threads find them.
cudaError_t top_k(const TopKLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
