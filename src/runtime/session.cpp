// Running an engine. Binding of inputs is in binding.cpp, the once-per-shape work in
// shape_entry.cpp. Contract: include/vernier/session.h.
#include "vernier/session.h"

#include <algorithm>
#include <cstring>

#include "core/log.h"
#include "runtime/session_impl.h"

namespace vernier {

Session::Impl::Impl(std::shared_ptr<const Engine> shared_engine, const SessionOptions& options)
    : engine(std::move(shared_engine)), parts(engine->impl()), limits(options.limits) {
  engine->check_unchanged();
  if (parts.backend->available) {
    if (const Support available = parts.backend->available(); !available) {
      throw Error(ErrorCode::kMachine, "the engine runs on device '" + parts.plan.device +
                                           "', which is not here: " + available.reason +
                                           "; build it with --device cpu, or run it where one is");
    }
  }
  if (!parts.built_here && parts.backend->runs_engine_of) {
    if (const Support can = parts.backend->runs_engine_of(parts.plan.target); !can) {
      throw Error(ErrorCode::kMachine, "the engine was built for '" + parts.plan.target +
                                           "' and cannot run here: " + can.reason +
                                           "; build it again on this machine");
    }
  }
  device = parts.backend->make_device({.threads = options.threads, .stream = options.stream});
  const backend::OnDevice here(*device);
  execution = device->execution();
  if (!device->host_memory()) {
    Watch(limits).check_memory(saturating_sum(parts.bytes_held, engine->weight_bytes()),
                               "the engine's weights on the device");
    weights_ = &parts.device_weights();
  }
  make_rules();
  bound_.resize(parts.plan.inputs.size());
  symbols_.resize(parts.plan.symbols.size());
  bases_.resize(Source::kFirstInput + parts.plan.inputs.size());
  outputs_.resize(parts.plan.outputs.size());
  output_offsets_.resize(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].name = parts.plan.output_names[i];
    outputs_[i].dtype = parts.plan.values[static_cast<size_t>(parts.plan.outputs[i])].dtype;
  }
  create_states();
}

Session::Impl::~Impl() {
  if (!on_host() && forks() != made_forks_) {
    leave_to_parent();
    return;
  }
  if (staging_in_use_) try {
      device->synchronise(execution.stream);
    } catch (const Error&) {  // a broken device cannot be waited for
    }
  shapes.clear();
  if (arena) device->free(arena);
  if (staging) device->free_staging(staging);
  if (fetched_) device->free_staging(fetched_);
}

// In a child by fork() nothing of the GPU's may be touched, not even to give it back.
void Session::Impl::leave_to_parent() {
  for (auto& entry : shapes) static_cast<void>(entry.release());
  for (auto& state : states) static_cast<void>(state.release());
  static_cast<void>(device.release());
}

// ---- one call at a time

namespace {

// Tells threads of a process apart, and those of a child by fork() from its parent's: an address of
// a thread's own would be another's again when it has ended. Never 0.
constexpr unsigned kThreadBits = 32;
uint64_t this_thread() {
  static std::atomic<uint32_t> threads{0};
  static thread_local const uint32_t number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return uint64_t{forks()} << kThreadBits | number;
}
bool of_this_process(uint64_t thread) { return thread >> kThreadBits == forks(); }

}  // namespace

Session::Impl::Call::InUse::InUse(Impl& session) : session_(session) {
  uint64_t user = 0;
  if (session.user_.compare_exchange_strong(user, this_thread(), std::memory_order_acquire)) return;
  outermost_ = false;
  if (user == this_thread()) return;  // a call from within a call
  if (!of_this_process(user)) {
    throw Error(ErrorCode::kInput,
                "the session was running in another thread when this process was forked; make a "
                "new one from the same engine");
  }
  throw Error(ErrorCode::kInput,
              "the session is running in another thread; a session is one thread's at a time: make "
              "one per thread from the same engine, whose weights they share");
}
Session::Impl::Call::InUse::~InUse() {
  if (outermost_) session_.user_.store(0, std::memory_order_release);
}

Session::Impl::Call::Call(Impl& session)
    : in_use_(session), here_((session.check_not_forked(), *session.device)) {}

void Session::Impl::check_not_forked() const {
  if (on_host() || forks() == made_forks_) return;
  throw Error(ErrorCode::kInput,
              "the session is on device '" + parts.plan.device +
                  "' and was made before this process was forked, which CUDA does not allow; make "
                  "it in the child, or start the process anew (multiprocessing: 'spawn')");
}

const std::byte* Session::Impl::constant_data(int32_t blob) const {
  const auto index = static_cast<size_t>(blob);
  return weights_ ? weights_->blob(index) : parts.plan.blobs[index].bytes.data();
}

void Session::Impl::create_states() {
  const plan::Plan& plan = parts.plan;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    states.emplace_back();
    if (!parts.kernels[s]->create) continue;
    std::vector<backend::ConstantArg> constants;
    const auto again = parts.repacked.find(static_cast<int32_t>(s));
    if (again != parts.repacked.end()) {
      for (const backend::PackedConstant& packed : again->second.packed)
        constants.push_back({packed.input, packed.layout, packed.bytes});
    } else {
      for (const plan::PackedInput& packed : step.packed) {
        const plan::Blob& blob = plan.blobs[static_cast<size_t>(packed.blob)];
        constants.push_back(
            {packed.input, blob.layout, {constant_data(packed.blob), blob.bytes.bytes()}});
      }
    }
    std::vector<backend::TensorArg> constant_inputs(step.inputs.size());
    const ShapeEntry no_sizes;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!step.has_input(i)) continue;
      const auto index = static_cast<size_t>(step.inputs[i]);
      if (plan.values[index].kind == plan::PlanValue::Kind::kConstant)
        constant_inputs[i] = argument(no_sizes, step.inputs[i]);
    }
    for (const plan::PackedInput& packed : step.packed) {
      constant_inputs[static_cast<size_t>(packed.input)] = packed_argument(s, packed);
    }
    at_step(s, [&] {
      states.back() = parts.kernels[s]->create({step.attrs, &step.numerics, constants,
                                                constant_inputs, execution, parts.tuning_of(step)});
    });
  }
}

// Final addresses of all arguments, from the bases of this run.
void Session::Impl::resolve(ShapeEntry& entry) {
  bases_[Source::kArena] = arena;
  bases_[Source::kShapeValues] = entry.shape_values.data();
  for (size_t i = 0; i < bound_.size(); ++i) {
    // Kernels never write to an input.
    bases_[Source::kFirstInput + i] = static_cast<std::byte*>(const_cast<void*>(bound_[i]->data));
  }
  const auto set = [this](backend::TensorArg& arg, const Source& source) {
    if (source.base != Source::kFixed)
      arg.data = bases_[static_cast<size_t>(source.base)] + source.offset;
  };
  for (StepRun& step : entry.steps) {
    for (size_t i = 0; i < step.in.size(); ++i) set(step.in[i], step.in_sources[i]);
    for (size_t i = 0; i < step.out.size(); ++i) set(step.out[i], step.out_sources[i]);
  }
  for (size_t i = 0; i < entry.outputs.size(); ++i) set(entry.outputs[i], entry.output_sources[i]);
}

Session::Impl::ShapeEntry& Session::Impl::bind_and_place(std::span<const Input> inputs) {
  bind(inputs, Data::kNeeded);
  ShapeEntry& entry = entry_for_bound_symbols();
  check_expressions(entry);
  grow_arena(entry.arena_bytes);
  check_ids(entry);
  resolve(entry);
  return entry;
}

std::span<const Output> Session::Impl::run(std::span<const Input> inputs, RunObserver* observer) {
  const Watch watch(limits);
  const Call call(*this);
  ShapeEntry& entry = bind_and_place(inputs);
  if (observer) {
    run_observed(entry, *observer, watch);
  } else {
    stage_inputs(entry);
    start(entry, watch);
  }
  fetch_outputs(entry);
  return outputs_;
}

void Session::Impl::run(std::span<const Input> inputs, std::span<const OutputBuffer> buffers) {
  const Call call(*this);
  enqueue(inputs, buffers);
  synchronise();
}

void Session::Impl::enqueue(std::span<const Input> inputs, std::span<const OutputBuffer> buffers) {
  const Watch watch(limits);
  const Call call(*this);
  ShapeEntry& entry = bind_and_place(inputs);
  for (const OutputBuffer& buffer : buffers) output_named(entry, buffer);
  stage_inputs(entry);
  start(entry, watch);
  copy_to(entry, buffers);
}

void Session::Impl::wait() {
  const Call call(*this);
  synchronise();
}

void Session::Impl::synchronise() {
  device->synchronise(execution.stream);
  staging_in_use_ = false;
}

backend::LaunchCall Session::Impl::call_of(ShapeEntry& entry, size_t s,
                                           const backend::Execution& on) const {
  StepRun& step = entry.steps[s];
  return {parts.plan.steps[s].attrs,
          states[s].get(),
          step.shape_state.get(),
          step.in,
          step.out,
          arena + step.workspace_offset,
          on,
          s % 2 == 1};
}

void Session::Impl::launch_step(ShapeEntry& entry, size_t s, const backend::Execution& on) {
  if (entry.steps[s].empty) return;
  at_step(s, [&] { parts.kernels[s]->launch(call_of(entry, s, on)); });
}

void Session::Impl::launch_all(ShapeEntry& entry, const backend::Execution& on,
                               const Watch& watch) {
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    check_time(watch, s);
    launch_step(entry, s, on);
  }
}

void Session::Impl::check_time(const Watch& watch, size_t s) const {
  watch.check_time([&] {
    const plan::Step& step = parts.plan.steps[s];
    return "running step " + std::to_string(s) + " of " + std::to_string(parts.plan.steps.size()) +
           " (" + step.kernel + ", '" + step.name + "') with " + symbols_text();
  });
}

// What runs of this shape need, before any of it is allocated: the caller's inputs and outputs too,
// since both are there during a run.
void Session::Impl::check_memory(const ShapeEntry& entry) const {
  uint64_t bytes = saturating_sum(parts.bytes_held, weights_ ? engine->weight_bytes() : 0);
  const auto add = [&](const backend::TensorArg& arg, uint64_t times) {
    const auto size = static_cast<uint64_t>(arg.elems()) * size_bytes(arg.dtype);
    bytes = saturating_sum(bytes, saturating_product(size, times));
  };
  for (int32_t input : parts.plan.inputs) add(argument(entry, input), on_host() ? 1 : 2);
  for (const backend::TensorArg& output : entry.outputs) add(output, on_host() ? 1 : 2);
  bytes = saturating_sum(bytes, entry.arena_bytes);
  Watch(limits).check_memory(bytes, [&] { return "a run with " + symbols_text(); });
}

// The second run of a shape is recorded, if the device records; later ones replay it. Where that
// fails (a recording takes memory of the device) its steps are launched one by one, as in the
// first.
void Session::Impl::start(ShapeEntry& entry, const Watch& watch) {
  std::optional<ThreadTeam::Turn> turn;
  if (execution.threads) turn.emplace(*execution.threads, &entry.pace);
  if (entry.launched && !entry.recording && entry.recordable && !on_host()) {
    try {
      entry.recording =
          device->record([&](const backend::Execution& on) { launch_all(entry, on, {}); });
    } catch (const Error& error) {
      entry.recordable = false;
      log::warn("runs of " + symbols_text() + " are not recorded and take longer: " + error.what());
    }
  }
  if (entry.recording) {
    watch.check_time("starting a run");
    entry.recording->replay(execution.stream);
  } else {
    launch_all(entry, execution, watch);
  }
  entry.launched = true;
}

void Session::Impl::grow_arena(size_t bytes) {
  if (bytes <= arena_capacity) return;
  if (arena) device->free(std::exchange(arena, nullptr));
  arena_capacity = 0;
  for (auto& entry : shapes) entry->recording.reset();  // they hold addresses in it
  try {
    arena = device->allocate(bytes);
  } catch (const Error& error) {
    throw Error(error.code(), error.what() + ("; it was for activations of " + symbols_text()));
  }
  arena_capacity = bytes;
}

void Session::Impl::grow_staging(size_t bytes) {
  if (bytes <= staging_capacity) return;
  if (staging) device->free_staging(std::exchange(staging, nullptr));
  staging_capacity = 0;
  staging = device->allocate_staging(bytes);
  staging_capacity = bytes;
}

void Session::Impl::check_inputs(std::span<const Input> inputs) {
  const Call call(*this);
  bind(inputs, Data::kNotNeeded);
}

void Session::Impl::prepare(std::span<const InputShape> input_shapes) {
  const Call call(*this);
  std::vector<Input> inputs;
  for (const InputShape& shape : input_shapes) {
    const auto& ports = parts.inputs;
    const auto it = std::find_if(ports.begin(), ports.end(),
                                 [&](const Port& p) { return p.name == shape.name; });
    inputs.push_back(
        {shape.name, it == ports.end() ? DType::kUndefined : it->dtype, shape.shape, nullptr});
  }
  bind(inputs, Data::kNotNeeded);
  const ShapeEntry& entry = entry_for_bound_symbols();
  check_expressions(entry);
  grow_arena(entry.arena_bytes);
}

Session::Session(std::shared_ptr<const Engine> engine, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(std::move(engine), options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::span<const Output> Session::run(std::span<const Input> inputs) {
  return impl_->run(inputs, nullptr);
}
void Session::run(std::span<const Input> inputs, std::span<const OutputBuffer> buffers) {
  impl_->run(inputs, buffers);
}
void Session::enqueue(std::span<const Input> inputs, std::span<const OutputBuffer> buffers) {
  impl_->enqueue(inputs, buffers);
}
void Session::wait() { impl_->wait(); }
double Session::device_milliseconds(std::span<const Input> inputs, int runs) {
  return impl_->time_runs(inputs, runs);
}
void Session::check_inputs(std::span<const Input> inputs) { impl_->check_inputs(inputs); }
void Session::prepare(std::span<const InputShape> shapes) { impl_->prepare(shapes); }
size_t Session::arena_bytes() const { return impl_->arena_capacity; }

}  // namespace vernier
