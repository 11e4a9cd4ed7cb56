// Steps that decide by floats (ArgMax, a comparison, a Cast to integers; is_decision()). Contract:
// docs/verification_checks.md "Decisions".
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "evaluate/plan_evaluator.h"
#include "plan/plan.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours

/// Does any step of the plan decide?
bool decides(const plan::Plan& plan);
/// R's value of the same name as a value of the plan, of which F has `f`; null: R has none. Valid
/// until the next call.
using ModelValue = std::function<const EvalTensor*(size_t index, const EvalTensor& f)>;
/// Step `step` of F, just evaluated, takes the decisions of R that are ties: R's value of an
/// output differs, and so does F's where its float operands move by up to six
/// times `limit` of their rms, which is what rewrites are granted. Returns how many it took.
int64_t take_ties_of_model(const plan::Plan& plan, size_t step, double limit,
                           const ModelValue& wanted, PlanEvaluator& f);
/// What step `step` decided in `leader` becomes what it decided in `follower`: two evaluations of
/// one plan, which both just evaluated it.
void follow_decisions(const plan::Plan& plan, size_t step, const PlanEvaluator& leader,
                      PlanEvaluator& follower);

}  // namespace vernier::verify
