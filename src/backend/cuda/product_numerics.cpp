// Numerics of products: see product_numerics.h.
#include "backend/cuda/product_numerics.h"

#include <algorithm>

namespace vernier::backend::cuda {

Support supports_tensor_cores(const Problem& problem) {
  const DType a = problem.inputs[0].dtype;
  if (problem.inputs.size() < 2 || !is_16_bit_float(a) || problem.inputs[1].dtype != a)
    return no("operands are not both f16 or both bf16");
  return all_up_to_f32(problem);
}

namespace {

Numerics with_operands_of(const Problem& problem, DType type) {
  Numerics numerics = f32_numerics(problem);
  numerics.compute = type;
  const size_t points = rounding_points(problem.op).size();
  for (size_t i = 0; i + 1 < points && i < 2; ++i) numerics.points[i].type = type;
  return numerics;
}

}  // namespace

Numerics tensor_core_numerics(const Problem& problem) {
  return with_operands_of(problem, problem.inputs[0].dtype);
}

bool takes_tf32(const Problem& problem) {
  const TypeRequest& compute = problem.asked.compute;
  return problem.inputs[0].dtype == DType::kF32 && compute.type != DType::kUndefined &&
         (compute.exact ? compute.type == DType::kTF32
                        : compute.type != DType::kF64 && represents(DType::kTF32, compute.type));
}

Numerics tf32_numerics(const Problem& problem) { return with_operands_of(problem, DType::kTF32); }

Support supports_float_product(const Problem& problem) {
  if (!is_float(problem.outputs[0].dtype)) return no("the operands are integers");
  return all_up_to_f32(problem);
}

Numerics float_product_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  for (size_t i = 0; i < std::min<size_t>(2, problem.inputs.size()); ++i) {
    const Operand& operand = problem.inputs[i];
    if (operand.is_constant() && is_16_bit_float(operand.dtype)) numerics.compute = operand.dtype;
  }
  return numerics;
}

}  // namespace vernier::backend::cuda
