// What the rows of Linear on CUDA share. Contract of the operator: LinearAttrs in core/attrs.h.
#pragma once
#include "backend/cuda/body.h"

namespace vernier::backend::cuda {

/// Sizes of a weight.
struct WeightShape {
  int64_t k = 0, n = 0;
};
/// Does the node (Linear, LinearAddLayerNorm) hold its weight as [N, K]?
bool is_weight_transposed(const Problem& problem);
/// Of a problem whose weight is a matrix of constant sizes.
WeightShape weight_shape(const Problem& problem);
/// "<kind> f16 K=768 N=3072": how a packed weight says what it is, and its sizes back, 0 where they
/// are not named.
std::string weight_layout(std::string_view kind, DType type, const WeightShape& shape);
WeightShape weight_shape_of(std::string_view layout);
/// dst [cols, rows] = src [rows, cols]ᵀ of elements of 1, 2 or 4 bytes, in several threads.
void transpose_weight(size_t elem_bytes, const std::byte* src, std::byte* dst, int64_t rows,
                      int64_t cols);
/// Yes if input 1 is a constant matrix that is not empty.
Support supports_weight_matrix(const Problem& problem);
/// Yes if input `residual`, where it is present, has the shape of the result.
Support supports_residual(const Problem& problem, size_t residual);
/// Yes if the weight is a constant matrix that is not empty and the residual is not broadcast.
Support supports_constant_weight(const Problem& problem);
/// Yes if operand `input`, where present, is `type` or f32.
Support is_type_or_f32(const Problem& problem, size_t input, DType type);
/// Rows of x: the product of all but its last size.
int64_t rows_of(const TensorArg& x);

}  // namespace vernier::backend::cuda
