// Timing the variants that kernels have for the steps of a plan on the device. Speed only: all of
// them give the same bits (KernelBody::tune).
#pragma once
#include <functional>
#include <map>
#include <string>

#include "backend/kernel.h"
#include "plan/plan.h"

namespace vernier::runtime {

/// What was found fastest, by problem_key(). The same record gives the same plan.
using TuningRecord = std::map<std::string, std::string>;

/// "cuda.linear.cublaslt f16[1024, 4096] f16 → f16 {…}": all that a step's speed depends on, except
/// its rows. Steps with one key are tuned once.
std::string problem_key(const plan::Plan& plan, const plan::Step& step);

/// Fills Step::tuning of every step whose kernel tunes, from `record` where it has the step's key;
/// else, where the backend's device is here, by timing, and adds that to `record`. Returns how many
/// keys were timed. `progress`: called with each key timed.
int tune_plan(plan::Plan& plan, const backend::Backend& backend, TuningRecord& record,
              const std::function<void(const std::string&)>& progress);

}  // namespace vernier::runtime
