// Which of an engine's inputs hold values that a step refuses (core/value_rules.h): ids, axes,
// lengths, divisors. They are checked before anything runs, on every device, where the error can
// still name the input.
#pragma once
#include <vector>

#include "core/value_rules.h"
#include "plan/plan.h"

namespace vernier::runtime {

/// Operand `operand` of step `step` is input `input`, or a view of it, and must keep `rule`: for
/// that step itself, or for step `reader` after an integer cast or a selection of its tokens.
struct IdRule {
  size_t step = 0, operand = 0;
  size_t input = 0;             ///< in the order of Plan::inputs
  size_t reader = 0;            ///< the step whose rule it is
  int32_t table = plan::kNone;  ///< value; kNone where the rule has no table
  ValueRule rule = {};          ///< its axis is counted from the front
};

/// The rules of a plan, by step.
std::vector<IdRule> find_id_rules(const plan::Plan& plan);

}  // namespace vernier::runtime
