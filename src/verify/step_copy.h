// What a step of a run was given and what it made, kept for a judgement after the run.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "plan/plan.h"
#include "runtime/session_impl.h"

namespace vernier::verify {

/// Arrays by input and output index; undefined: absent, or packed. Constants are the plan's own.
struct StepCopy {
  int32_t step = -1;
  std::vector<Tensor> in, out;
  size_t bytes = 0;  ///< of what was copied
};
StepCopy copy_step(const plan::Plan& plan, int32_t step, const backend::LaunchCall& call);

/// A dense copy of an argument.
Tensor copy_of(const backend::TensorArg& arg);

}  // namespace vernier::verify
