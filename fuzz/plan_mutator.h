// Changes to a decoded plan: any field of what an engine file holds (engine/fields.h), or several
// together so that the plan often still makes sense, which gets behind the checks of opening.
#pragma once
#include "choices.h"
#include "plan/plan.h"

namespace vernier::fuzz {

/// Bytes of a record that says one change.
inline constexpr size_t kChangeBytes = 16;

/// One change. The plan may be none that opens afterwards.
void change_plan(plan::Plan& plan, Choices choices);
/// One change of those that mean to keep the plan valid.
void change_plan_gently(plan::Plan& plan, Choices choices);

/// The file of a plan, with right checksums, whatever the plan says.
Bytes engine_file(const plan::Plan& plan);

}  // namespace vernier::fuzz
