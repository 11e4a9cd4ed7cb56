// Operators of the FP64 evaluation on arrays in the memory of the GPU.
#pragma once
#include <memory>

#include "backend/cuda/fp64/array.h"
#include "backend/cuda/fp64/gemm.h"
#include "backend/cuda/fp64/kept.h"
#include "backend/cuda/fp64/launch.h"
#include "core/evaluator.h"

namespace vernier::backend::cuda::fp64 {

/// What all evaluations share.
struct Shared {
  Gemms gemms;
  KeptArrays kept;
};

/// The floats or booleans of `x` on the GPU; they are copied there unless they are there already.
std::shared_ptr<const Array> on_gpu(Shared& shared, const EvalTensor& x);

/// Sizes and strides of a result and its operands, with axes merged where all allow it.
Layout layout_of(const Shape& sizes, std::span<const Shape> strides);
Rounder rounder_of(const PointRounding& rounding);

/// Fp64Device::takes() and evaluate().
bool takes(OpKind op, const EvalCall& call);
void evaluate(Shared& shared, OpKind op, const EvalCall& call);

}  // namespace vernier::backend::cuda::fp64
