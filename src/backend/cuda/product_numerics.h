// What the rows of MatMul, Gemm, Einsum and Conv say that they do: products on tensor cores, or in
// f32 whatever the operands are stored in.
#pragma once
#include "backend/body.h"

namespace vernier::backend::cuda {

/// Yes if both operands are f16 or both bf16 and everything else is at most f32.
Support supports_tensor_cores(const Problem& problem);
/// Operands taken as they are stored, sums and the rest in f32.
Numerics tensor_core_numerics(const Problem& problem);

/// True if x is f32 and its products may be, or have to be, taken in TF32.
bool takes_tf32(const Problem& problem);
/// Both operands rounded to TF32, sums and the rest in f32.
Numerics tf32_numerics(const Problem& problem);

/// Yes if the operands and results are f32, f16 or bf16 in any mix.
Support supports_float_product(const Problem& problem);
/// Operands widened to f32. A constant that was rounded to a 16-bit type is declared in that type.
Numerics float_product_numerics(const Problem& problem);

}  // namespace vernier::backend::cuda
