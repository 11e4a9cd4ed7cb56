// Is the rewrite right? F against R at every value that still has its name.
#include <fmt/format.h>

#include <algorithm>

#include "verify/checks/table.h"

namespace vernier::verify::checks {
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
      aliases[value.alias_of].push_back(v);
  }
  return aliases;
}

// Value `index` of the plan, which `step` made, against the model's value of the same name.
Finding compare(const plan::Plan& plan, size_t step, size_t index, const EvalTensor& got,
                const EvalTensor& want, double limit) {
  ValueResult row;
  row.name = plan.values[index].name;
  row.step = static_cast<int32_t>(step);
  row.kernel = plan.steps[step].kernel;
  row.step_name = plan.steps[step].name;
  row.passed = agrees(got, want, limit, row.distance);
  Finding finding;
  if (!row.passed) {
    finding = failure(
        Verdict::kRewriteBug,
        fmt::format("in FP64, value '{}' of the engine's plan differs from the model's by rms "
                    "{:.3g} of {:.3g}; it is made by {}. A pass rewrote the graph wrongly: "
                    "please report it with the model",
                    row.name, row.distance.rms, row.distance.rms_reference,
                    step_text(plan, row.step)));
    finding.cause = cause_at(plan, row.step);
  }
  finding.value = std::move(row);
  return finding;
}

Findings ask_rewrite(Context& context, const GroupValues& group) {
  const plan::Plan& plan = context.subject.plan;
  const ir::Graph& model = context.subject.model;
  References reference;
  for (const auto& [id, value] : group.r.values) reference[model.value(id).name] = &value;
  for (const auto& [name, value] : group.r.outputs) reference[name] = &value;
  const double limit = rewrite_limit(model);
  auto aliases = named_aliases(plan);
  PlanEvaluator f = f_of(context);
  Findings findings;
  const auto add = [&](size_t step, size_t index, const EvalTensor& got) {
    const std::string& name = plan.values[index].name;
    const auto it = reference.find(name);
    if (name.empty() || it == reference.end()) return;
    findings.push_back(compare(plan, step, index, got, *it->second, limit));
  };
  f.run(in_plan_order(context, group.inputs),
        [&](size_t step, size_t index, const EvalTensor& got) {
          add(step, index, got);
          for (size_t alias : aliases[index]) add(step, alias, f.value(alias));
        });
  return findings;
}

}  // namespace

constexpr Check rewrite{.ask = &ask_rewrite};

}  // namespace vernier::verify::checks
