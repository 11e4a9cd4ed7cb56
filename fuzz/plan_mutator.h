// Changes to a decoded plan: any field of an engine file (engine/fields.h), or several together so
// that the plan often stays consistent and passes the checks of opening.
#pragma once
#include "choices.h"
#include "plan/plan.h"

namespace vernier::fuzz {

/// Bytes of the record of one change.
inline constexpr size_t kChangeBytes = 16;

/// One change. The plan may not open afterward.
void change_plan(plan::Plan& plan, Choices choices);
/// One change that tries to keep the plan valid.
void change_plan_gently(plan::Plan& plan, Choices choices);

/// The file of a plan, valid or not, with correct checksums.
Bytes engine_file(const plan::Plan& plan);

}  // namespace vernier::fuzz
