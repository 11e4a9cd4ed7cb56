// Who is to blame for NaN or infinity in the answers of a cell: see sweep.h and non_finite.h.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine_impl.h"
#include "verify/build_options.h"
#include "verify/non_finite.h"
#include "verify/sweep.h"

namespace vernier::verify {
namespace {

using namespace check_names;

// The steps that make what a step reads, and the step itself.
std::vector<int32_t> makers_of(const plan::Plan& plan, int32_t step) {
  std::vector<int32_t> steps;
  for (int32_t in : plan.steps[static_cast<size_t>(step)].inputs) {
    if (in == plan::kNone) continue;
    const int32_t base = plan.values[static_cast<size_t>(in)].alias_of;
    const int32_t maker =
        plan.values[static_cast<size_t>(base == plan::kNone ? in : base)].first_step;
    if (maker != plan::kNone && maker < step) steps.push_back(maker);
  }
  steps.push_back(step);
  return steps;
}

// "--rule 'name:/a/Where store=f32' …" for what these steps have in less than f32.
std::string rules_for(const plan::Plan& plan, const std::vector<int32_t>& steps) {
  constexpr size_t kMostRules = 8;
  std::vector<std::string> rules;
  for (const plan::LedgerRow& row : plan.ledger) {
    if (row.step == plan::kNone || std::ranges::find(steps, row.step) == steps.end()) continue;
    for (const std::string& rule : raising_rules(row))
      rules.push_back("--rule " + shell_word(rule));
  }
  if (rules.empty()) return "no rule can, for nothing there is asked for less than f32";
  std::string text;
  for (size_t i = 0; i < std::min(rules.size(), kMostRules); ++i)
    text += (i > 0 ? " " : "") + rules[i];
  return text + (rules.size() > kMostRules ? " …, as bisect finds them" : "");
}

}  // namespace

// Infinities are a finding where they reach the answers. F says which values should be finite; the
// replay which steps make NaN or infinity of what they are given.
bool Sweep::blame_for_non_finite(const NamedTensors& inputs, const std::vector<StepResult>& steps,
                                 CellResult& cell) {
  Recorder run;
  runner_.run(inputs, run);
  std::vector<Tensor> ordered;
  for (const std::string& name : plan_.input_names) ordered.push_back(*find(inputs, name));
  NonFiniteTrace trace(plan_);
  PlanEvaluator f(plan_, *engine_->impl().backend);
  set_exact_constants(f);
  f.begin(ordered);
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    f.evaluate_step(s);
    const std::vector<Tensor>& made = run.steps().at(static_cast<int32_t>(s));
    for (size_t o = 0; o < made.size(); ++o) {
      const int32_t out = plan_.steps[s].outputs[o];
      if (!made[o].defined() || out == plan::kNone) continue;
      trace.note(out, unlike(EvalTensor::from(made[o]), f.value(static_cast<size_t>(out))));
    }
    if (steps[s].overflowed || steps[s].non_finite) trace.note_own(static_cast<int32_t>(s));
    f.release_after(s);
  }
  const auto found = trace.find();
  if (!found) return false;
  const StepResult& step = steps[static_cast<size_t>(found->step)];
  if (step.non_finite) {
    failed(kKernels, Verdict::kOverflow,
           step_text(plan_, step.step) + " is wrong on its own inputs: " + step.why, &cell);
  } else if (step.overflowed) {
    // Fixed here, the same may begin in the next layer: every step that overflows is raised.
    std::vector<int32_t> overflowing = found->own_steps;
    for (const StepResult& one : steps) {
      if (one.overflowed && one.step > found->step) overflowing.push_back(one.step);
    }
    failed(kKernels, Verdict::kOverflow,
           fmt::format("{} makes {:.6g}, but {} holds at most {:.6g}: the first value on the way "
                       "to the outputs that does not fit. Store it in f32: {}",
                       step_text(plan_, step.step), step.overflow_value,
                       vernier::name(step.overflow_type), largest_finite(step.overflow_type),
                       rules_for(plan_, overflowing)),
           &cell);
  } else {
    const std::string why = fmt::format(
        "{} is the first on the way to the outputs that has NaN or infinity where "
        "FP64 has none, or the reverse; it is right on its own inputs, which differ "
        "from FP64's by rounding. Raise what makes them: {}",
        step_text(plan_, step.step), rules_for(plan_, makers_of(plan_, step.step)));
    // The verdict is that of the answers already; now it names the step.
    if (report_.verdict == Verdict::kNan && report_.explanation.starts_with(cell.label + ": "))
      report_.explanation = cell.label + ": " + why;
    cell.why = why;
    failed(kKernels, Verdict::kNan, why, &cell);
  }
  return true;
}

}  // namespace vernier::verify
