// What depends on sizes alone: see sized_steps.h.
#include "runtime/sized_steps.h"

#include <algorithm>

namespace vernier::runtime {
namespace {

using plan::PlanValue;

// By value: how many steps write to it, or to a view of it.
std::vector<int32_t> writers_of(const plan::Plan& plan) {
  std::vector<int32_t> writers(plan.values.size(), 0);
  for (const plan::Step& step : plan.steps) {
    for (const int32_t out : step.outputs)
      if (out != plan::kNone) ++writers[plan.base_index(out)];
  }
  return writers;
}

}  // namespace

SizedSteps find_sized_steps(const plan::Plan& plan) {
  SizedSteps found{.is_sized = std::vector<bool>(plan.steps.size(), false),
                   .kept = {},
                   .kept_at = std::vector<int32_t>(plan.values.size(), plan::kNone)};
  if (plan.segments.size() != 1) return found;
  const std::vector<int32_t> writers = writers_of(plan);
  std::vector<bool> is_sized(plan.values.size(), false), is_output(plan.values.size(), false);
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const PlanValue::Kind kind = plan.values[v].kind;
    is_sized[v] = kind == PlanValue::Kind::kConstant || kind == PlanValue::Kind::kShapeValues;
  }
  for (const int32_t out : plan.outputs) is_output[plan.base_index(out)] = true;
  const auto reads_sizes = [&](int32_t in) {
    return in == plan::kNone || is_sized[plan.base_index(in)];
  };
  const auto may_be_kept = [&](int32_t out) {
    return out == plan::kNone || (plan.value(out).kind == PlanValue::Kind::kArena &&
                                  writers[out] == 1 && !is_output[out]);
  };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    found.is_sized[s] = !step.kernel.starts_with("plugin.") &&
                        std::ranges::all_of(step.inputs, reads_sizes) &&
                        std::ranges::all_of(step.outputs, may_be_kept);
    if (found.is_sized[s]) {
      for (const int32_t out : step.outputs)
        if (out != plan::kNone) is_sized[out] = true;
      continue;
    }
    for (const int32_t in : step.inputs) {
      if (in == plan::kNone) continue;
      const int32_t base = plan.base_index(in);
      if (!is_sized[base] || plan.value(base).kind != PlanValue::Kind::kArena ||
          found.kept_at[base] != plan::kNone)
        continue;
      found.kept_at[base] = static_cast<int32_t>(found.kept.size());
      found.kept.push_back(base);
    }
  }
  return found;
}

}  // namespace vernier::runtime
