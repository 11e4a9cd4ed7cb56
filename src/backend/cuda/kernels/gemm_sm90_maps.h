// Host side: matrices as the tensor copy engine is told of them (CUDA driver API, "Tensor Map
// Object Management"). C++17.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/gemm_sm90.h"

namespace vernier::backend::cuda {

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

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

inline size_t bytes_of(GemmType type) { return type == GemmType::kF32 ? 4 : 2; }

// A row-major [rows, cols] matrix, copied in boxes of box_rows x 128 bytes, swizzled. f32 is
// rounded to TF32 on its way in unless the copies are exact.
struct MatrixMap {
  const void* data;
  int64_t rows, cols;
  int box_rows;
  GemmType type;
  bool exact = false;
};
inline CUtensorMapDataType map_type(const MatrixMap& matrix) {
  if (matrix.type == GemmType::kF32)
    return matrix.exact ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  return matrix.type == GemmType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                        : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}
inline bool encode(CUtensorMap* map, const MatrixMap& matrix) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(matrix.cols),
                               static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(matrix.cols) * bytes_of(matrix.type)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(128 / bytes_of(matrix.type)),
                             static_cast<cuuint32_t>(matrix.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  return encode_tiled()(map, map_type(matrix), 2, const_cast<void*>(matrix.data), sizes, strides,
                        box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace vernier::backend::cuda
