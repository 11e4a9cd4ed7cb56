// A step of a plan as a plan of its own: what other steps make becomes an input. For checks that
// choose what a kernel is given (sweep/extreme_operands.h).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace vernier::verify {

struct LoneStep {
  plan::Plan plan;  ///< one step, no sizes that are not numbers
  /// Names of what the step is given: inputs of the plan, in order.
  std::vector<std::string> inputs;
};

/// Step `index` of `plan` at these sizes, with its kernel, attributes, constants and the layouts of
/// its operands. An attention of sequences is one of a single sequence. Empty where a size depends
/// on data, an operand has no elements, or the attributes name a size.
std::optional<LoneStep> lone_step(const plan::Plan& plan, size_t index,
                                  const std::map<std::string, int64_t>& sizes);

}  // namespace vernier::verify
