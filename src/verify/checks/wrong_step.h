// What the checks say of a step whose results are not those of its own inputs.
#pragma once
#include <string>

#include "plan/plan.h"
#include "verify/check.h"

namespace vernier::verify::checks {

/// A bug. Where a rule lets the step add up in less than f32, as FP8's fast sums do, sums of terms
/// of one sign lose more than kernels declare (docs/decisions/0023-fp8-sums.md): then it is the
/// precision that was asked for, and the cause has the rules that raise it.
Finding wrong_step(const plan::Plan& plan, int32_t step, const std::string& why);

}  // namespace vernier::verify::checks
