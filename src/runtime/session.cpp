// Running an engine. Contract: include/vernier/session.h.
#include "vernier/session.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "runtime/canary.h"
#include "runtime/certified.h"
#include "runtime/session_impl.h"

namespace vernier {
namespace {

std::unique_ptr<backend::Device> device_of(const Engine::Impl& engine,
                                           const SessionOptions& options) {
  const backend::Backend& backend = *engine.backend;
  engine.check_not_forked();
  if (backend.available) {
    if (const Support available = backend.available(); !available) {
      throw Error(ErrorCode::kMachine, "the engine runs on device '" + engine.plan.device +
                                           "', which is not here: " + available.reason +
                                           "; build it with --device cpu, or run it where one is");
    }
  }
  if (!engine.built_here && backend.runs_engine_of) {
    if (const Support can = backend.runs_engine_of(engine.plan.target); !can) {
      throw Error(ErrorCode::kMachine, "the engine was built for '" + engine.plan.target +
                                           "' and cannot run here: " + can.reason +
                                           "; build it again on this machine");
    }
  }
  return backend.make_device({.threads = options.threads, .stream = options.stream});
}

backend::Execution execution_of(backend::Device& device) {
  const backend::OnDevice here(device);
  return device.execution();
}

// Null where the device's memory is the host's.
const runtime::DeviceWeights* weights_of(const Session::Impl& session) {
  if (session.device->host_memory()) return nullptr;
  Watch(session.limits)
      .check_memory(saturating_sum(session.parts.bytes_held, session.engine->weight_bytes()),
                    "the engine's weights on the device");
  const backend::OnDevice here(*session.device);
  return &session.parts.device_weights();
}

// Is a certificate asked for? It is one that holds then.
bool holds(const Engine::Impl& engine, const SessionOptions& options) {
  if (options.certificate) runtime::require_certificate(engine, *options.certificate);
  return options.certificate.has_value();
}

std::shared_ptr<const Engine> checked(std::shared_ptr<const Engine> engine,
                                      const SessionOptions& options) {
  engine->check_unchanged();
  if (options.canary) runtime::require_canary(engine, options);
  return engine;
}

}  // namespace

Session::Impl::Impl(std::shared_ptr<const Engine> shared_engine, const SessionOptions& options)
    : engine(checked(std::move(shared_engine), options)),
      parts(engine->impl()),
      limits(options.limits),
      certified(holds(parts, options)),
      device(device_of(parts, options)),
      execution(execution_of(*device)),
      arguments_(parts, weights_of(*this)),
      binding_(parts),
      steps_(parts, execution),
      arena_(*device, runtime::GrowingMemory::Place::kDevice),
      transfer_(parts, arguments_, *device, execution),
      observed_(parts, arguments_, steps_, transfer_, *device, execution),
      bases_(runtime::Source::kFirstInput + parts.plan.inputs.size() + parts.carried.size()) {
  const backend::OnDevice here(*device);
  for (size_t c = 0; c < parts.carried.size(); ++c)
    carried_.push_back(
        std::make_unique<runtime::GrowingMemory>(*device, runtime::GrowingMemory::Place::kDevice));
  steps_.create(arguments_);
}

Session::Impl::~Impl() {
  if (on_host() || !use_.is_of_parent()) {
    transfer_.finish();
    return;
  }
  // In a child by fork() nothing of the GPU's may be touched, not even to give it back.
  for (auto& entry : shapes) static_cast<void>(entry.release());
  steps_.abandon();
  arena_.abandon();
  for (const auto& memory : carried_) memory->abandon();
  transfer_.abandon();
  static_cast<void>(device.release());
}

void Session::Impl::check_not_forked() const {
  if (on_host() || !use_.is_of_parent()) return;
  throw Error(ErrorCode::kInput,
              "the session is on device '" + parts.plan.device +
                  "' and was made before this process was forked, which CUDA does not allow; make "
                  "it in the child, or start the process anew (multiprocessing: 'spawn')");
}

// The one of these sizes, made where they are new. The least recently used one goes.
Session::Impl::ShapeEntry& Session::Impl::entry_of(const std::vector<int64_t>& symbols,
                                                   size_t segment) {
  ++runs_;
  for (auto& entry : shapes) {
    if (entry->segment != segment || entry->symbols != symbols) continue;
    entry->last_used = runs_;
    return *entry;
  }
  if (certified) runtime::require_certified_sizes(parts, symbols);
  std::unique_ptr<ShapeEntry> fresh =
      runtime::make_entry({parts, arguments_, steps_, *device, limits}, symbols, segment);
  fresh->last_used = runs_;
  if (shapes.size() == kMaxShapes) {
    const auto oldest =
        std::min_element(shapes.begin(), shapes.end(),
                         [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
    shapes.erase(oldest);
  }
  shapes.push_back(std::move(fresh));
  return *shapes.back();
}

// Recordings hold addresses in the memory that is replaced.
template <class Grow>
void Session::Impl::grow(const ShapeEntry& entry, const Grow& grow) {
  for (auto& other : shapes) other->recording.drop();
  try {
    grow();
  } catch (const Error& error) {
    throw Error(error.code(), error.what() + ("; it was for activations of " +
                                              runtime::sizes_text(parts.plan, entry.symbols)));
  }
}

// The arena, what the shape keeps, and the values that the segment makes for later ones.
void Session::Impl::grow_memory(ShapeEntry& entry) {
  if (entry.kept.bytes > 0 && !entry.kept.memory) {
    auto memory =
        std::make_unique<runtime::GrowingMemory>(*device, runtime::GrowingMemory::Place::kDevice);
    memory->grow(entry.kept.bytes);
    entry.kept.memory = std::move(memory);
  }
  if (entry.arena_bytes > arena_.capacity()) grow(entry, [&] { arena_.grow(entry.arena_bytes); });
  for (size_t c = 0; c < carried_.size(); ++c) {
    const plan::PlanValue& value = parts.plan.value(parts.carried[c]);
    if (!parts.plan.segments[entry.segment].holds(value.first_step)) continue;
    const backend::TensorArg arg = arguments_.value(parts.carried[c], entry.slots);
    const size_t bytes = std::max<size_t>(runtime::bytes_of(arg), 1);
    if (bytes > carried_[c]->capacity()) grow(entry, [&] { carried_[c]->grow(bytes); });
  }
}

// The entry of a segment whose sizes are bound, with its addresses.
Session::Impl::ShapeEntry& Session::Impl::place(size_t segment) {
  using runtime::Source;
  ShapeEntry& entry = entry_of(binding_.symbols(), segment);
  if (segment == 0) binding_.check_expressions(entry);
  grow_memory(entry);
  binding_.check_values(entry, arguments_);
  bases_[Source::kArena] = arena_.data();
  bases_[Source::kShapeValues] = entry.shape_values.data();
  bases_[Source::kKept] = entry.kept.memory ? entry.kept.memory->data() : nullptr;
  size_t base = Source::kFirstInput;
  // Kernels never write to an input.
  for (const Input* input : binding_.inputs())
    bases_[base++] = static_cast<std::byte*>(const_cast<void*>(input->data));
  for (const auto& memory : carried_) bases_[base++] = memory->data();
  entry.resolve(bases_);
  return entry;
}

template <class Body>
Session::Impl::ShapeEntry& Session::Impl::each_segment(std::span<const Input> inputs,
                                                       const Body& body) {
  binding_.bind(inputs, runtime::Binding::Data::kNeeded);
  ShapeEntry* entry = &place(0);
  body(*entry);
  for (size_t segment = 1; segment < parts.plan.segments.size(); ++segment) {
    const runtime::FoundSizes found = find_sizes(*entry);
    runtime::bind_data_sizes(
        parts.plan, parts.plan.segments[segment].first_step, found,
        [&](size_t index, int64_t symbol) { binding_.set_data_size(index, symbol); });
    entry = &place(segment);
    store_results(*entry, found);
    body(*entry);
  }
  return *entry;
}

// What the first step of the next segment makes of the values of this run.
runtime::FoundSizes Session::Impl::find_sizes(const ShapeEntry& entry) {
  const int32_t s = parts.plan.segments[entry.segment].end_step;
  const plan::Step& step = parts.plan.step(s);
  const std::vector<backend::TensorArg>& args = entry.steps[static_cast<size_t>(s)].in;
  std::vector<EvalTensor> contents(args.size());
  std::vector<runtime::KnownInput> inputs(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].dtype == DType::kUndefined) continue;
    inputs[i].dtype = args[i].dtype;
    inputs[i].shape.assign(args[i].shape.begin(), args[i].shape.begin() + args[i].rank);
    if (!runtime::says_sizes(step.op, inputs[i].shape)) continue;
    contents[i] = transfer_.read(args[i]);
    inputs[i].contents = &contents[i];
  }
  return runtime::find_sizes(parts.plan, step, inputs);
}

// The sizes must be those that the plan computes; results that the host has are put in place.
void Session::Impl::store_results(const ShapeEntry& entry, const runtime::FoundSizes& found) {
  const int32_t s = parts.plan.segments[entry.segment].first_step;
  const std::vector<backend::TensorArg>& out = entry.steps[static_cast<size_t>(s)].out;
  std::vector<Shape> declared;
  for (const backend::TensorArg& arg : out)
    declared.emplace_back(arg.shape.begin(), arg.shape.begin() + arg.rank);
  runtime::check_found_sizes(parts.plan.step(s), found, declared);
  for (size_t i = 0; i < found.results.size(); ++i) {
    if (out[i].dtype == DType::kUndefined) continue;
    const Tensor result = found.results[i].to_tensor();
    device->copy_to_device(out[i].data, result.byte_span().data(), result.bytes(),
                           execution.stream);
    transfer_.synchronise();
  }
}

std::span<const Output> Session::Impl::run(std::span<const Input> inputs, RunObserver* observer) {
  const Watch watch(limits);
  const Call call(*this);
  const ShapeEntry& last = each_segment(inputs, [&](ShapeEntry& entry) {
    if (observer) {
      entry.kept.made = false;  // the observer writes to it
      observed_.run(entry, binding_.inputs(), arena_, carried_, *observer, watch);
    } else {
      transfer_.stage(entry, binding_.inputs(), arena_.data());
      start(entry, watch);
    }
  });
  return transfer_.fetch(last);
}

void Session::Impl::run(std::span<const Input> inputs, std::span<const OutputBuffer> buffers) {
  const Call call(*this);
  enqueue(inputs, buffers);
  transfer_.synchronise();
}

void Session::Impl::enqueue(std::span<const Input> inputs, std::span<const OutputBuffer> buffers) {
  const Watch watch(limits);
  const Call call(*this);
  const ShapeEntry& last = each_segment(inputs, [&](ShapeEntry& entry) {
    if (entry.segment + 1 == parts.plan.segments.size()) {  // before it starts
      for (const OutputBuffer& buffer : buffers) transfer_.output_for(entry, buffer);
    }
    transfer_.stage(entry, binding_.inputs(), arena_.data());
    start(entry, watch);
  });
  transfer_.copy_to(last, buffers);
}

void Session::Impl::wait() {
  const Call call(*this);
  transfer_.synchronise();
}

// All steps: launched, recorded and replayed, or replayed.
void Session::Impl::start(ShapeEntry& entry, const Watch& watch) {
  std::optional<ThreadTeam::Turn> turn;
  if (execution.threads) turn.emplace(*execution.threads, &entry.pace);
  if (entry.kept.bytes > 0 && !entry.kept.made) {
    steps_.launch_once(entry, execution, arena_.data(), watch);
    entry.kept.made = true;
  }
  if (entry.recording.due() && !on_host()) {
    entry.recording.record(
        *device,
        [&](const backend::Execution& on) { steps_.launch_all(entry, on, arena_.data(), {}); },
        runtime::sizes_text(parts.plan, entry.symbols));
  }
  if (entry.recording.made()) {
    watch.check_time("starting a run");
    entry.recording.replay(execution.stream);
  } else {
    steps_.launch_all(entry, execution, arena_.data(), watch);
  }
  entry.recording.note_run();
}

void Session::Impl::check_inputs(std::span<const Input> inputs) {
  const Call call(*this);
  binding_.bind(inputs, runtime::Binding::Data::kNotNeeded);
}

void Session::Impl::prepare(std::span<const InputShape> input_shapes) {
  const Call call(*this);
  std::vector<Input> inputs;
  for (const InputShape& shape : input_shapes) {
    const auto port = std::ranges::find(parts.inputs, shape.name, &Port::name);
    const DType dtype = port == parts.inputs.end() ? DType::kUndefined : port->dtype;
    inputs.push_back({shape.name, dtype, shape.shape, nullptr});
  }
  binding_.bind(inputs, runtime::Binding::Data::kNotNeeded);
  ShapeEntry& entry = entry_of(binding_.symbols(), 0);
  binding_.check_expressions(entry);
  grow_memory(entry);
}

// ---- times

std::vector<double> Session::Impl::time_steps(std::span<const Input> inputs) {
  const Call call(*this);
  std::vector<double> ms;
  each_segment(inputs, [&](const ShapeEntry& entry) {
    const plan::Segment& segment = parts.plan.segments[entry.segment];
    transfer_.stage(entry, binding_.inputs(), arena_.data());
    std::vector<std::unique_ptr<backend::Mark>> marks;
    const auto launch_steps = [&](const backend::Execution& on) {
      marks.push_back(device->mark(on.stream));
      for (int32_t s = segment.first_step; s < segment.end_step; ++s) {
        launch(entry, static_cast<size_t>(s), on);
        marks.push_back(device->mark(on.stream));
      }
    };
    // Replayed at once where that can be: launches by the host take longer than short steps.
    const auto recording = device->record(launch_steps);
    if (recording) {
      recording->replay(execution.stream);
    } else {
      launch_steps(execution);
    }
    transfer_.synchronise();
    for (size_t m = 0; m + 1 < marks.size(); ++m)
      ms.push_back(device->milliseconds_between(*marks[m], *marks[m + 1]));
  });
  return ms;
}

std::vector<int64_t> Session::Impl::count_kernels(std::span<const Input> inputs) {
  const Call call(*this);
  std::vector<int64_t> counts;
  bool recorded = true;
  each_segment(inputs, [&](ShapeEntry& entry) {
    const plan::Segment& segment = parts.plan.segments[entry.segment];
    for (int32_t s = segment.first_step; s < segment.end_step && recorded; ++s) {
      const auto recording = device->record(
          [&](const backend::Execution& on) { launch(entry, static_cast<size_t>(s), on); });
      recorded = recording != nullptr;
      if (recorded) counts.push_back(recording->num_kernels());
    }
    if (entry.segment + 1 == parts.plan.segments.size()) return;
    transfer_.stage(entry, binding_.inputs(), arena_.data());
    start(entry, Watch(limits));  // the next one needs what this one computes
  });
  return recorded ? counts : std::vector<int64_t>();
}

double Session::Impl::time_runs(std::span<const Input> inputs, int count) {
  const Call call(*this);
  const Watch watch(limits);
  ShapeEntry* last = nullptr;
  const auto run_all = [&] {
    last = &each_segment(inputs, [&](ShapeEntry& entry) {
      transfer_.stage(entry, binding_.inputs(), arena_.data());
      start(entry, watch);
    });
  };
  run_all();
  if (parts.plan.segments.size() > 1) return time_of(count, run_all);
  return time_of(count, [&] { start(*last, watch); });  // the inputs are there
}

// Milliseconds on the device of `count` runs, after one more.
double Session::Impl::time_of(int count, const std::function<void()>& run_once) {
  run_once();
  const std::unique_ptr<backend::Mark> first = device->mark(execution.stream);
  for (int i = 0; i < count; ++i) run_once();
  const std::unique_ptr<backend::Mark> last = device->mark(execution.stream);
  transfer_.synchronise();
  return device->milliseconds_between(*first, *last);
}

Session::Session(std::shared_ptr<const Engine> engine, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(std::move(engine), options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Engine& Session::engine() const { return *impl_->engine; }
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
std::vector<std::vector<int64_t>> Session::output_shapes(std::span<const Input> inputs) {
  check_inputs(inputs);
  const plan::Plan& plan = impl_->parts.plan;
  std::map<std::string, int64_t> sizes;
  for (const Input& input : inputs) {
    const auto at = std::ranges::find(plan.input_names, input.name) - plan.input_names.begin();
    const SymShape& dims = plan.value(plan.inputs[static_cast<size_t>(at)]).shape;
    for (size_t d = 0; d < dims.size(); ++d)
      if (const auto symbol = dims[d].as_symbol()) sizes.emplace(*symbol, input.shape[d]);
  }
  std::vector<std::vector<int64_t>> shapes;
  for (const int32_t output : plan.outputs) {
    std::vector<int64_t>& shape = shapes.emplace_back();
    for (const Dim& dim : plan.value(output).shape) {
      for (const plan::DataSize& data : plan.data_sizes) {
        if (std::ranges::count(dim.symbols(), data.name) == 0) continue;
        const size_t index = shapes.size() - 1;
        throw Error(ErrorCode::kInput,
                    "output '" + plan.output_names[index] + "': its size " + dim.str() +
                        " depends on data; run the model and read the shape of the output");
      }
      shape.push_back(dim.evaluate(sizes));
    }
  }
  return shapes;
}
void* Session::stream() const { return impl_->execution.stream; }
size_t Session::arena_bytes() const { return impl_->arena_bytes(); }

}  // namespace vernier
