// Two steps in one launch: see joined_steps.h.
#include "runtime/joined_steps.h"

#include <algorithm>

#include "runtime/proof.h"

namespace vernier::runtime {
namespace {

bool is_joined_input(const backend::KernelDef& own, size_t i) {
  return i < 32 && (own.joined_inputs >> i & 1U) != 0;
}

// Does one launch do the work of steps s and s + 1? What the second writes must be there already,
// and so must be what it reads besides.
bool joins(const plan::Plan& plan, size_t s, const backend::KernelDef& own,
           const backend::KernelDef& next) {
  if (own.joins == nullptr || !next.may_be_joined) return false;
  const plan::Step &step = plan.steps[s], &behind = plan.steps[s + 1];
  if (!step.has_output(0) || !plan.reads_result(behind.inputs, own.joined_inputs, step.outputs[0]))
    return false;
  for (size_t i = 0; i < behind.inputs.size(); ++i) {
    if (!behind.has_input(i) || is_joined_input(own, i)) continue;
    if (std::ranges::find(step.outputs, plan.base_index(behind.inputs[i])) != step.outputs.end())
      return false;
  }
  for (const int32_t out : behind.outputs) {
    if (out == plan::kNone) continue;
    const plan::PlanValue& value = plan.value(out);
    if (value.kind != plan::PlanValue::Kind::kArena || value.first_step > static_cast<int32_t>(s))
      return false;
  }
  return own.joins(problem_of(plan, step), problem_of(plan, behind));
}

}  // namespace

Joins joins_next(const plan::Plan& plan, size_t s,
                 std::span<const backend::KernelDef* const> kernels) {
  if (s + 1 == plan.steps.size() || kernels[s] == nullptr || kernels[s + 1] == nullptr ||
      !joins(plan, s, *kernels[s], *kernels[s + 1]))
    return Joins::kNo;
  // A value lives to its last reader, an output of the engine to the end.
  const plan::PlanValue& result = plan.value(plan.steps[s].outputs[0]);
  const std::vector<int32_t>& read = plan.steps[s + 1].inputs;
  bool alone = result.last_step == static_cast<int32_t>(s + 1);
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i] != plan::kNone && plan.base_index(read[i]) == plan.steps[s].outputs[0])
      alone = alone && is_joined_input(*kernels[s], i);
  }
  alone = alone && std::ranges::none_of(plan.outputs, [&](int32_t out) {
            return plan.base_index(out) == plan.steps[s].outputs[0];
          });
  return alone ? Joins::kAlone : Joins::kYes;
}

}  // namespace vernier::runtime
