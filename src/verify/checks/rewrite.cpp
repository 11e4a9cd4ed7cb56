// Is the rewrite right? F against R at every value that is still visible, and what f32 rounding is
// expected to do to the outputs. See sweep.h.
#include <fmt/format.h>

#include <algorithm>

#include "evaluate/plan_evaluator.h"
#include "ops/evaluate.h"
#include "runtime/engine_impl.h"
#include "verify/sweep.h"

namespace vernier::verify {

using namespace evaluate;
namespace {

// Limit of rms(F − R) / rms(R): both are FP64, so a right rewrite differs by reordering only.
constexpr double kRewriteLimit = 1e-6;

using References = std::map<std::string, const EvalTensor*>;

// A model in 16 bits writes GELU's √2 as 1.4141, and raising takes it for √2: where single numbers
// are in 16 bits, the limit is a quarter of what rounding to them once does.
double rewrite_limit(const ir::Graph& model) {
  double limit = kRewriteLimit;
  for (size_t i = 0; i < model.num_values(); ++i) {
    const ir::Value& v = model.value(static_cast<ir::ValueId>(i));
    const bool number = v.is_constant() && v.constant.elems() == 1;
    if (!number || (v.dtype != DType::kF16 && v.dtype != DType::kBF16)) continue;
    limit = std::max(limit, ulp(v.dtype, 1) / 8);
  }
  return limit;
}

bool agrees(const EvalTensor& got, const EvalTensor& want, double limit, Distance& d) {
  if (got.shape != want.shape || got.is_float() != want.is_float()) return false;
  d = distance(got, want);
  return d.different_integers == 0 && d.wrong_non_finite == 0 && d.rms <= limit * d.rms_reference;
}

// The named views of each value of the plan.
std::map<size_t, std::vector<size_t>> named_aliases(const plan::Plan& plan) {
  std::map<size_t, std::vector<size_t>> aliases;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const plan::PlanValue& value = plan.values[v];
    if (value.kind == plan::PlanValue::Kind::kAlias && !value.name.empty())
      aliases[static_cast<size_t>(value.alias_of)].push_back(v);
  }
  return aliases;
}

}  // namespace

void Sweep::compare_value(int32_t step, size_t index, const EvalTensor& got,
                          const References& reference) {
  const std::string& name = plan_.values[index].name;
  const auto it = reference.find(name);
  if (name.empty() || it == reference.end()) return;
  ValueResult row;
  row.name = name;
  row.step = step;
  row.kernel = plan_.steps[static_cast<size_t>(step)].kernel;
  row.step_name = plan_.steps[static_cast<size_t>(step)].name;
  row.passed = agrees(got, *it->second, rewrite_limit_, row.distance);
  ++report_.compared_values;
  if (row.passed) return passed(check_names::kRewrite);
  failed(check_names::kRewrite, Verdict::kRewriteBug,
         fmt::format("in FP64, value '{}' of the engine's plan differs from the model's by rms "
                     "{:.3g} of {:.3g}; it is made by {}. A pass rewrote the graph wrongly: "
                     "please report it with the model",
                     name, row.distance.rms, row.distance.rms_reference, step_text(plan_, step)),
         nullptr);
  report_.rewrites.push_back(std::move(row));
}

void Sweep::rewrite(Group& group) {
  const auto available = static_cast<int64_t>(group.rows.size());
  int64_t count = axes_.known() ? std::min<int64_t>(2, available) : 1;
  if (axes_.fixed_rows > 1) count = axes_.fixed_rows;
  const NamedTensors inputs = batch_of(group, first_rows(count));
  ops::EvaluateOptions named;
  named.keep = ops::Keep::kNamed;
  named.watch = watch_;
  const ops::Evaluation r = ops::evaluate(model_, {inputs.begin(), inputs.end()}, named);
  References reference;
  for (const auto& [id, value] : r.values) reference[model_.value(id).name] = &value;
  for (const auto& [name, value] : r.outputs) reference[name] = &value;
  std::vector<Tensor> ordered;
  for (const std::string& name : plan_.input_names) ordered.push_back(*find(inputs, name));
  auto aliases = named_aliases(plan_);
  rewrite_limit_ = rewrite_limit(model_);
  PlanEvaluator f(plan_, *engine_->impl().backend, watched());
  set_exact_constants(f);
  f.run(ordered, [&](size_t step, size_t index, const EvalTensor& got) {
    compare_value(static_cast<int32_t>(step), index, got, reference);
    for (size_t alias : aliases[index])
      compare_value(static_cast<int32_t>(step), alias, f.value(alias), reference);
  });
  add_noise(ordered, r.outputs, 0);
  add_noise_rows(group);
}

}  // namespace vernier::verify
