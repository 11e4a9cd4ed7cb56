// Kernel lists and what many rows share: see body.h.
#include "backend/body.h"

#include "core/names.h"

namespace vernier::backend {

void KernelTable::add(OpKind op, std::string_view strategy, const KernelBody& body) {
  names_.push_back(device_ + "." + snake_case(vernier::name(op)) + "." + std::string(strategy));
  kernels_.push_back({body, names_.back(), op});
}

void KernelTable::add_all(std::string_view strategy, const KernelBody& (*body)(OpKind),
                          uint32_t with_flags) {
  for (size_t i = 0; i < num_op_kinds(); ++i) {
    const auto op = static_cast<OpKind>(i);
    if (with_flags == 0 || (flags(op) & with_flags) != 0) add(op, strategy, body(op));
  }
}

namespace {

// Does the problem contain a GELU? Its f32 forms are within 4e-7·max(|x|, 1) (math-inl.h).
bool has_gelu(const Problem& problem) {
  if (problem.op == OpKind::kGelu) return true;
  if (problem.op == OpKind::kLinear || problem.op == OpKind::kQuantizedLinear) {
    const Activation activation = problem.attrs_as<LinearAttrs>().activation;
    return activation == Activation::kGeluErf || activation == Activation::kGeluTanh;
  }
  if (problem.op == OpKind::kWeightOnlyLinear) {
    const Activation activation = problem.attrs_as<WeightOnlyLinearAttrs>().activation;
    return activation == Activation::kGeluErf || activation == Activation::kGeluTanh;
  }
  return problem.op == OpKind::kFusedElementwise &&
         problem.attrs_as<FusedElementwiseAttrs>().program.find("Gelu") != std::string::npos;
}

}  // namespace

Numerics f32_numerics(const Problem& problem) {
  Numerics numerics;
  const size_t points = rounding_points(problem.op).size();
  for (size_t i = 0; i < points; ++i) numerics.points[i].type = DType::kF32;
  for (const Operand& out : problem.outputs) {
    if (!out.present || !is_float(out.dtype)) continue;
    numerics.store = out.dtype;
    if (points > 0) numerics.points[points - 1].type = out.dtype;
    break;
  }
  constexpr double kGeluError = 4e-7;
  if (has_gelu(problem)) numerics.approximation_abs = numerics.approximation_rel = kGeluError;
  return numerics;
}

Numerics exact_numerics(const Problem& problem) {
  Numerics numerics;
  for (const Operand& out : problem.outputs) {
    if (out.present && is_float(out.dtype)) numerics.store = out.dtype;
  }
  numerics.compute = numerics.accumulate = DType::kF64;  // no arithmetic: nothing is lost
  const size_t points = rounding_points(problem.op).size();
  if (points > 0) numerics.points[points - 1].type = numerics.store;
  return numerics;
}

Numerics moving_numerics(const Problem& problem) {
  return one_float_type(problem) ? exact_numerics(problem) : f32_numerics(problem);
}

std::unique_ptr<ShapeState> workspace_only(size_t bytes) {
  auto state = std::make_unique<ShapeState>();
  state->workspace_bytes = bytes;
  return state;
}

}  // namespace vernier::backend
