// Opening an engine: kernels by name, sizes compiled, packed weights checked against this machine.
// See include/vernier/engine.h.
#include "vernier/engine.h"

#include <algorithm>

#include "backend/cpu/cpu.h"
#include "core/log.h"
#include "runtime/engine_impl.h"

namespace vernier {
namespace {

const backend::Backend& backend_named(const std::string& device) {
  if (device == backend::cpu_backend().name) return backend::cpu_backend();
  throw Error(ErrorCode::kInput,
              "the engine was built for device '" + device +
                  "', which this program does not have; build it with --device cpu");
}

std::vector<std::string> symbol_names(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Symbol& symbol : plan.symbols) names.push_back(symbol.name);
  return names;
}

Port port_of(const plan::Plan& plan, const std::string& name, int32_t index) {
  const plan::PlanValue& value = plan.values[static_cast<size_t>(index)];
  Port port{name, value.dtype, {}};
  for (const Dim& d : value.shape) {
    PortDim dim{d.str(), 0, 0};
    std::map<std::string, int64_t> least, most;
    for (const plan::Symbol& symbol : plan.symbols) {
      least[symbol.name] = symbol.min;
      most[symbol.name] = symbol.max;
    }
    dim.min = d.evaluate(least);
    dim.max = d.evaluate(most);
    port.dims.push_back(std::move(dim));
  }
  return port;
}

// The operands of a step as a Problem, to unpack and pack its constants again.
backend::Problem problem_of(const plan::Plan& plan, const plan::Step& step) {
  backend::Problem problem;
  problem.op = step.op;
  problem.attrs = step.attrs;
  const auto operand = [&](int32_t index) -> backend::Operand {
    if (index == plan::kNone) return {};
    const plan::PlanValue& v = plan.values[static_cast<size_t>(index)];
    return {true, v.dtype, v.shape, nullptr};
  };
  for (int32_t in : step.inputs) problem.inputs.push_back(operand(in));
  for (int32_t out : step.outputs) problem.outputs.push_back(operand(out));
  for (const plan::PackedInput& packed : step.packed) {
    const plan::Blob& blob = plan.blobs[static_cast<size_t>(packed.blob)];
    problem.inputs[static_cast<size_t>(packed.input)] = {
        true, blob.dtype, SymShape(blob.shape.begin(), blob.shape.end()), nullptr};
  }
  return problem;
}

// The plain arrays of a step's packed inputs.
std::vector<Tensor> unpack(const plan::Plan& plan, const plan::Step& step,
                           const backend::KernelDef& kernel, const backend::Problem& problem) {
  std::vector<Tensor> plain;
  for (const plan::PackedInput& packed : step.packed) {
    const plan::Blob& blob = plan.blobs[static_cast<size_t>(packed.blob)];
    try {
      VERNIER_ASSERT(kernel.unpack, "a kernel that packs must unpack");
      plain.push_back(kernel.unpack(problem, {packed.input, blob.layout, blob.bytes.byte_span()}));
    } catch (const Error&) {
      throw Error(ErrorCode::kInput, "the engine's step '" + step.name +
                                         "' holds a weight packed as '" + blob.layout +
                                         "', which kernel " + step.kernel +
                                         " does not know here; build the engine again");
    }
  }
  return plain;
}

// The step's own kernel if it runs here, else the first that does and is as precise.
const backend::KernelDef& kernel_here(const backend::Backend& backend, const plan::Plan& plan,
                                      const plan::Step& step, const backend::Problem& problem) {
  const auto at_least = [](DType t) { return TypeRequest{t, false}; };
  const Numerics& was = step.numerics;
  const Request asked{at_least(was.compute), at_least(was.accumulate), at_least(was.store),
                      "build"};
  const backend::KernelDef* own = backend::find_kernel(backend, step.kernel);
  Support reason = own->supports(problem);
  if (reason) return *own;
  for (const backend::KernelDef& row : backend.kernels) {
    if (row.op == step.op && row.supports(problem) && satisfies(row.numerics(problem), asked))
      return row;
  }
  throw Error(ErrorCode::kInput, "the engine was built for another machine (" + plan.target +
                                     ") and step '" + step.name +
                                     "' cannot run here: " + step.kernel + " " + reason.reason +
                                     "; build it again on this machine");
}

Engine::Impl::Repacked repack(const backend::KernelDef& kernel, const plan::Step& step,
                              const backend::Problem& problem, const std::vector<Tensor>& plain) {
  Engine::Impl::Repacked result;
  if (kernel.pack) result.packed = kernel.pack(problem);
  for (size_t i = 0; i < step.packed.size(); ++i) {
    const int32_t input = step.packed[i].input;
    const bool is_packed = std::any_of(result.packed.begin(), result.packed.end(),
                                       [&](const auto& p) { return p.input == input; });
    if (!is_packed) result.plain.emplace_back(input, plain[i]);
  }
  return result;
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
                   const backend::Backend* own_backend)
    : file(std::move(engine_file)),
      plan(file->plan),
      backend(own_backend ? own_backend : &backend_named(plan.device)),
      program(symbol_names(plan)) {
  bool moved = false;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    const backend::KernelDef* kernel = backend::find_kernel(*backend, step.kernel);
    if (!kernel || kernel->op != step.op) {
      throw Error(ErrorCode::kInput,
                  "the engine's step '" + step.name + "' uses kernel '" + step.kernel +
                      "', which this version of Vernier does not have; build the engine again");
    }
    kernels.push_back(kernel);
    for (const plan::PackedInput& packed : step.packed) {
      const std::string& layout = plan.blobs[static_cast<size_t>(packed.blob)].layout;
      if (kernel->layout_is_current && kernel->layout_is_current(layout)) continue;
      backend::Problem problem = problem_of(plan, step);
      const std::vector<Tensor> plain = unpack(plan, step, *kernel, problem);
      for (size_t i = 0; i < step.packed.size(); ++i)
        problem.inputs[static_cast<size_t>(step.packed[i].input)].constant = &plain[i];
      kernels.back() = &kernel_here(*backend, plan, step, problem);
      repacked[static_cast<int32_t>(s)] = repack(*kernels.back(), step, problem, plain);
      moved = true;
      break;
    }
  }
  if (moved) {
    log::warn("the engine's weights were packed for '" + plan.target +
              "' and are packed again for '" + backend->target() +
              "'; build the engine on this machine to open it faster");
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
  for (const plan::Guard& guard : plan.guards)
    guards.emplace_back(program.slot(guard.lhs), program.slot(guard.rhs));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

std::shared_ptr<const Engine> Engine::open(const std::string& path) {
  return std::shared_ptr<const Engine>(
      new Engine(std::make_unique<Impl>(engine::read_engine(path))));
}
std::shared_ptr<const Engine> Engine::open(const std::string& path,
                                           const backend::Backend& backend) {
  return std::shared_ptr<const Engine>(
      new Engine(std::make_unique<Impl>(engine::read_engine(path), &backend)));
}
std::shared_ptr<const Engine> Engine::from_bytes(std::vector<std::byte> bytes) {
  return std::shared_ptr<const Engine>(
      new Engine(std::make_unique<Impl>(engine::read_engine_bytes(std::move(bytes)))));
}
const std::vector<Port>& Engine::inputs() const { return impl_->inputs; }
const std::vector<Port>& Engine::outputs() const { return impl_->outputs; }
const std::string& Engine::device() const { return impl_->plan.device; }
const std::string& Engine::content_hash() const { return impl_->file->content_hash; }
const Certificate* Engine::certificate() const {
  const std::optional<Certificate>& certificate = impl_->file->certificate;
  return certificate ? &*certificate : nullptr;
}
uint64_t Engine::weight_bytes() const {
  uint64_t total = 0;
  for (const plan::Blob& blob : impl_->plan.blobs) total += blob.bytes.bytes();
  return total;
}
void Engine::check_weights() const { engine::check_weights(*impl_->file); }

}  // namespace vernier
