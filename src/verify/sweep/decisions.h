// Steps that decide by floats (ArgMax, a comparison, a Cast to integers; is_decision()). Contract:
// docs/verification_checks.md "Decisions".
#pragma once
#include "evaluate/plan_evaluator.h"
#include "plan/plan.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours

/// Does any step of the plan decide?
bool decides(const plan::Plan& plan);
/// What step `step` decided in `leader` becomes what it decided in `follower`: two evaluations of
/// one plan, which both just evaluated it.
void follow_decisions(const plan::Plan& plan, size_t step, const PlanEvaluator& leader,
                      PlanEvaluator& follower);

}  // namespace vernier::verify
