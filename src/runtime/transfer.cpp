// What goes between the caller's memory and the device's, and runs that are watched. Part of
// Session::Impl.
#include <algorithm>
#include <cstring>

#include "runtime/session_impl.h"

namespace vernier {
namespace {

size_t bytes_of(const backend::TensorArg& arg) {
  return static_cast<size_t>(arg.elems()) * size_bytes(arg.dtype);
}

}  // namespace

// Host arrays go through the staging memory, in one copy where all are in host memory; arrays on
// the device each by itself. Without anything of the host's nothing is waited for.
void Session::Impl::stage_inputs(const ShapeEntry& entry) {
  if (on_host()) return;
  std::byte* region = arena + entry.staged_offset;
  const auto on_device = [](const Input* input) { return input->memory == Memory::kDevice; };
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (on_device(bound_[i]))
      device->copy_on_device(region + entry.input_offsets[i],
                             static_cast<const std::byte*>(bound_[i]->data),
                             bytes_of(argument(entry, parts.plan.inputs[i])), execution.stream);
  }
  const bool none_on_host = std::ranges::all_of(bound_, on_device) && entry.shape_values.empty();
  if (none_on_host) return;
  if (staging_in_use_) synchronise();
  grow_staging(entry.staged_bytes);
  for (size_t i = 0; i < bound_.size(); ++i) {
    const size_t bytes = bytes_of(argument(entry, parts.plan.inputs[i]));
    if (bound_[i]->memory == Memory::kHost && bytes > 0)
      std::memcpy(staging + entry.input_offsets[i], bound_[i]->data, bytes);
  }
  if (!entry.shape_values.empty()) {
    std::memcpy(staging + entry.shape_values_offset, entry.shape_values.data(),
                entry.shape_values.size());
  }
  staging_in_use_ = true;
  const auto upload = [&](size_t offset, size_t bytes) {
    if (bytes > 0)
      device->copy_to_device(region + offset, staging + offset, bytes, execution.stream);
  };
  if (std::ranges::none_of(bound_, on_device)) {
    upload(0, entry.staged_bytes);
    return;
  }
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (!on_device(bound_[i]))
      upload(entry.input_offsets[i], bytes_of(argument(entry, parts.plan.inputs[i])));
  }
  upload(entry.shape_values_offset, entry.shape_values.size());
}

// Leaves the outputs in the session's host memory, complete.
void Session::Impl::fetch_outputs(const ShapeEntry& entry) {
  if (!on_host()) {
    size_t bytes = 0;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      output_offsets_[i] = bytes;
      const size_t alignment = device->alignment();
      bytes += (bytes_of(entry.outputs[i]) + alignment - 1) / alignment * alignment;
    }
    if (bytes > fetched_capacity_) {
      if (fetched_) device->free_staging(std::exchange(fetched_, nullptr));
      fetched_capacity_ = 0;
      fetched_ = device->allocate_staging(bytes);
      fetched_capacity_ = bytes;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      device->copy_to_host(fetched_ + output_offsets_[i], entry.outputs[i].data,
                           bytes_of(entry.outputs[i]), execution.stream);
    }
  }
  synchronise();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const backend::TensorArg& arg = entry.outputs[i];
    outputs_[i].shape = entry.output_shapes[i];
    outputs_[i].data = on_host() ? arg.data : fetched_ + output_offsets_[i];
    outputs_[i].bytes = bytes_of(arg);
  }
}

const backend::TensorArg& Session::Impl::output_named(const ShapeEntry& entry,
                                                      const OutputBuffer& buffer) const {
  const auto it = std::ranges::find(outputs_, buffer.name, &Output::name);
  if (it == outputs_.end()) {
    std::string names;
    for (const Output& o : outputs_) names += (names.empty() ? "" : ", ") + std::string(o.name);
    throw Error(ErrorCode::kInput, "output '" + std::string(buffer.name) +
                                       "' does not exist; the engine's outputs are " + names);
  }
  const backend::TensorArg& arg = entry.outputs[static_cast<size_t>(it - outputs_.begin())];
  if (buffer.bytes < bytes_of(arg) || !buffer.data) {
    throw Error(ErrorCode::kInput, "output '" + std::string(buffer.name) + "': the buffer has " +
                                       std::to_string(buffer.bytes) + " bytes, the output " +
                                       std::to_string(bytes_of(arg)));
  }
  return arg;
}

void Session::Impl::copy_to(const ShapeEntry& entry, std::span<const OutputBuffer> buffers) {
  for (const OutputBuffer& buffer : buffers) {
    const backend::TensorArg& arg = output_named(entry, buffer);
    auto* to = static_cast<std::byte*>(buffer.data);
    if (buffer.memory == Memory::kDevice)
      device->copy_on_device(to, arg.data, bytes_of(arg), execution.stream);
    else
      device->copy_to_host(to, arg.data, bytes_of(arg), execution.stream);
  }
}

template <class Body>
void Session::Impl::each_unwritten(const StepRun& step, const Body& body) const {
  if (step.shape_state)
    body(std::span(arena + step.workspace_offset, step.shape_state->workspace_bytes));
  for (const backend::TensorArg& out : step.out) {
    if (out.data) body(std::span(out.data, bytes_of(out)));
  }
}

void Session::Impl::run_observed(ShapeEntry& entry, RunObserver& observer, const Watch& watch) {
  if (!on_host()) return run_mirrored(entry, observer, watch);
  observer.before_run({arena, arena_capacity});
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    each_unwritten(entry.steps[s],
                   [&](std::span<std::byte> bytes) { observer.before_step(bytes); });
    check_time(watch, s);
    launch_step(entry, s, execution);
    observer.after_step(static_cast<int32_t>(s), call_of(entry, s, execution));
  }
}

// The same launches on the same addresses as in any run; after each, what the step wrote is copied
// to a mirror of the arena in host memory, which is what the observer sees.
void Session::Impl::run_mirrored(ShapeEntry& entry, RunObserver& observer, const Watch& watch) {
  mirror_.resize(arena_capacity);
  observer.before_run(mirror_);
  synchronise();
  device->copy_to_device(arena, mirror_.data(), arena_capacity, execution.stream);
  stage_inputs(entry);
  device->copy_to_host(mirror_.data() + entry.staged_offset, arena + entry.staged_offset,
                       entry.staged_bytes, execution.stream);
  synchronise();
  const auto on_mirror = [this](std::vector<backend::TensorArg> args) {
    for (backend::TensorArg& arg : args) {
      if (!arg.data) continue;
      const std::byte* constant = weights_->on_host(arg.data);
      arg.data = constant ? const_cast<std::byte*>(constant) : mirror_.data() + (arg.data - arena);
    }
    return args;
  };
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    const StepRun& step = entry.steps[s];
    each_unwritten(step, [&](std::span<std::byte> bytes) {
      std::byte* mirrored = mirror_.data() + (bytes.data() - arena);
      observer.before_step({mirrored, bytes.size()});
      device->copy_to_device(bytes.data(), mirrored, bytes.size(), execution.stream);
    });
    check_time(watch, s);
    launch_step(entry, s, execution);
    for (const backend::TensorArg& out : step.out) {
      if (out.data)
        device->copy_to_host(mirror_.data() + (out.data - arena), out.data, bytes_of(out),
                             execution.stream);
    }
    synchronise();
    const std::vector<backend::TensorArg> in = on_mirror(step.in), out = on_mirror(step.out);
    observer.after_step(static_cast<int32_t>(s),
                        {parts.plan.steps[s].attrs, states[s].get(), step.shape_state.get(), in,
                         out, mirror_.data() + step.workspace_offset, execution});
  }
}

std::vector<double> Session::Impl::time_steps(std::span<const Input> inputs) {
  const Call call(*this);
  ShapeEntry& entry = bind_and_place(inputs);
  stage_inputs(entry);
  std::vector<std::unique_ptr<backend::Mark>> marks;
  const auto launch = [&](const backend::Execution& on) {
    marks.push_back(device->mark(on.stream));
    for (size_t s = 0; s < entry.steps.size(); ++s) {
      launch_step(entry, s, on);
      marks.push_back(device->mark(on.stream));
    }
  };
  // Replayed at once where that can be: launches by the host take longer than short steps.
  const auto recording = device->record(launch);
  if (recording) {
    recording->replay(execution.stream);
  } else {
    launch(execution);
  }
  synchronise();
  std::vector<double> ms;
  for (size_t s = 0; s + 1 < marks.size(); ++s)
    ms.push_back(device->milliseconds_between(*marks[s], *marks[s + 1]));
  return ms;
}

std::vector<int64_t> Session::Impl::count_kernels(std::span<const Input> inputs) {
  const Call call(*this);
  ShapeEntry& entry = bind_and_place(inputs);
  std::vector<int64_t> counts;
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    const auto recording =
        device->record([&](const backend::Execution& on) { launch_step(entry, s, on); });
    if (!recording) return {};
    counts.push_back(recording->num_kernels());
  }
  return counts;
}

double Session::Impl::time_runs(std::span<const Input> inputs, int count) {
  const Call call(*this);
  ShapeEntry& entry = bind_and_place(inputs);
  stage_inputs(entry);
  const Watch watch(limits);
  start(entry, watch);
  start(entry, watch);
  const std::unique_ptr<backend::Mark> first = device->mark(execution.stream);
  for (int i = 0; i < count; ++i) start(entry, watch);
  const std::unique_ptr<backend::Mark> last = device->mark(execution.stream);
  synchronise();
  return device->milliseconds_between(*first, *last);
}

}  // namespace vernier
