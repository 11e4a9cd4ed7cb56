// Plants in constants: see constant_plants.h.
#include "plants/constant_plants.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "core/attrs.h"
#include "runtime/backends.h"
#include "runtime/proof.h"

namespace vernier::test {
namespace {

using plan::Blob;
using plan::kNone;
using plan::Plan;
using plan::Step;

// The blob with other values: change(values), as doubles.
void change(Blob& blob, const std::function<void(std::vector<double>&)>& change_values) {
  EvalTensor values = EvalTensor::from(blob.bytes);
  change_values(values.f);
  blob.bytes = values.to_tensor();
}

// The tables that a lookup reads, the largest first.
std::vector<Blob*> tables(Plan& plan) {
  std::vector<Blob*> found;
  for (const Step& step : plan.steps) {
    if (step.op != OpKind::kEmbedNorm && step.op != OpKind::kGather) continue;
    for (const int32_t in : step.inputs) {
      if (in == kNone || plan.value(in).kind != plan::PlanValue::Kind::kConstant) continue;
      Blob& blob = plan.blob(plan.value(in).constant);
      if (blob.shape.size() == 2 && is_float(blob.dtype)) found.push_back(&blob);
    }
  }
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [](const Blob* blob) { return blob->shape[0]; });
  VERNIER_ASSERT(found.size() >= 2, "a model with two tables");
  return found;
}

// The first step of products with input `input` packed, and that input.
std::pair<Step*, plan::PackedInput*> packed_product(Plan& plan, OpKind op, int32_t input) {
  for (Step& step : plan.steps) {
    if (step.op != op) continue;
    for (plan::PackedInput& packed : step.packed)
      if (packed.input == input) return {&step, &packed};
  }
  VERNIER_ASSERT(false, "an engine with packed products");
  return {};
}

// Unpacks an input of a step, changes it and packs it again as its kernel does.
void change_packed(Plan& plan, Step& step, const plan::PackedInput& packed,
                   const std::function<void(std::vector<double>&)>& change_values) {
  const backend::Backend& backend = runtime::backend_named(plan.device, "the plants' device");
  const backend::KernelDef& kernel = *backend::find_kernel(backend, step.kernel);
  backend::Problem problem = runtime::problem_of(plan, step);
  std::vector<Tensor> plain(problem.inputs.size());
  for (const plan::PackedInput& other : step.packed) {
    const Blob& blob = plan.blob(other.blob);
    EvalTensor values = EvalTensor::from(
        kernel.unpack(problem, {other.input, blob.layout, blob.bytes.byte_span()}));
    if (other.input == packed.input) change_values(values.f);
    plain[other.at()] = values.to_tensor();
  }
  for (const plan::PackedInput& other : step.packed) {
    backend::Operand& in = problem.inputs[other.at()];
    in.constant = &plain[other.at()];
    in.packed = false;
  }
  for (const backend::PackedConstant& again : kernel.pack(problem)) {
    if (again.input != packed.input) continue;
    Blob blob = plan.blob(packed.blob);
    blob.layout = again.layout;
    blob.bytes =
        Tensor::from_bytes(DType::kU8, {static_cast<int64_t>(again.bytes.size())}, again.bytes);
    plan.blob(packed.blob) = std::move(blob);
  }
}

}  // namespace

void spoil_vocabulary_row(Plan& plan) {
  Blob& table = *tables(plan).front();
  const auto width = static_cast<size_t>(table.shape[1]);
  change(table, [&](std::vector<double>& values) {
    for (size_t i = values.size() - width; i < values.size(); ++i) values[i] *= -3;
  });
}

void spoil_late_positions(Plan& plan) {
  constexpr size_t kFrom = 64;
  Blob& table = *tables(plan)[1];
  const auto width = static_cast<size_t>(table.shape[1]);
  VERNIER_ASSERT(table.shape[0] > static_cast<int64_t>(kFrom) + 1, "a table of more positions");
  change(table, [&](std::vector<double>& values) {
    std::copy(values.begin() + static_cast<std::ptrdiff_t>((kFrom + 1) * width), values.end(),
              values.begin() + static_cast<std::ptrdiff_t>(kFrom * width));
  });
}

void spoil_bias_element(Plan& plan) {
  constexpr size_t kBias = 2;
  for (const Step& step : plan.steps) {
    if (step.op != OpKind::kLinear || !step.has_input(kBias)) continue;
    const plan::PlanValue& value = plan.value(step.inputs[kBias]);
    if (value.kind != plan::PlanValue::Kind::kConstant) continue;
    return change(plan.blob(value.constant),
                  [](std::vector<double>& values) { values[values.size() / 2] *= 1 + 0x1p-12; });
  }
  VERNIER_ASSERT(false, "a product with a bias");
}

void spoil_packed_columns(Plan& plan) {
  const auto [step, packed] = packed_product(plan, OpKind::kLinear, 1);
  const bool trans_w = decode<LinearAttrs>(step->attrs).trans_w;
  const Shape shape = plan.blob(packed->blob).shape;
  change_packed(plan, *step, *packed, [&](std::vector<double>& values) {
    const int64_t rows = shape[0], cols = shape[1], k = trans_w ? cols : rows;
    const int64_t step_k = trans_w ? 1 : cols, step_n = trans_w ? cols : 1;
    for (int64_t i = 0; i < k; ++i)
      std::swap(values[static_cast<size_t>(i * step_k + 3 * step_n)],
                values[static_cast<size_t>(i * step_k + 4 * step_n)]);
  });
}

void spoil_an_epsilon(Plan& plan) {
  const auto is_norm = [](const Step& step) { return step.op == OpKind::kAddLayerNorm; };
  const auto first = std::ranges::find_if(plan.steps, is_norm);
  VERNIER_ASSERT(first != plan.steps.end(), "two norms of sums");
  const auto second = std::find_if(std::next(first), plan.steps.end(), is_norm);
  VERNIER_ASSERT(second != plan.steps.end(), "two norms of sums");
  auto attrs = decode<NormAttrs>(second->attrs);
  attrs.epsilon = 1e-2;
  second->attrs = encode(attrs);
}

void spoil_int8_scale(Plan& plan) {
  constexpr size_t kScales = 3;
  const auto [step, packed] = packed_product(plan, OpKind::kQuantizedLinear, 1);
  const bool trans_w = decode<QuantizedLinearAttrs>(step->attrs).trans_w;
  const Shape shape = plan.blob(packed->blob).shape;
  change(plan.blob(plan.value(step->inputs[kScales]).constant),
         [](std::vector<double>& scales) { scales[1] *= 2; });
  change_packed(plan, *step, *packed, [&](std::vector<double>& values) {
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i)
      if ((trans_w ? i / shape[1] : i % shape[1]) == 1) values[static_cast<size_t>(i)] /= 2;
  });
}

}  // namespace vernier::test
