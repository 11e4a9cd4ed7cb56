// Opening an engine: kernels by name, sizes compiled, packed weights made to fit this machine.
// See include/vernier/engine.h.
#include "vernier/engine.h"

#include <algorithm>

#include "core/convert.h"
#include "core/log.h"
#include "engine/format.h"
#include "engine/validate.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"
#include "runtime/plugins.h"
#include "runtime/proof.h"

namespace vernier {
namespace {

std::vector<std::string> symbol_names(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Symbol& symbol : plan.symbols) names.push_back(symbol.name);
  for (const plan::TokenCount& count : plan.token_counts) names.push_back(count.name);
  for (const plan::DataSize& data : plan.data_sizes) names.push_back(data.name);
  return names;
}

// A size that only data say has the name of its symbol.
std::string text_of(const plan::Plan& plan, const Dim& size) {
  const auto data = std::ranges::find_if(
      plan.data_sizes, [&](const plan::DataSize& one) { return one.size() == size; });
  return data != plan.data_sizes.end() ? data->name : size.str();
}

// The values that live in two segments or more, or that the host writes.
std::vector<int32_t> carried_values(const plan::Plan& plan) {
  std::vector<int32_t> carried;
  if (plan.segments.size() <= 1) return carried;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const plan::PlanValue& value = plan.values[v];
    if (value.kind != plan::PlanValue::Kind::kArena) continue;
    const bool inside = std::ranges::any_of(plan.segments, [&](const plan::Segment& segment) {
      return segment.holds(value.first_step) && segment.holds(value.last_step);
    });
    // The host reads what the first step of the next segment reads.
    const bool read = plan.begins_segment(value.last_step) && value.first_step < value.last_step;
    // It writes results that it has before the segment's memory is given out.
    if (!inside || read || plan.is_found(value.first_step))
      carried.push_back(static_cast<int32_t>(v));
  }
  return carried;
}

// A size of a port; `beyond` where it cannot be evaluated: runs of such sizes are refused.
int64_t size_of(const Dim& d, const std::map<std::string, int64_t>& sizes, int64_t beyond) {
  try {
    return d.evaluate(sizes);
  } catch (const Error&) {
    return beyond;
  }
}

Port port_of(const plan::Plan& plan, const std::string& name, int32_t index) {
  const plan::PlanValue& value = plan.value(index);
  Port port{name, value.dtype, {}};
  for (const Dim& d : value.shape) {
    PortDim dim{text_of(plan, d), 0, 0};
    std::map<std::string, int64_t> least, most;
    for (const plan::Symbol& symbol : plan.symbols) {
      least[symbol.name] = symbol.min;
      most[symbol.name] = symbol.max;
    }
    for (const plan::DataSize& data : plan.data_sizes) {
      least[data.name] = 1;
      if (data.at_most.empty()) continue;
      const int64_t size = size_of(data.at_most[0], most, INT64_MAX - 1);
      most[data.name] = std::min(size, INT64_MAX - 1) + 1;
    }
    dim.min = size_of(d, least, 0);
    dim.max = size_of(d, most, INT64_MAX);
    port.dims.push_back(std::move(dim));
  }
  return port;
}

}  // namespace

std::string Port::shape_text() const {
  std::string text = "[";
  for (const PortDim& dim : dims) {
    if (text.size() > 1) text += ", ";
    text += dim.text;
    if (dim.min == dim.max) continue;
    text.append("=").append(std::to_string(dim.min));
    text.append("..").append(std::to_string(dim.max));
  }
  return text + "]";
}

Engine::Impl::Impl(std::shared_ptr<const engine::EngineFile> engine_file,
                   const EngineOptions& options)
    : file(std::move(engine_file)),
      plan(file->plan),
      backend(options.kernels ? options.kernels
                              : &runtime::backend_named(plan.device, "the engine's device")),
      program(symbol_names(plan)) {
  const Watch watch(options.limits);
  guards_to_hold = plan.guards;
  const std::vector<plan::Guard> unproven = runtime::prove_shapes(plan, watch);
  guards_to_hold.insert(guards_to_hold.end(), unproven.begin(), unproven.end());
  if (options.read_into_memory) bytes_held = file->file_bytes;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    watch.check_time([&] { return "opening " + file->name; });
    runtime::Placed placed = runtime::place_step(*backend, plan, plan.steps[s]);
    kernels.push_back(placed.kernel);
    if (!placed.repacked) continue;
    bytes_held += runtime::bytes_of(*placed.repacked);
    // Checked one weight late: the size of another layout is known once the weight is packed.
    watch.check_memory(bytes_held, [&] { return file->name + " with weights packed again"; });
    repacked[static_cast<int32_t>(s)] = std::move(*placed.repacked);
  }
  for (size_t s = 0; s < plan.steps.size(); ++s)
    joins.push_back(runtime::joins_next(plan, s, kernels));
  runtime::warn_of_other_plugins(plan);
  built_here = plan.target == backend->target();
  const bool tuned =
      std::ranges::any_of(plan.steps, [](const plan::Step& step) { return !step.tuning.empty(); });
  if (!built_here) {
    log::warn("the engine was built for '" + plan.target + "' and runs on '" + backend->target() +
              "', where last bits may differ; " +
              (repacked.empty() ? "its packed weights fit as they are"
                                : std::to_string(repacked.size()) + " of its weights are packed " +
                                      "again, build it here to open it faster") +
              (tuned ? "; its tuning results are ignored" : ""));
  }
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    inputs.push_back(port_of(plan, plan.input_names[i], plan.inputs[i]));
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    outputs.push_back(port_of(plan, plan.output_names[i], plan.outputs[i]));
  for (const plan::PlanValue& value : plan.values) {
    ValueSlots slot;
    for (const Dim& d : value.shape) slot.shape.push_back(program.slot(d));
    for (const Dim& d : value.strides) slot.strides.push_back(program.slot(d));
    for (const Dim& d : value.values) slot.values.push_back(program.slot(d));
    if (value.kind == plan::PlanValue::Kind::kAlias) slot.offset = program.slot(value.offset_elems);
    slots.push_back(std::move(slot));
  }
  carried = carried_values(plan);
  carried_at.assign(plan.values.size(), plan::kNone);
  for (size_t c = 0; c < carried.size(); ++c) carried_at[carried[c]] = static_cast<int32_t>(c);
  sized = runtime::find_sized_steps(plan);
  for (const plan::Guard& guard : guards_to_hold)
    guards.emplace_back(program.slot(guard.lhs), program.slot(guard.rhs));
  id_rules = runtime::find_id_rules(plan);
}

std::shared_ptr<const Engine> Engine::Impl::engine_of(plan::Plan plan,
                                                      const backend::Backend& backend) {
  engine::check_plan(plan);
  // Kernels rely on the alignment of blobs in a file.
  for (plan::Blob& blob : plan.blobs) blob.bytes = aligned(blob.bytes);
  auto file = std::make_shared<engine::EngineFile>();
  file->name = "engine in memory";
  file->plan = std::move(plan);
  return std::shared_ptr<const Engine>(
      new Engine(std::make_unique<Impl>(std::move(file), EngineOptions{.kernels = &backend})));
}

void Engine::Impl::check_not_forked() const {
  const std::lock_guard lock(uploading_);
  if (!uploaded_ || !uploaded_->of_parent()) return;
  throw Error(ErrorCode::kInput,
              "the engine's weights were put on device '" + plan.device +
                  "' before this process was forked, which CUDA does not allow; do not use CUDA "
                  "before the fork, or start the process anew (multiprocessing: 'spawn')");
}

const runtime::DeviceWeights& Engine::Impl::device_weights() const {
  check_not_forked();
  const std::lock_guard lock(uploading_);
  if (!uploaded_) uploaded_ = std::make_unique<runtime::DeviceWeights>(*backend, plan);
  return *uploaded_;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

std::shared_ptr<const Engine> Engine::open(const std::string& path) {
  return open(path, EngineOptions{});
}
std::shared_ptr<const Engine> Engine::open(const std::string& path, const KernelSet& kernels) {
  return open(path, EngineOptions{.kernels = &kernels});
}
std::shared_ptr<const Engine> Engine::open(const std::string& path, const EngineOptions& options) {
  EngineOptions begun = options;
  begun.limits = options.limits.begun();
  const FileAccess access = options.read_into_memory ? FileAccess::kRead : FileAccess::kMapped;
  auto file = engine::read_engine(path, access, Watch(begun.limits));
  return std::shared_ptr<const Engine>(new Engine(std::make_unique<Impl>(std::move(file), begun)));
}
std::shared_ptr<const Engine> Engine::from_bytes(std::vector<std::byte> bytes) {
  return std::shared_ptr<const Engine>(
      new Engine(std::make_unique<Impl>(engine::read_engine_bytes(std::move(bytes)))));
}
std::shared_ptr<const Engine> Engine::from_bytes(std::vector<std::byte> bytes,
                                                 const KernelSet& kernels) {
  return std::shared_ptr<const Engine>(new Engine(std::make_unique<Impl>(
      engine::read_engine_bytes(std::move(bytes)), EngineOptions{.kernels = &kernels})));
}
const std::vector<Port>& Engine::inputs() const { return impl_->inputs; }
const std::vector<Port>& Engine::outputs() const { return impl_->outputs; }
const std::string& Engine::device() const { return impl_->plan.device; }
const std::string& Engine::content_hash() const { return impl_->file->content_hash; }
const Certificate* Engine::certificate() const {
  const std::optional<Certificate>& certificate = impl_->file->records.certificate;
  return certificate ? &*certificate : nullptr;
}
const Canary* Engine::canary() const {
  const std::optional<Canary>& canary = impl_->file->records.canary;
  return canary ? &*canary : nullptr;
}
uint64_t Engine::weight_bytes() const {
  uint64_t total = 0;
  for (const plan::Blob& blob : impl_->plan.blobs) total += blob.bytes.bytes();
  return total;
}
void Engine::check_weights() const { engine::check_weights(*impl_->file); }
void Engine::check_unchanged() const {
  if (impl_->file->file) impl_->file->file->check_unchanged();
}

}  // namespace vernier
