// Kernels' states and launches: see step_launcher.h.
#include "runtime/step_launcher.h"

namespace vernier::runtime {

void StepLauncher::create(const Arguments& arguments) {
  const plan::Plan& plan = engine_.plan;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    states_.emplace_back();
    if (!engine_.kernels[s]->create) continue;
    std::vector<backend::ConstantArg> constants;
    const auto again = engine_.repacked.find(static_cast<int32_t>(s));
    if (again != engine_.repacked.end()) {
      for (const backend::PackedConstant& packed : again->second.packed)
        constants.push_back({packed.input, packed.layout, packed.bytes});
    } else {
      for (const plan::PackedInput& packed : step.packed) {
        const plan::Blob& blob = plan.blob(packed.blob);
        constants.push_back({packed.input,
                             blob.layout,
                             {arguments.constant_data(packed.blob), blob.bytes.bytes()}});
      }
    }
    std::vector<backend::TensorArg> constant_inputs(step.inputs.size());
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!step.has_input(i)) continue;
      const plan::PlanValue& value = plan.value(step.inputs[i]);
      if (value.kind == plan::PlanValue::Kind::kConstant)
        constant_inputs[i] = arguments.constant(value);
    }
    for (const plan::PackedInput& packed : step.packed)
      constant_inputs[packed.at()] = arguments.packed(s, packed);
    at_step(s, [&] {
      states_.back() =
          engine_.kernels[s]->create({step.attrs, &step.numerics, constants, constant_inputs,
                                      execution_, engine_.tuning_of(step)});
    });
  }
}

void StepLauncher::abandon() {
  for (auto& state : states_) static_cast<void>(state.release());
}

void StepLauncher::prepare(size_t s, StepRun& run) const {
  const backend::KernelDef& kernel = *engine_.kernels[s];
  if (!kernel.prepare) return;
  at_step(s, [&] {
    run.shape_state =
        kernel.prepare({engine_.plan.steps[s].attrs, state(s), run.in, run.out, execution_});
  });
}

backend::LaunchCall StepLauncher::call_of(const ShapeEntry& entry, size_t s,
                                          const backend::Execution& on, std::byte* arena) const {
  const StepRun& step = entry.steps[s];
  return {engine_.plan.steps[s].attrs,
          state(s),
          step.shape_state.get(),
          step.in,
          step.out,
          arena + step.workspace_offset,
          on,
          s % 2 == 1};
}

void StepLauncher::launch(const ShapeEntry& entry, size_t s, const backend::Execution& on,
                          std::byte* arena) const {
  if (entry.steps[s].empty || entry.steps[s].found) return;
  at_step(s, [&] { engine_.kernels[s]->launch(call_of(entry, s, on, arena)); });
}

void StepLauncher::launch_both(const ShapeEntry& entry, size_t s, const backend::Execution& on,
                               std::byte* arena) const {
  const backend::LaunchCall next = call_of(entry, s + 1, on, arena);
  backend::LaunchCall call = call_of(entry, s, on, arena);
  call.next = &next;
  call.result_unused = engine_.joins[s] == Joins::kAlone;
  at_step(s, [&] { engine_.kernels[s]->launch(call); });
}

void StepLauncher::launch_once(const ShapeEntry& entry, const backend::Execution& on,
                               std::byte* arena, const Watch& watch) const {
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    if (!entry.steps[s].once) continue;
    check_time(watch, entry, s);
    launch(entry, s, on, arena);
  }
}

void StepLauncher::launch_all(const ShapeEntry& entry, const backend::Execution& on,
                              std::byte* arena, const Watch& watch) const {
  const auto is_launched = [&](size_t s) { return !entry.steps[s].empty && !entry.steps[s].once; };
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    if (entry.steps[s].once) continue;
    check_time(watch, entry, s);
    if (engine_.joins[s] != Joins::kNo && is_launched(s) && is_launched(s + 1)) {
      launch_both(entry, s, on, arena);
      ++s;
    } else {
      launch(entry, s, on, arena);
    }
  }
}

void StepLauncher::check_time(const Watch& watch, const ShapeEntry& entry, size_t s) const {
  watch.check_time([&] {
    const plan::Plan& plan = engine_.plan;
    const plan::Step& step = plan.steps[s];
    return "running step " + std::to_string(s) + " of " + std::to_string(plan.steps.size()) + " (" +
           step.kernel + ", '" + step.name + "') with " + sizes_text(plan, entry.symbols);
  });
}

}  // namespace vernier::runtime
