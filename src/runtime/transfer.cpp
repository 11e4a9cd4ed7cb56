// Copies to and from the device: see transfer.h.
#include "runtime/transfer.h"

#include <algorithm>
#include <cstring>

#include "backend/elements.h"
#include "core/error.h"

namespace vernier::runtime {

Transfer::Transfer(const Engine::Impl& engine, const Arguments& arguments, backend::Device& device,
                   const backend::Execution& execution)
    : arguments_(arguments),
      device_(device),
      execution_(execution),
      staging_(device, GrowingMemory::Place::kStaging),
      fetched_(device, GrowingMemory::Place::kStaging),
      outputs_(engine.plan.outputs.size()),
      output_offsets_(outputs_.size()) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].name = engine.plan.output_names[i];
    outputs_[i].dtype = engine.plan.value(engine.plan.outputs[i]).dtype;
  }
}

namespace {
bool on_device(const Input* input) { return input->memory == Memory::kDevice; }
}  // namespace

void Transfer::stage(const ShapeEntry& entry, std::span<const Input* const> inputs,
                     std::byte* arena) {
  if (arguments_.on_host()) return;
  const StagedInputs& staged = entry.staged;
  std::byte* region = arena + staged.offset;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (on_device(inputs[i]))
      device_.copy_on_device(region + staged.input_offsets[i],
                             static_cast<const std::byte*>(inputs[i]->data), staged.input_bytes[i],
                             execution_.stream);
  }
  const bool none_on_host = std::ranges::all_of(inputs, on_device) && entry.shape_values.empty();
  if (none_on_host) return;
  if (staging_in_use_) synchronise();
  staging_.grow(staged.bytes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]->memory == Memory::kHost && staged.input_bytes[i] > 0)
      std::memcpy(staging_.data() + staged.input_offsets[i], inputs[i]->data,
                  staged.input_bytes[i]);
  }
  if (!entry.shape_values.empty()) {
    std::memcpy(staging_.data() + staged.shape_values_offset, entry.shape_values.data(),
                entry.shape_values.size());
  }
  upload(entry, inputs, region);
}

// From the staging memory, which is filled.
void Transfer::upload(const ShapeEntry& entry, std::span<const Input* const> inputs,
                      std::byte* region) {
  const StagedInputs& staged = entry.staged;
  staging_in_use_ = true;
  const auto copy = [&](size_t offset, size_t bytes) {
    if (bytes > 0)
      device_.copy_to_device(region + offset, staging_.data() + offset, bytes, execution_.stream);
  };
  if (std::ranges::none_of(inputs, on_device)) {
    copy(0, staged.bytes);
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!on_device(inputs[i])) copy(staged.input_offsets[i], staged.input_bytes[i]);
  }
  copy(staged.shape_values_offset, entry.shape_values.size());
}

std::span<const Output> Transfer::fetch(const ShapeEntry& entry) {
  const bool on_host = arguments_.on_host();
  if (!on_host) {
    size_t bytes = 0;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      output_offsets_[i] = bytes;
      const size_t alignment = device_.alignment();
      bytes += (bytes_of(entry.outputs[i]) + alignment - 1) / alignment * alignment;
    }
    fetched_.grow(bytes);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      device_.copy_to_host(fetched_.data() + output_offsets_[i], entry.outputs[i].data,
                           bytes_of(entry.outputs[i]), execution_.stream);
    }
  }
  synchronise();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const backend::TensorArg& arg = entry.outputs[i];
    outputs_[i].shape = entry.output_shapes[i];
    outputs_[i].data = on_host ? arg.data : fetched_.data() + output_offsets_[i];
    outputs_[i].bytes = bytes_of(arg);
  }
  return outputs_;
}

const backend::TensorArg& Transfer::output_for(const ShapeEntry& entry,
                                               const OutputBuffer& buffer) const {
  const auto it = std::ranges::find(outputs_, buffer.name, &Output::name);
  if (it == outputs_.end()) {
    std::string names;
    for (const Output& o : outputs_) names += (names.empty() ? "" : ", ") + std::string(o.name);
    throw Error(ErrorCode::kInput, "output '" + std::string(buffer.name) +
                                       "' does not exist; the engine's outputs are " + names);
  }
  const backend::TensorArg& arg = entry.outputs[it - outputs_.begin()];
  if (buffer.bytes < bytes_of(arg) || !buffer.data) {
    throw Error(ErrorCode::kInput, "output '" + std::string(buffer.name) + "': the buffer has " +
                                       std::to_string(buffer.bytes) + " bytes, the output " +
                                       std::to_string(bytes_of(arg)));
  }
  return arg;
}

void Transfer::copy_to(const ShapeEntry& entry, std::span<const OutputBuffer> buffers) {
  for (const OutputBuffer& buffer : buffers) {
    const backend::TensorArg& arg = output_for(entry, buffer);
    auto* to = static_cast<std::byte*>(buffer.data);
    if (buffer.memory == Memory::kDevice)
      device_.copy_on_device(to, arg.data, bytes_of(arg), execution_.stream);
    else
      device_.copy_to_host(to, arg.data, bytes_of(arg), execution_.stream);
  }
}

EvalTensor Transfer::read(const backend::TensorArg& arg) {
  if (arguments_.on_host() || arg.elems() == 0) return backend::loaded(arg);
  backend::TensorArg on_host = arg;
  std::vector<std::byte> copied;
  if (const std::byte* constant = arguments_.weights().on_host(arg.data)) {
    on_host.data = const_cast<std::byte*>(constant);
  } else {
    const auto width = static_cast<int64_t>(size_bytes(arg.dtype));
    int64_t low = 0, high = 0;  // elements from the first one
    for (int d = 0; d < arg.rank; ++d) {
      const int64_t span = (arg.dim(d) - 1) * arg.stride(d);
      (span < 0 ? low : high) += span;
    }
    copied.resize(static_cast<size_t>((high - low + 1) * width));
    device_.copy_to_host(copied.data(), arg.data + low * width, copied.size(), execution_.stream);
    synchronise();
    on_host.data = copied.data() - low * width;
  }
  return backend::loaded(on_host);
}

void Transfer::synchronise() {
  device_.synchronise(execution_.stream);
  staging_in_use_ = false;
}

void Transfer::finish() noexcept {
  if (!staging_in_use_) return;
  try {
    synchronise();
  } catch (const Error&) {  // a broken device cannot be waited for
  }
}

void Transfer::abandon() {
  staging_.abandon();
  fetched_.abandon();
}

}  // namespace vernier::runtime
