// Watched runs: see observed_run.h.
#include "runtime/observed_run.h"

namespace vernier::runtime {
namespace {

// Calls body(bytes) for the workspace and each output of a step that is launched.
template <class Body>
void each_unwritten(const StepRun& step, std::byte* arena, const Body& body) {
  if (step.found) return;
  if (step.shape_state)
    body(std::span(arena + step.workspace_offset, step.shape_state->workspace_bytes));
  for (const backend::TensorArg& out : step.out) {
    if (out.data) body(std::span(out.data, bytes_of(out)));
  }
}

}  // namespace

void ObservedRuns::run(const ShapeEntry& entry, std::span<const Input* const> inputs,
                       const GrowingMemory& arena, Carried carried, RunObserver& observer,
                       const Watch& watch) {
  if (!arguments_.on_host()) {
    mirrors_.resize(2 + carried.size());
    mirror(0, arena);
    mirrors_[1] = {};
    if (entry.kept.memory) mirror(1, *entry.kept.memory);
    for (size_t c = 0; c < carried.size(); ++c) mirror(2 + c, *carried[c]);
    return run_mirrored(entry, inputs, arena.data(), observer, watch);
  }
  if (entry.segment == 0) observer.before_run({arena.data(), arena.capacity()});
  const plan::Segment& segment = engine_.plan.segments[entry.segment];
  for (auto s = static_cast<size_t>(segment.first_step); segment.holds(s); ++s) {
    each_unwritten(entry.steps[s], arena.data(),
                   [&](std::span<std::byte> bytes) { observer.before_step(bytes); });
    steps_.check_time(watch, entry, s);
    steps_.launch(entry, s, execution_, arena.data());
    observer.after_step(static_cast<int32_t>(s),
                        steps_.call_of(entry, s, execution_, arena.data()));
  }
}

// The copy keeps what it has while the block stays where it is.
void ObservedRuns::mirror(size_t block, const GrowingMemory& memory) {
  Mirror& copy = mirrors_[block];
  copy.device = memory.data();
  copy.bytes.resize(memory.capacity());
}

// Where a byte of the device's memory lies in host memory: of a mirror, or of a constant.
std::byte* ObservedRuns::on_mirror(const std::byte* data) {
  for (Mirror& copy : mirrors_) {
    if (copy.device != nullptr && data >= copy.device && data < copy.device + copy.bytes.size())
      return copy.bytes.data() + (data - copy.device);
  }
  return const_cast<std::byte*>(arguments_.weights().on_host(data));
}

std::vector<backend::TensorArg> ObservedRuns::on_mirror(std::vector<backend::TensorArg> args) {
  for (backend::TensorArg& arg : args)
    if (arg.data) arg.data = on_mirror(arg.data);
  return args;
}

// After each launch what the step wrote is copied to the mirror.
void ObservedRuns::run_mirrored(const ShapeEntry& entry, std::span<const Input* const> inputs,
                                std::byte* arena, RunObserver& observer, const Watch& watch) {
  std::vector<std::byte>& mirrored_arena = mirrors_[0].bytes;
  transfer_.synchronise();
  if (entry.segment == 0) {
    observer.before_run(mirrored_arena);
    device_.copy_to_device(arena, mirrored_arena.data(), mirrored_arena.size(), execution_.stream);
  }
  transfer_.stage(entry, inputs, arena);
  device_.copy_to_host(mirrored_arena.data() + entry.staged.offset, arena + entry.staged.offset,
                       entry.staged.bytes, execution_.stream);
  transfer_.synchronise();
  const plan::Segment& segment = engine_.plan.segments[entry.segment];
  for (auto s = static_cast<size_t>(segment.first_step); segment.holds(s); ++s) {
    const StepRun& step = entry.steps[s];
    each_unwritten(step, arena, [&](std::span<std::byte> bytes) {
      std::byte* mirrored = on_mirror(bytes.data());
      observer.before_step({mirrored, bytes.size()});
      device_.copy_to_device(bytes.data(), mirrored, bytes.size(), execution_.stream);
    });
    steps_.check_time(watch, entry, s);
    steps_.launch(entry, s, execution_, arena);
    for (const backend::TensorArg& out : step.out) {
      if (out.data && bytes_of(out) > 0)
        device_.copy_to_host(on_mirror(out.data), out.data, bytes_of(out), execution_.stream);
    }
    transfer_.synchronise();
    const std::vector<backend::TensorArg> in = on_mirror(step.in), out = on_mirror(step.out);
    observer.after_step(static_cast<int32_t>(s),
                        {engine_.plan.steps[s].attrs, steps_.state(s), step.shape_state.get(), in,
                         out, mirrored_arena.data() + step.workspace_offset, execution_});
  }
}

}  // namespace vernier::runtime
