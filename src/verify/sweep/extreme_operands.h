// Steps on operands that no seeded input brings about: rows of mean 1000, of tiny variance, logits
// of ±200. Norms, softmaxes, attentions and poolings run alone on them, and are judged by the
// replay's limits. Contract: docs/verification_checks.md "Extreme operands".
#pragma once
#include <set>
#include <string>
#include <vector>

#include "verify/evidence.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

/// Is this a step that runs alone on extreme operands?
bool has_extreme_operands(const plan::Step& step);

/// Runs each such step of the plan at these sizes, but not those that differ from one in `seen`
/// only by their constants; adds them to it. Those that cannot run alone are counted.
ExtremeSteps run_on_extreme_operands(const Context& context,
                                     const std::map<std::string, int64_t>& sizes,
                                     std::set<std::string>& seen);

}  // namespace vernier::verify
