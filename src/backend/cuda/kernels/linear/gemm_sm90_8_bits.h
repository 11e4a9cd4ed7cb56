// Tile shapes of the sm_90a matrix product of 8 bits (gemm_sm90_int8.cu, gemm_sm90_f8.cu,
// gemm_sm90_f8_fast.cu), looked up by gemm_sm90.cu.
#pragma once
#include "backend/cuda/kernels/linear/gemm_sm90.h"

namespace vernier::backend::cuda {

/// One instantiation, as the host needs it.
struct GemmKernel {
  const void* function;  ///< null where the shape is not made for the type
  uint32_t shared_bytes;
  int sub;            ///< rows of 128 bytes of K per stage of the ring
  int box_row_bytes;  ///< of the boxes through which results leave; 0: there are none
};

/// The kernel of the tile shape `name` (gemm_sm90_name) on operands of i8, whose results of 16 bits
/// are `result`, or kI8: f16, quantized to the operands' type.
GemmKernel gemm_sm90_int8(const char* name, GemmType result);
/// The same of operands of f8e4m3.
GemmKernel gemm_sm90_f8(const char* name, GemmType result);
/// The same with sums that are not promoted.
GemmKernel gemm_sm90_f8_fast(const char* name, GemmType result);

}  // namespace vernier::backend::cuda
