// Host-side entry of zero_padding.cu in plain types. What is computed: ZeroPaddingAttrs in
// core/attrs.h.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

/// Arrays dense; `places` may be absent. x and y of one type.
struct ZeroPaddingLaunch {
  Array x, mask, places, y;
  int64_t padding;
};
cudaError_t zero_padding(const ZeroPaddingLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
