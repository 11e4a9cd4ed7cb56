// Evaluation of an operator on the device in use, or on this CPU.
#pragma once
#include "core/evaluator.h"

namespace vernier::reference {

/// One evaluation of `op`: on the device in use where that takes it, else on this CPU, with copies
/// of what lies on the device. `call.out` has types and shapes, but no memory. Large results may
/// stay on the device, those of up to 1024 elements never.
void evaluate_anywhere(OpKind op, const EvalCall& call);

}  // namespace vernier::reference
