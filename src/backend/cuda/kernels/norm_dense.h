// Host-side entry of norm_dense.cu: what encoders have most of, with few arguments.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/norm.h"

namespace vernier::backend::cuda {

/// True if launch_norm_dense() can: one or two dense arrays of rows, one type for all rows, f32 scale
/// and bias, whole aligned vectors, at most 1024 columns.
bool is_dense_norm(const NormLaunch& launch);
/// What launch_norm() does, with its bits: the same sums in the same order. Each row is a warp's; a
/// warp has the next row's loads under way while it works on this one, and holds no parameters.
cudaError_t launch_norm_dense(const NormLaunch& launch, cudaStream_t stream);

}  // namespace vernier::backend::cuda
