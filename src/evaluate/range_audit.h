// The range audit of a plan: what would leave the range of its type on seeded inputs (ranges.h).
// Contract: docs/verification_checks.md "Range audit".
#pragma once
#include <cstdint>
#include <vector>

#include "backend/kernel.h"
#include "core/limits.h"
#include "evaluate/domain.h"
#include "evaluate/ranges.h"
#include "plan/plan.h"
#include "vernier/promotion.h"

namespace vernier::evaluate {

/// Does anything of the plan have a type whose range values of f32 can leave?
bool needs_range_audit(const plan::Plan& plan);
/// Operations of one run of the audit (plan_work.h).
double range_audit_work(const plan::Plan& plan);
/// What is held in less than f32, on seeded inputs inside `domains`, which are the model's: two
/// rows at lengths 4 and 48. Masks' constants do not count. `plan` must be of exact constants
/// (PlanOptions::Constants::kExact); `backend` is its device's.
std::vector<RangeRow> audit_ranges(const plan::Plan& plan, const backend::Backend& backend,
                                   const Domains& domains, uint64_t seed, const Watch& watch = {});
/// The promotion that gives this row f32: its result is stored, or its product computed, in it.
Promotion promotion_for(const plan::Plan& plan, const RangeRow& row);

}  // namespace vernier::evaluate
