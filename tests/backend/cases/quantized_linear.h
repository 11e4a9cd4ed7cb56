// Cases of QuantizedLinear that several tests run.
#pragma once
#include "backend/harness.h"

namespace vernier::backend::test {

struct QuantizedCase {
  const char* name;
  Shape x;  ///< [..., K]
  int64_t n;
  LinearAttrs attrs = {};
  DType x_type = DType::kQ8, w_type = DType::kQ8;
  bool by_row = true, by_column = true;
  bool x_zero = false, constant_x_scale = false, constant_x_zero = false, w_zero = false,
       w_zero_by_column = false;
  bool bias = true, residual = false;
};

/// Numbers of the whole range of their types; scales between 0.001 and about 0.04.
OpCase quantized_case(Maker& make, const QuantizedCase& of);
/// Whose sums need be no more exact than TF32.
OpCase with_fast_sums(OpCase c);

}  // namespace vernier::backend::test
