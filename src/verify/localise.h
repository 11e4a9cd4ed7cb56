// One run of an engine, step by step beside F, the FP64 evaluation of its plan. Contract:
// docs/diagnosis.md "Localise"; what it finds: vernier/localise.h.
#pragma once
#include "evaluate/plan_evaluator.h"
#include "evaluate/rows.h"
#include "verify/runner.h"
#include "vernier/localise.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours

/// Follows one run of `runner`'s engine beside `f`, which evaluates its plan without rounding.
/// Memory: the engine's own, F's live values, and one step's arrays in FP64.
Localisation follow(const Engine& engine, PlanEvaluator& f, Runner& runner,
                    const NamedTensors& inputs);

}  // namespace vernier::verify
