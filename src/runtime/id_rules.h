// Which of an engine's inputs are ids: operands that index a table. They are checked before
// anything runs, where the error can still name the input.
#pragma once
#include <vector>

#include "backend/kernel.h"
#include "plan/plan.h"

namespace vernier::runtime {

/// Operand `operand` of step `step` is input `input`, or a view of it, and is used as indices: by
/// that step itself, or by step `reader` after an integer cast.
struct IdRule {
  size_t step = 0, operand = 0;
  size_t input = 0;             ///< in the order of Plan::inputs
  size_t reader = 0;            ///< the step that indexes the table
  int32_t table = plan::kNone;  ///< value
  size_t axis = 0;              ///< of the table; of tuples, of their first element
  bool tuples = false;          ///< along the last axis of the operand
};

/// The rules of a plan whose steps run on these kernels, by step.
std::vector<IdRule> find_id_rules(const plan::Plan& plan,
                                  const std::vector<const backend::KernelDef*>& kernels);

}  // namespace vernier::runtime
