// What a step of a run was given and what it made, kept for a judgement after the run.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
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

/// Some rows of a step: of all its outputs and of the inputs `with_rows`, each of which is an array
/// of as many rows of `inner` axes. An input that is absent is no matter.
struct RowsOfStep {
  std::span<const size_t> with_rows;
  int inner = 1;
  std::span<const int64_t> rows;  ///< ascending
};
/// How many rows of `inner` axes an array has; 0: it has fewer axes.
int64_t rows_in(const backend::TensorArg& arg, int inner);
/// The step as if it had these rows alone. Empty: its arrays differ in their number of rows.
std::optional<StepCopy> copy_rows(const plan::Plan& plan, int32_t step,
                                  const backend::LaunchCall& call, const RowsOfStep& part);

/// A dense copy of an argument.
Tensor copy_of(const backend::TensorArg& arg);

}  // namespace vernier::verify
