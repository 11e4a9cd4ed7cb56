// One step of a run against its FP64 evaluation on the inputs that it had. Contract and limits:
// docs/verification_checks.md "Replay".
#pragma once
#include "core/constant_cache.h"
#include "plan/plan.h"
#include "verify/step_copy.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// Judges what `copy` holds of a step of `plan`. Several may be judged at the same time.
/// `constants`, where given: those that evaluations share.
StepResult judge_step(const plan::Plan& plan, const backend::Backend& backend, const StepCopy& copy,
                      ConstantCache* constants = nullptr);

}  // namespace vernier::verify
