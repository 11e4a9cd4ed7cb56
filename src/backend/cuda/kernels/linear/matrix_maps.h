// Host side: maps of matrices for the tensor copy engine. C++17.
#pragma once
#include "backend/cuda/encode_tiled.h"
#include "backend/cuda/kernels/linear/gemm_sm90.h"

namespace vernier::backend::cuda {

inline size_t bytes_of(GemmType type) {
  return type == GemmType::kF32 ? 4 : type >= GemmType::kI8 ? 1 : 2;
}

// A row-major [rows, cols] matrix, copied in boxes of box_rows x 128 or 64 bytes, swizzled. f32 is
// rounded to TF32 when it is loaded unless the copies are exact.
struct MatrixMap {
  const void* data;
  int64_t rows, cols;
  int box_rows;
  GemmType type;
  bool exact = false;
  int row_bytes = 128;
};
inline CUtensorMapDataType map_type(const MatrixMap& matrix) {
  if (matrix.type == GemmType::kF32)
    return matrix.exact ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  if (matrix.type >= GemmType::kI8) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  return matrix.type == GemmType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                        : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}
inline bool encode(CUtensorMap* map, const MatrixMap& matrix) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(matrix.cols),
                               static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(matrix.cols) * bytes_of(matrix.type)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(matrix.row_bytes / bytes_of(matrix.type)),
                             static_cast<cuuint32_t>(matrix.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  return encode_tiled()(
             map, map_type(matrix), 2, const_cast<void*>(matrix.data), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             matrix.row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace vernier::backend::cuda
