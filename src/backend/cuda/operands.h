// Operands of a launch in the plain types of the .cu files, and constants read on the host.
#pragma once
#include <vector>

#include "backend/cuda/body.h"
#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

static_assert(kMaxAxes == kMaxRank);

Array array_of(const TensorArg& t);
/// Operand `i`, or an array without data where it is absent.
Array optional_array(std::span<const TensorArg> operands, size_t i);
inline bool given(std::span<const TensorArg> operands, size_t i) {
  return i < operands.size() && operands[i].dtype != DType::kUndefined;
}
inline bool given(const Problem& problem, size_t i) {
  return i < problem.inputs.size() && problem.inputs[i].present;
}

/// The elements of constant input `i`, which create() reads back from the device once; empty where
/// it is absent or no constant.
std::vector<int64_t> constant_integers(const CreateCall& call, size_t i);
std::vector<double> constant_floats(const CreateCall& call, size_t i);

/// Yes if the floating operands present have one type, or all are of f32, f16 and bf16: for kernels
/// that move elements and round where an operand is held in another type than the result.
Support movable(const Problem& problem);
/// exact_numerics where all floating operands have one type, else f32_numerics.
Numerics moving_numerics(const Problem& problem);

}  // namespace vernier::backend::cuda
