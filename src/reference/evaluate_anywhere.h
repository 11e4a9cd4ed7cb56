// Evaluation of an operator on the device in use, or on this CPU.
#pragma once
#include "core/fp64_device.h"

namespace vernier::reference {

/// The device in use, if it takes this call; null: this CPU evaluates it. `call.out` needs no
/// memory.
Fp64Device* device_for(OpKind op, const EvalCall& call);

/// One evaluation of `op` where device_for() says; on the CPU, with copies of what lies on the
/// device. `call.out` has types and shapes, but no memory. Large results may stay on the device,
/// those of up to 1024 elements never.
void evaluate_on(Fp64Device* device, OpKind op, const EvalCall& call);
inline void evaluate_anywhere(OpKind op, const EvalCall& call) {
  evaluate_on(device_for(op, call), op, call);
}

}  // namespace vernier::reference
