// The driver's function that describes an array to the tensor copy engine (CUDA driver API, "Tensor
// Map Object Management"). Host side, C++17.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace vernier::backend::cuda {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's function, found once; null where the driver has none.
inline EncodeTiled encode_tiled() {
  static const EncodeTiled kFunction = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                                12000, cudaEnableDefault, &found);
    const bool ok = status == cudaSuccess && found == cudaDriverEntryPointSuccess;
    return reinterpret_cast<EncodeTiled>(ok ? function : nullptr);
  }();
  return kFunction;
}

}  // namespace vernier::backend::cuda
