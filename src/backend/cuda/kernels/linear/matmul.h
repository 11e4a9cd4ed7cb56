// Matrix products of any strides: MatMul, Gemm and the einsums that are products. Host-side entry
// of matmul.cu in plain types.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

/// One matrix per batch, element (row, col) at data + Σ batch·batch_step + row·row_step +
/// col·col_step. Steps of 0 repeat.
struct Matrices {
  std::byte* data;
  DType type;
  int64_t row_step, col_step, batch_step[kMaxAxes];
};

struct ProductLaunch {
  Matrices a, b, c;  // [rows, k], [k, cols], [rows, cols]
  Matrices addend;   // data null: none
  int64_t rows, cols;
  int k;
  int batch_axes;
  int64_t batch[kMaxAxes];
  int64_t batches;  // their product
  float alpha, beta;
};

/// c = alpha·a·b + beta·addend per batch.
/// Types   a, b, c and addend each f32, f16 or bf16. With `tensor_cores` a and b are both f16 or
/// both
///         bf16, their products exact on tensor cores; else operands are widened to f32.
/// Sums in f32, k upwards (tensor cores: 16 at a time), whatever the other sizes are: a row's bits
/// depend on the row, on b and on k. Each result is rounded once to c's type.
/// Error   <= k·2^-24·Σ|a||b|, in practice √k; plus half an ulp of c.
/// Cost    tiles of 64 × 64, each reading its rows and columns once; of 128 × 128, at the memory's
///         speed, where rows are runs of 8 aligned elements and the tiles many. No workspace.
cudaError_t multiply(const ProductLaunch& p, bool tensor_cores, cudaStream_t stream);

/// The same with integers of one type (no addend, alpha 1), which wrap; one thread per element.
cudaError_t multiply_integers(const ProductLaunch& p, cudaStream_t stream);

}  // namespace vernier::backend::cuda
