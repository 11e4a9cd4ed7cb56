// The build's tuning: which of the ways that give the same bits a kernel takes on this device.
#pragma once
#include "plan/plan.h"
#include "vernier/compile.h"

namespace vernier::compiler {

/// Fills Step::tuning from options.tuning_file and, where the device is here, by timing what is not
/// in it; writes the file again if anything was timed. Notes in the plan what could not be timed.
/// Throws Error(kInput) where the file is not a tuning record or is of another machine.
void tune(plan::Plan& plan, const CompileOptions& options);

}  // namespace vernier::compiler
