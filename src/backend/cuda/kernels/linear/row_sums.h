// Host-side entry of row_sums.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vernier::backend::cuda {

/// sums[r] = Σ_k x[r, k], exact up to 2^24 columns; x is i8 [rows, cols], dense. Cost: x is read.
cudaError_t launch_row_sums(const int8_t* x, int64_t rows, int64_t cols, int32_t* sums,
                            cudaStream_t stream);

}  // namespace vernier::backend::cuda
