// Failed CUDA calls become vernier::Error: what failed, on what, and the driver's own words.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

#include "core/error.h"

namespace vernier::backend {

inline void check_cuda(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // reported here, not at the next launch
  throw Error(ErrorCode::kMachine, what + " failed on the GPU: " + cudaGetErrorString(status));
}
inline void check_cublas(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::kMachine,
              what + " failed in cuBLASLt: " + cublasLtGetStatusString(status));
}

}  // namespace vernier::backend
