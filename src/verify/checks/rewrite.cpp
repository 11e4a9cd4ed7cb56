// Is the rewrite right? F against R at every value that still has its name.
#include <fmt/format.h>

#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

bool agrees(const ComparedValue& value, double limit) {
  const Distance& d = value.distance;
  return value.fits && d.different_integers == 0 && d.wrong_non_finite == 0 &&
         d.rms <= limit * d.rms_reference;
}

Finding judge(const Context& context, const ComparedValue& value) {
  const plan::Plan& plan = context.subject.plan;
  const plan::Step& step = plan.steps[value.step];
  ValueResult row;
  row.name = plan.values[value.index].name;
  row.step = static_cast<int32_t>(value.step);
  row.kernel = step.kernel;
  row.step_name = step.name;
  row.distance = value.distance;
  row.passed = agrees(value, context.precision.rewrite_limit);
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
  Findings findings;
  for (const ComparedValue& value : group.compared) findings.push_back(judge(context, value));
  return findings;
}

}  // namespace

constexpr Check rewrite{.ask = &ask_rewrite};

}  // namespace vernier::verify::checks
