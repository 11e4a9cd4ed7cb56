// R and F of the rows of a group: see model_and_plan.h.
#include "verify/sweep/model_and_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/fp64_device.h"
#include "core/token_rows.h"
#include "ops/evaluate.h"
#include "verify/sweep/decisions.h"
#include "verify/sweep/inputs.h"

namespace vernier::verify {
namespace {

// Rows of a batch that the model fixes stay together; the engine's range may begin above 1.
int64_t rows_at_a_time(const Context& context, const Group& group) {
  const BatchAxes& axes = context.inputs.axes;
  if (!axes.known()) return 1;
  if (axes.fixed_rows > 1) return axes.fixed_rows;
  return rows_evaluated_together(group.length);
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

EvalTensor on_host(EvalTensor t) {
  t.to_host();
  return t;
}

SquaredDifference squared_difference(const EvalTensor& got, const EvalTensor& want) {
  if (got.there || want.there) return fp64_device()->difference(got, want);
  SquaredDifference d{.agree = got.i == want.i};
  for (size_t i = 0; i < want.f.size(); ++i) {
    const double g = got.f[i], w = want.f[i], error = g - w;
    if (std::isfinite(error)) {
      d.squares += error * error;
      d.reference += w * w;
    } else {
      d.agree = d.agree && same_non_finite(g, w);
    }
  }
  return d;
}

// F beside R in one pass, as far as they agree; everything about them where they do not.
Distance difference(const EvalTensor& got, const EvalTensor& want) {
  constexpr double kAgree = 1e-7;  // below every limit of rms(F − R) / rms(R)
  Distance d;
  d.elems = want.elems();
  const SquaredDifference found = squared_difference(got, want);
  if (!found.agree || found.squares > kAgree * kAgree * found.reference)
    return distance(on_host(got), on_host(want));
  if (d.elems == 0) return d;
  d.rms = std::sqrt(found.squares / static_cast<double>(d.elems));
  d.rms_reference = std::sqrt(found.reference / static_cast<double>(d.elems));
  return d;
}

// Has each output as many rows as were evaluated, along its axis?
bool has_rows(const NamedValues& values, const BatchAxes& axes, size_t count) {
  return std::ranges::all_of(values, [&](const auto& named) {
    const auto axis = static_cast<size_t>(axes.of(named.first));
    return axis < named.second.rank() && std::cmp_equal(named.second.shape[axis], count);
  });
}

// What of R is held beside F: values that the plan names, and all outputs. They are those of `r`.
std::map<std::string, const EvalTensor*> named_values(const ir::Graph& model,
                                                      const ops::Evaluation& r) {
  std::map<std::string, const EvalTensor*> named;
  for (const auto& [id, value] : r.values) named[model.value(id).name] = &value;
  for (const auto& [name, value] : r.outputs) named[name] = &value;
  return named;
}

// R at the tokens that F has in place of a padded batch, in F's shape; nullopt: R has no such rows.
std::optional<EvalTensor> at_tokens(const EvalTensor& want, const EvalTensor& got,
                                    const std::vector<int64_t>& places) {
  const size_t rows = got.rank() > 0 && got.shape[0] == 1 ? 1 : 0;  // the axis of tokens
  const auto tokens = std::ssize(places);
  const std::vector<int64_t> inner(got.shape.begin() + static_cast<int64_t>(rows) + 1,
                                   got.shape.end());
  if (want.rank() != inner.size() + 2 || got.is_float() != want.is_float() ||
      !std::equal(inner.begin(), inner.end(), want.shape.begin() + 2) || got.shape[rows] < tokens)
    return std::nullopt;
  const int64_t row = num_elems(inner);
  if (want.there) return fp64_device()->with_rows(got, {want, places, row});
  EvalTensor found = on_host(got);
  const auto take = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    for (int64_t t = 0; t < tokens; ++t)
      std::copy_n(from.begin() + places[t] * row, row, to.begin() + t * row);
  };
  take(want.f, found.f);
  take(want.i, found.i);
  return found;
}

// The places of the tokens of each count of a plan, in these inputs.
std::map<std::string, std::vector<int64_t>> places_of(const plan::Plan& plan,
                                                      const std::vector<Tensor>& inputs) {
  std::map<std::string, std::vector<int64_t>> places;
  for (const plan::TokenCount& count : plan.token_counts) {
    const Tensor& mask = inputs[count.input];
    places[count.name] = places_of_tokens(mask.dtype(), mask.byte_span().data(), mask.shape()[0],
                                          mask.shape()[1], count.rule());
  }
  return places;
}

std::vector<NamedValues> by_row(const NamedValues& values, const BatchAxes& axes, size_t count) {
  std::vector<NamedValues> rows;
  for (size_t row = 0; row < count; ++row)
    rows.push_back(take_row(values, axes, static_cast<int64_t>(row)));
  return rows;
}

}  // namespace

RowsInFp64 evaluate_rows(const Context& context, const Group& group,
                         const std::vector<int64_t>& rows) {
  const plan::Plan& plan = context.subject.plan;
  const ir::Graph& model = context.subject.model;
  const NamedTensors inputs = batch_of(context, group, rows);
  std::set<std::string> names;
  for (const plan::PlanValue& value : plan.values)
    if (!value.name.empty()) names.insert(value.name);
  ops::EvaluateOptions options;
  options.keep = ops::Keep::kNamed;
  options.names = &names;
  options.watch = context.watch;
  options.constants = context.in_fp64.get();
  options.leave_on_device = true;
  const ops::Evaluation r = ops::evaluate(model, {inputs.begin(), inputs.end()}, options);
  const auto named = named_values(model, r);
  const std::vector<Tensor> ordered = in_plan_order(context, inputs);
  const auto places = places_of(plan, ordered);
  RowsInFp64 result;
  std::optional<EvalTensor> packed;
  const auto of_model = [&](size_t index, const EvalTensor& got) -> const EvalTensor* {
    const auto it = named.find(plan.values[index].name);
    if (it == named.end()) return nullptr;
    if (const plan::TokenCount* tokens = plan.tokens_of(static_cast<int32_t>(index))) {
      packed = at_tokens(*it->second, got, places.at(tokens->name));
      if (packed) return &*packed;
    }
    return it->second;
  };
  const auto compare = [&](size_t step, size_t index, const EvalTensor& got) {
    const EvalTensor* want = of_model(index, got);
    if (!want) return;
    ComparedValue compared{.step = step, .index = index};
    compared.fits = got.shape == want->shape && got.is_float() == want->is_float();
    if (compared.fits) compared.distance = difference(got, *want);
    result.compared.push_back(compared);
  };
  EvalTensor here;
  const auto of_model_here = [&](size_t index, const EvalTensor& got) -> const EvalTensor* {
    const EvalTensor* want = of_model(index, got);
    if (want == nullptr || want->there == nullptr) return want;
    here = on_host(*want);
    return &here;
  };
  auto aliases = named_aliases(plan);
  PlanEvaluator f = f_of(context);
  f.leave_on_device();
  f.run(ordered, [&](size_t step, size_t index, const EvalTensor& got) {
    result.ties +=
        take_ties_of_model(plan, step, context.precision.rewrite_limit, of_model_here, f);
    compare(step, index, got);
    for (const size_t alias : aliases[index]) compare(step, alias, f.value_anywhere(alias));
  });
  const BatchAxes& axes = context.inputs.axes;
  if (!axes.known() || axes.fixed_rows > 1 || !context.inputs.mixed.empty()) return result;
  NamedValues exact;
  if (result.ties == 0) {
    exact = answers_of(context, plan, f);
  } else {  // on F's own decisions
    PlanEvaluator own = f_of(context);
    own.run(ordered);
    exact = answers_of(context, plan, own);
  }
  if (!has_rows(r.outputs, axes, rows.size()) || !has_rows(exact, axes, rows.size())) return result;
  result.reference = by_row(r.outputs, axes, rows.size());
  result.exact = by_row(exact, axes, rows.size());
  return result;
}

std::vector<std::vector<int64_t>> batches_in_fp64(const Context& context, const Group& group) {
  const int64_t most = rows_at_a_time(context, group);
  auto count = static_cast<int64_t>(group.rows.size());
  if (group.far && context.inputs.axes.fixed_rows <= 1) count = std::min(count, kDistinctFarRows);
  std::vector<std::vector<int64_t>> batches;
  for (int64_t first = 0; first < count; first += most) {
    std::vector<int64_t>& rows =
        batches.emplace_back(static_cast<size_t>(std::min(most, count - first)));
    std::iota(rows.begin(), rows.end(), first);
  }
  return batches;
}

NamedValues answers_of(const Context& context, const plan::Plan& plan,
                       const PlanEvaluator& evaluated) {
  const std::vector<std::string>& of_model = context.subject.model.output_names;
  NamedValues answers;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const std::string& name = plan.output_names[i];
    if (std::ranges::find(of_model, name) == of_model.end()) continue;
    answers[name] = evaluated.value(plan.outputs[i]);
  }
  return answers;
}

}  // namespace vernier::verify
