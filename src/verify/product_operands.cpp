// Operands of products: see product_operands.h.
#include "verify/product_operands.h"

#include <utility>

#include "core/attrs.h"
#include "evaluate/plan_evaluator.h"
#include "reference/round_each.h"
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

namespace {

bool is_dense(const backend::TensorArg& arg) {
  int64_t step = 1;
  for (int d = arg.rank - 1; d >= 0; --d) {
    if (arg.dim(d) != 1 && arg.stride(d) != step) return false;
    step *= arg.dim(d);
  }
  return true;
}

}  // namespace

FloatRows::FloatRows(const backend::TensorArg& arg, int64_t cols)
    : dense_(is_dense(arg) ? Tensor() : copy_of(arg)),
      data_(dense_.defined() ? dense_.data() : arg.data),
      dtype_(arg.dtype),
      cols_(cols),
      count_(cols > 0 ? arg.elems() / cols : 0) {}

void FloatRows::read(int64_t begin, int64_t end, EvalTensor& to) const {
  const int64_t width = cols_ * static_cast<int64_t>(size_bytes(dtype_));
  const Tensor rows(dtype_, {end - begin, cols_}, nullptr, data_ + begin * width);
  to = EvalTensor::from(rows, std::move(to.f));
}

std::optional<EvalTensor> given(const LaunchCall& call, size_t i) {
  if (i >= call.in.size() || call.in[i].data == nullptr) return std::nullopt;
  return EvalTensor::from(copy_of(call.in[i]));
}

void round_operand(const Rounding& rounding, size_t point, EvalTensor& t) {
  if (rounding.changes(point)) reference::round_each(rounding, point, t.f);
}

bool leaves_operand(const Rounding& rounding, size_t point, DType stored) {
  const PointRounding& at = rounding.at(point);
  return !rounding.changes(point) ||
         (at.type == stored && at.mode == PointRounding::Mode::kNearest);
}

std::shared_ptr<const EvalTensor> weight_of(const plan::Plan& plan, const backend::Backend& backend,
                                            const plan::Step& step, const LaunchCall& call,
                                            ConstantCache* constants) {
  const auto shared = [&](const Tensor& constant, const auto& make) {
    return constants ? constants->get(constant, make) : std::make_shared<const EvalTensor>(make());
  };
  for (const plan::PackedInput& packed : step.packed) {
    if (packed.input == 1) {
      return shared(plan.blob(packed.blob).bytes,
                    [&] { return evaluate::unpacked(plan, backend, step, packed); });
    }
  }
  const bool is_constant =
      step.has_input(1) && plan.value(step.inputs[1]).kind == plan::PlanValue::Kind::kConstant;
  if (!is_constant) return std::make_shared<const EvalTensor>(*given(call, 1));
  const Tensor& bytes = plan.blob_of(plan.value(step.inputs[1])).bytes;
  return shared(bytes, [&] { return EvalTensor::from(bytes); });
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
