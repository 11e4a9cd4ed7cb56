// Running an engine. Binding of inputs is in binding.cpp, the once-per-shape work in
// shape_entry.cpp. Contract: include/vernier/session.h.
#include "vernier/session.h"

#include <algorithm>
#include <cstring>

#include "runtime/session_impl.h"

namespace vernier {

Session::Impl::Impl(std::shared_ptr<const Engine> shared_engine, const SessionOptions& options)
    : engine(std::move(shared_engine)), parts(engine->impl()) {
  device = parts.backend->make_device({.threads = options.threads});
  VERNIER_ASSERT(device->host_memory(), "inputs are read where the caller has them");
  execution = device->execution();
  make_rules();
  bound_.resize(parts.plan.inputs.size());
  symbols_.resize(parts.plan.symbols.size());
  bases_.resize(Source::kFirstInput + parts.plan.inputs.size());
  outputs_.resize(parts.plan.outputs.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].name = parts.plan.output_names[i];
    outputs_[i].dtype = parts.plan.values[static_cast<size_t>(parts.plan.outputs[i])].dtype;
  }
  create_states();
}

Session::Impl::~Impl() {
  if (arena) device->free(arena);
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
        constants.push_back({packed.input, blob.layout, blob.bytes.byte_span()});
      }
    }
    std::vector<backend::TensorArg> constant_inputs(step.inputs.size());
    const ShapeEntry no_sizes;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] == plan::kNone) continue;
      const auto index = static_cast<size_t>(step.inputs[i]);
      if (plan.values[index].kind == plan::PlanValue::Kind::kConstant)
        constant_inputs[i] = argument(no_sizes, step.inputs[i]);
    }
    for (const plan::PackedInput& packed : step.packed) {
      constant_inputs[static_cast<size_t>(packed.input)] = packed_argument(s, packed);
    }
    states.back() = parts.kernels[s]->create(
        {step.attrs, &step.numerics, constants, constant_inputs, execution});
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

std::span<const Output> Session::Impl::run(std::span<const Input> inputs, RunObserver* observer) {
  bind(inputs, Data::kNeeded);
  ShapeEntry& entry = entry_for_bound_symbols();
  check_expressions(entry);
  grow_arena(entry.arena_bytes);
  resolve(entry);
  check_ids(entry);
  if (observer) observer->before_run({arena, arena_capacity});
  size_t s = 0;
  try {
    for (; s < entry.steps.size(); ++s) {
      StepRun& step = entry.steps[s];
      const backend::LaunchCall call{
          parts.plan.steps[s].attrs,     states[s].get(), step.shape_state.get(), step.in, step.out,
          arena + step.workspace_offset, execution};
      parts.kernels[s]->launch(call);
      if (observer) observer->after_step(static_cast<int32_t>(s), call);
    }
  } catch (const Error& error) {  // a kernel does not know which node it works for
    throw Error(error.code(), "node '" + parts.plan.steps[s].name + "' (step " + std::to_string(s) +
                                  ", " + parts.plan.steps[s].kernel + "): " + error.what());
  }
  device->synchronise(execution.stream);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const backend::TensorArg& arg = entry.outputs[i];
    outputs_[i].shape = entry.output_shapes[i];
    outputs_[i].data = arg.data;
    outputs_[i].bytes = static_cast<size_t>(arg.elems()) * size_bytes(arg.dtype);
  }
  return outputs_;
}

void Session::Impl::grow_arena(size_t bytes) {
  if (bytes <= arena_capacity) return;
  if (arena) device->free(std::exchange(arena, nullptr));
  arena_capacity = 0;
  arena = device->allocate(bytes);
  arena_capacity = bytes;
}

void Session::Impl::copy_out(std::span<const OutputBuffer> buffers) const {
  for (const OutputBuffer& buffer : buffers) {
    const auto it = std::find_if(outputs_.begin(), outputs_.end(),
                                 [&](const Output& o) { return o.name == buffer.name; });
    if (it == outputs_.end()) {
      std::string names;
      for (const Output& o : outputs_) names += (names.empty() ? "" : ", ") + std::string(o.name);
      throw Error(ErrorCode::kInput, "output '" + std::string(buffer.name) +
                                         "' does not exist; the engine's outputs are " + names);
    }
    if (buffer.bytes < it->bytes || !buffer.data) {
      throw Error(ErrorCode::kInput, "output '" + std::string(buffer.name) + "': the buffer has " +
                                         std::to_string(buffer.bytes) + " bytes, the output " +
                                         std::to_string(it->bytes));
    }
    std::memcpy(buffer.data, it->data, it->bytes);
  }
}

void Session::Impl::prepare(std::span<const InputShape> input_shapes) {
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
std::span<const Output> Session::run(std::span<const Input> inputs,
                                     std::span<const OutputBuffer> buffers) {
  const std::span<const Output> outputs = impl_->run(inputs, nullptr);
  impl_->copy_out(buffers);
  return outputs;
}
void Session::prepare(std::span<const InputShape> shapes) { impl_->prepare(shapes); }
size_t Session::arena_bytes() const { return impl_->arena_capacity; }

}  // namespace vernier
