// Is a decoded plan one that a session can run? Contract: plan/plan.h, docs/engine_format.md.
#pragma once
#include "plan/plan.h"

namespace vernier::engine {

/// Throws Error(kInput) naming the value, step, blob or row that breaks the rules of plan.h:
/// indices in range, aliases of non-aliases, ranks <= 8, attributes that decode, lifetimes that
/// cover every use, steps that read what was written and write only arena memory, segments that
/// cover the steps, size symbols that are known, blobs of the right size, unique input and output
/// names. Whether the kernels exist is for the runtime to say.
void check_plan(const plan::Plan& plan);

}  // namespace vernier::engine
