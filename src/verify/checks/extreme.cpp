// Are norms, softmaxes, attentions and poolings right on operands that seeded inputs do not bring
// about? A softmax without its maximum, a variance in one pass and a wrong epsilon are right on
// tame rows.
#include <fmt/format.h>

#include <algorithm>

#include "verify/checks/table.h"
#include "verify/runner.h"
#include "verify/sweep/extreme_operands.h"

namespace vernier::verify::checks {
namespace {

Findings ask_extreme(Context& context, const ExtremeSteps& extreme) {
  Findings findings;
  const plan::Plan& plan = context.subject.plan;
  for (size_t i = 0; i < extreme.steps.size(); ++i) {
    const StepResult& step = extreme.steps[i];
    findings.push_back(step.passed ? Finding{}
                                   : failure(step.non_finite ? Verdict::kOverflow : Verdict::kBug,
                                             fmt::format("{} alone, on {}, is wrong: {}",
                                                         step_text(plan, step.step),
                                                         extreme.operands[i], step.why)));
  }
  if (findings.empty() && !extreme.refused.empty()) {
    const std::string note = "not on extreme operands: " + extreme.refused.front();
    if (std::ranges::find(context.notes, note) == context.notes.end())
      context.notes.push_back(note);
  }
  if (!findings.empty() && !extreme.refused.empty())
    findings.front().note =
        fmt::format("{} cannot run alone: {}", extreme.refused.size() == 1 ? "a step" : "steps",
                    extreme.refused.front());
  return findings;
}

std::string why_not(const Context& context) {
  return std::ranges::any_of(context.subject.plan.steps, &has_extreme_operands)
             ? ""
             : "the engine has no norm, softmax, attention or pooling";
}

}  // namespace

constexpr Check extreme{.ask = &ask_extreme, .why_not = &why_not};

}  // namespace vernier::verify::checks
