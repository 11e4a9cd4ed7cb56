// Watched runs: see observed_run.h.
#include "runtime/observed_run.h"

namespace vernier::runtime {
namespace {

// Calls body(bytes) for the workspace and each output of a step, in the arena.
template <class Body>
void each_unwritten(const StepRun& step, std::byte* arena, const Body& body) {
  if (step.shape_state)
    body(std::span(arena + step.workspace_offset, step.shape_state->workspace_bytes));
  for (const backend::TensorArg& out : step.out) {
    if (out.data) body(std::span(out.data, bytes_of(out)));
  }
}

}  // namespace

void ObservedRuns::run(const ShapeEntry& entry, std::span<const Input* const> inputs,
                       std::span<std::byte> arena, RunObserver& observer, const Watch& watch) {
  if (!arguments_.on_host()) return run_mirrored(entry, inputs, arena, observer, watch);
  observer.before_run(arena);
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    each_unwritten(entry.steps[s], arena.data(),
                   [&](std::span<std::byte> bytes) { observer.before_step(bytes); });
    steps_.check_time(watch, entry, s);
    steps_.launch(entry, s, execution_, arena.data());
    observer.after_step(static_cast<int32_t>(s),
                        steps_.call_of(entry, s, execution_, arena.data()));
  }
}

// Arguments as they lie in the mirror; constants as they lie in the engine's file.
std::vector<backend::TensorArg> ObservedRuns::on_mirror(std::vector<backend::TensorArg> args,
                                                        const std::byte* arena) {
  for (backend::TensorArg& arg : args) {
    if (!arg.data) continue;
    const std::byte* constant = arguments_.weights().on_host(arg.data);
    arg.data = constant ? const_cast<std::byte*>(constant) : mirror_.data() + (arg.data - arena);
  }
  return args;
}

// After each launch what the step wrote is copied to the mirror.
void ObservedRuns::run_mirrored(const ShapeEntry& entry, std::span<const Input* const> inputs,
                                std::span<std::byte> arena, RunObserver& observer,
                                const Watch& watch) {
  mirror_.resize(arena.size());
  observer.before_run(mirror_);
  transfer_.synchronise();
  device_.copy_to_device(arena.data(), mirror_.data(), arena.size(), execution_.stream);
  transfer_.stage(entry, inputs, arena.data());
  device_.copy_to_host(mirror_.data() + entry.staged.offset, arena.data() + entry.staged.offset,
                       entry.staged.bytes, execution_.stream);
  transfer_.synchronise();
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    const StepRun& step = entry.steps[s];
    each_unwritten(step, arena.data(), [&](std::span<std::byte> bytes) {
      std::byte* mirrored = mirror_.data() + (bytes.data() - arena.data());
      observer.before_step({mirrored, bytes.size()});
      device_.copy_to_device(bytes.data(), mirrored, bytes.size(), execution_.stream);
    });
    steps_.check_time(watch, entry, s);
    steps_.launch(entry, s, execution_, arena.data());
    for (const backend::TensorArg& out : step.out) {
      if (out.data)
        device_.copy_to_host(mirror_.data() + (out.data - arena.data()), out.data, bytes_of(out),
                             execution_.stream);
    }
    transfer_.synchronise();
    const std::vector<backend::TensorArg> in = on_mirror(step.in, arena.data()),
                                          out = on_mirror(step.out, arena.data());
    observer.after_step(static_cast<int32_t>(s),
                        {engine_.plan.steps[s].attrs, steps_.state(s), step.shape_state.get(), in,
                         out, mirror_.data() + step.workspace_offset, execution_});
  }
}

}  // namespace vernier::runtime
