// Picking elements by index: Gather, GatherElements, GatherND. Host-side entry of gather.cu in
// plain types. Indices are i32 or i64 and count from the end where negative; an element that an
// index outside its axis would pick is 0. Any type, bits moved unchanged; all arrays dense.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

struct GatherLaunch {
  Array data, indices, y;
  int axis;        // Gather, GatherElements: counted from the front
  int batch_dims;  // GatherND
};

/// y[o, n, i] = data[o, indices[n], i] with data as [outer, size, inner]. Rows move in units of up
/// to 16 bytes.
cudaError_t gather_rows(const GatherLaunch& args, cudaStream_t stream);
/// y[i…] = data[i…, with coordinate `axis` replaced by indices[i…]].
cudaError_t gather_elements(const GatherLaunch& args, cudaStream_t stream);
/// y[b…, t…, s…] = data[b…, indices[b…, t…]…, s…], b over the first `batch_dims` axes.
cudaError_t gather_tuples(const GatherLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
