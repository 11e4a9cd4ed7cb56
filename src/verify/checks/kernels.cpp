// Is every kernel right? Each step judged on the inputs that it had (replay.h). Where NaN or
// infinity stands in the answers, the step that is to blame (non_finite.h) comes first.
#include <fmt/format.h>

#include <algorithm>

#include "verify/build_options.h"
#include "verify/checks/table.h"
#include "verify/checks/wrong_step.h"
#include "verify/non_finite.h"
#include "verify/replay.h"

namespace vernier::verify::checks {
namespace {

// The steps that make what a step reads, and the step itself.
std::vector<int32_t> makers_of(const plan::Plan& plan, int32_t step) {
  std::vector<int32_t> steps;
  for (int32_t in : plan.step(step).inputs) {
    if (in == plan::kNone) continue;
    const int32_t base = plan.value(in).alias_of;
    const int32_t maker = plan.value(base == plan::kNone ? in : base).first_step;
    if (maker != plan::kNone && maker < step) steps.push_back(maker);
  }
  steps.push_back(step);
  return steps;
}

// What raises what these steps have in less than f32.
std::vector<std::string> rules_for(const plan::Plan& plan, const std::vector<int32_t>& steps) {
  std::vector<std::string> rules;
  for (const plan::LedgerRow& row : plan.ledger) {
    if (row.step == plan::kNone || std::ranges::find(steps, row.step) == steps.end()) continue;
    for (std::string& rule : raising_rules(row)) rules.push_back(std::move(rule));
  }
  return rules;
}

// "--rule 'name:/a/Where store=f32' …"
std::string options_text(const std::vector<std::string>& rules) {
  constexpr size_t kMostRules = 8;
  if (rules.empty()) return "no rule can, for nothing there is asked for less than f32";
  std::string text;
  for (size_t i = 0; i < std::min(rules.size(), kMostRules); ++i)
    text += (i > 0 ? " --rule " : "--rule ") + shell_word(rules[i]);
  return text + (rules.size() > kMostRules ? " …, as bisect finds them" : "");
}

Finding wrong(const plan::Plan& plan, const StepResult& step) {
  Finding finding = wrong_step(plan, step.step, step.why);
  if (step.non_finite) finding.verdict = Verdict::kOverflow;
  return finding;
}

// Where E has NaN or infinity and F has not, or the reverse, in one more run. F says which values
// should be finite; the replay which steps make NaN or infinity of what they are given.
std::optional<NonFiniteTrace::Found> origin_of(Context& context, const ReplayedSteps& replayed) {
  const plan::Plan& plan = context.subject.plan;
  Recorder run;
  context.runs.several.run(replayed.run.inputs, run);
  NonFiniteTrace trace(plan);
  PlanEvaluator f = f_of(context);
  f.begin(in_plan_order(context, replayed.run.inputs));
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    f.evaluate_step(s);
    const std::vector<Tensor>& made = run.steps().at(static_cast<int32_t>(s));
    for (size_t o = 0; o < made.size(); ++o) {
      const int32_t out = plan.steps[s].outputs[o];
      if (!made[o].defined() || out == plan::kNone) continue;
      trace.note(out, unlike(EvalTensor::from(made[o]), f.value(static_cast<size_t>(out))));
    }
    const StepResult& step = replayed.steps[s];
    if (step.overflowed || step.non_finite) trace.note_own(static_cast<int32_t>(s));
    f.release_after(s);
  }
  return trace.find();
}

// Infinities are a finding where they reach the answers. Empty if no step is to blame.
std::optional<Finding> blame(Context& context, const ReplayedSteps& replayed) {
  const plan::Plan& plan = context.subject.plan;
  const auto found = origin_of(context, replayed);
  if (!found) return std::nullopt;
  const StepResult& step = replayed.steps[found->step];
  if (step.non_finite) return wrong(plan, step);
  if (step.overflowed) {
    // Fixed here, the same may begin in the next layer: every step that overflows is raised.
    std::vector<int32_t> overflowing = found->own_steps;
    for (const StepResult& one : replayed.steps) {
      if (one.overflowed && one.step > found->step) overflowing.push_back(one.step);
    }
    Cause cause = cause_at(plan, step.step);
    cause.value =
        fmt::format("{:.6g}, and {} holds at most {:.6g}", step.overflow_value,
                    vernier::name(step.overflow_type), largest_finite(step.overflow_type));
    cause.reason = fmt::format(
        "{} makes {:.6g}, but {} holds at most {:.6g}: the first value on the way to the outputs "
        "that does not fit.",
        step_text(plan, step.step), step.overflow_value, vernier::name(step.overflow_type),
        largest_finite(step.overflow_type));
    cause.rules = rules_for(plan, overflowing);
    Finding finding = failure(Verdict::kOverflow,
                              cause.reason + " Store it in f32: " + options_text(cause.rules));
    finding.cause = std::move(cause);
    return finding;
  }
  // The verdict is that of the answers already; now it names the step.
  Cause cause = cause_at(plan, step.step);
  cause.value = "NaN or infinity, where FP64 has none, or the reverse";
  cause.reason = fmt::format(
      "{} is the first on the way to the outputs that has NaN or infinity where FP64 has none, or "
      "the reverse; it is right on its own inputs, which differ from FP64's by rounding.",
      step_text(plan, step.step));
  cause.rules = rules_for(plan, makers_of(plan, step.step));
  Finding finding =
      failure(Verdict::kNan, cause.reason + " Raise what makes them: " + options_text(cause.rules));
  finding.cause = std::move(cause);
  finding.explains = true;
  return finding;
}

Findings ask_kernels(Context& context, const ReplayedSteps& replayed) {
  Findings findings;
  if (replayed.so_far == Verdict::kNan) {
    if (auto found = blame(context, replayed)) findings.push_back(std::move(*found));
  }
  bool blamed = !findings.empty();
  for (const StepResult& step : replayed.steps) {
    if (step.passed) {
      if (step.elems > 0) findings.emplace_back();  // else it has nothing to judge, or not here
      continue;
    }
    // Later steps are judged on their own inputs; the first wrong one is the culprit.
    if (blamed) continue;
    blamed = true;
    findings.push_back(wrong(context.subject.plan, step));
  }
  return findings;
}

}  // namespace

constexpr Check kernels{.ask = &ask_kernels};

}  // namespace vernier::verify::checks
