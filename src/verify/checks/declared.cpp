// Is what kernels declare of their own error small enough to be taken on their word? The replay
// allows a step what its kernel declares; above the cap that is no proof any more.
#include <fmt/format.h>

#include <algorithm>

#include "verify/checks/table.h"
#include "verify/runner.h"

namespace vernier::verify::checks {
namespace {

bool declares(const plan::Step& step) {
  const Numerics& numerics = step.numerics;
  return numerics.approximation_abs > 0 || numerics.approximation_rel > 0 || numerics.sum_error > 0;
}

std::string too_much(const plan::Plan& plan, const StepResult& step) {
  const Numerics& numerics = plan.step(step.step).numerics;
  return fmt::format(
      "{} declares an error of {:.3g} + {:.3g}·|result|{}: {:.3g} at the rms of its output, where "
      "at "
      "most {:.3g} is taken on a kernel's word",
      step_text(plan, step.step), numerics.approximation_abs, numerics.approximation_rel,
      numerics.sum_error > 0
          ? fmt::format(" + {:.3g} of the root of its sums' squares", numerics.sum_error)
          : "",
      step.declared, step.declared_limit);
}

Findings ask_declared(Context& context, const ReplayedSteps& replayed) {
  const plan::Plan& plan = context.subject.plan;
  const bool accepted = context.subject.request.accept_declared;
  Findings findings;
  for (const StepResult& step : replayed.steps) {
    if (!declares(plan.step(step.step))) continue;
    Finding finding;
    if (step.declares_too_much() && accepted) {
      finding.note = "accepted: " + too_much(plan, step);
    } else if (step.declares_too_much()) {
      finding = failure(Verdict::kDeclared, too_much(plan, step));
      finding.cause = cause_at(plan, step.step);
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::string nothing_declared(const Context& context) {
  return std::ranges::any_of(context.subject.plan.steps, declares) ? ""
                                                                   : "no kernel declares an error";
}

}  // namespace

constexpr Check declared{.ask = &ask_declared, .why_not = &nothing_declared};

}  // namespace vernier::verify::checks
