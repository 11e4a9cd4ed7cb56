// Operands of products: see product_operands.h.
#include "verify/product_operands.h"

#include "core/attrs.h"
#include "evaluate/plan_evaluator.h"
#include "verify/replay.h"

namespace vernier::verify {

using backend::LaunchCall;

ProductRoles product_roles(const plan::Step& step) {
  constexpr size_t kNone = SIZE_MAX;
  if (step.op == OpKind::kLinear) return {.trans_w = decode<LinearAttrs>(step.attrs).trans_w};
  if (step.op == OpKind::kWeightOnlyLinear) {
    const auto attrs = decode<WeightOnlyLinearAttrs>(step.attrs);
    return {.bias = 4,
            .residual = 5,
            .trans_w = attrs.trans_w,
            .scale = 2,
            .zero = 3,
            .block = attrs.block_size};
  }
  if (step.op != OpKind::kQuantizedLinear) return {.bias = kNone, .residual = kNone};
  return {.bias = 6,
          .residual = 7,
          .quantized = true,
          .trans_w = decode<QuantizedLinearAttrs>(step.attrs).trans_w,
          .scale = 3,
          .zero = 5};
}

bool sums_in_f32(const plan::Step& step) {
  const Rounding rounding = ideal_rounding(step.op, step.numerics);
  return !is_simulated(rounding.accumulator()) && !is_simulated(rounding.inner());
}

std::optional<EvalTensor> given(const LaunchCall& call, size_t i) {
  if (i >= call.in.size() || call.in[i].data == nullptr) return std::nullopt;
  return EvalTensor::from(copy_of(call.in[i]));
}

void round_operand(const Rounding& rounding, size_t point, EvalTensor& t) {
  if (!rounding.changes(point)) return;
  for (double& v : t.f) v = rounding(point, v);
}

EvalTensor weight_of(const plan::Plan& plan, const backend::Backend& backend,
                     const plan::Step& step, const LaunchCall& call) {
  for (const plan::PackedInput& packed : step.packed) {
    if (packed.input == 1) return evaluate::unpacked(plan, backend, step, packed);
  }
  return *given(call, 1);
}

EvalTensor operand_of(const LaunchCall& call, const ProductRoles& roles, const Rounding& rounding) {
  EvalTensor x = *given(call, 0);
  if (!roles.quantized) {
    round_operand(rounding, 0, x);
    return x;
  }
  const std::optional<EvalTensor> scale = given(call, 2), zero = given(call, 4);
  const int64_t k = x.shape.back();
  EvalTensor real(DType::kF32, x.shape);
  const auto one_of = [&](const std::optional<EvalTensor>& t, int64_t i, double absent) {
    if (!t) return absent;
    return t->value(t->elems() == 1 ? 0 : i / k);
  };
  for (int64_t i = 0; i < x.elems(); ++i)
    real.f[i] = (x.value(i) - one_of(zero, i, 0)) * one_of(scale, i, 1);
  return real;
}

}  // namespace vernier::verify
