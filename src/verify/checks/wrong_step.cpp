// See wrong_step.h.
#include "verify/checks/wrong_step.h"

#include <fmt/format.h>

#include "core/numerics.h"
#include "verify/build_options.h"
#include "verify/runner.h"

namespace vernier::verify::checks {
namespace {

// That raise the sums of a step to f32.
std::vector<std::string> rules_for_sums(const plan::Plan& plan, int32_t step) {
  std::vector<std::string> rules;
  for (plan::LedgerRow row : plan.ledger) {
    if (row.step != step) continue;
    const TypeRequest sums = row.asked.accumulate;
    row.asked = {.compute = {}, .accumulate = sums, .store = {}, .by = {}, .inner = {}};
    for (std::string& rule : raising_rules(row)) rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

Finding wrong_step(const plan::Plan& plan, int32_t step, const std::string& why) {
  const Numerics& numerics = plan.step(step).numerics;
  const bool fast_sums = numerics.sum_error > 0 && below_f32(numerics.accumulate);
  Finding finding = failure(
      fast_sums ? Verdict::kPrecision : Verdict::kBug,
      fmt::format("{} is wrong on its own inputs: {}{}", step_text(plan, step), why,
                  fast_sums ? fmt::format("; its sums are in {}, as a rule allows, and may have "
                                          "terms of one sign, which lose more than it declares; "
                                          "ask for accumulate=f32 there",
                                          name(numerics.accumulate))
                            : ""));
  finding.cause = cause_at(plan, step);
  finding.cause.value = why;
  if (fast_sums) finding.cause.rules = rules_for_sums(plan, step);
  return finding;
}

}  // namespace vernier::verify::checks
