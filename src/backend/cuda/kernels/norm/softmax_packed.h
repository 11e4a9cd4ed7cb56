// Host-side entry of softmax_packed.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include "backend/cuda/kernels/norm/softmax.h"

namespace vernier::backend::cuda {

/// True for a softmax of rows of neighbors (steps 1) of at most 32768 elements, in and out of one
/// type: f32, f16 or bf16.
bool is_packed_softmax(const LineLaunch& launch);

/// What launch_lines() says of such a softmax. Order of sums: by size and type only.
/// Cost: each element is read once and written once.
cudaError_t launch_softmax_packed(const LineLaunch& launch, cudaStream_t stream);

}  // namespace vernier::backend::cuda
