// Kernels and packed weights on this machine: see repack.h.
#include "runtime/repack.h"

#include <algorithm>

#include "runtime/plugins.h"

namespace vernier::runtime {
namespace {

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

Repacked repack(const backend::KernelDef& kernel, const plan::Step& step,
                const backend::Problem& problem, const std::vector<Tensor>& plain) {
  Repacked result;
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

uint64_t bytes_of(const Repacked& repacked) {
  uint64_t bytes = 0;
  for (const backend::PackedConstant& packed : repacked.packed) bytes += packed.bytes.size();
  for (const auto& [input, tensor] : repacked.plain) bytes += tensor.bytes();
  return bytes;
}

Placed place_step(const backend::Backend& backend, const plan::Plan& plan, const plan::Step& step) {
  const backend::KernelDef* own = backend::find_kernel(backend, step.kernel);
  if (const std::string plugin = plugin_of(step.kernel); !own && !plugin.empty()) {
    throw Error(ErrorCode::kInput, "the engine's step '" + step.name + "' uses kernel '" +
                                       step.kernel + "' of the plugin " +
                                       plugin_text(plan, plugin) +
                                       ", which is not loaded; add --plugin with its library, or "
                                       "build the engine again without it");
  }
  if (!own || own->op != step.op) {
    throw Error(ErrorCode::kInput,
                "the engine's step '" + step.name + "' uses kernel '" + step.kernel +
                    "', which this version of Vernier does not have; build the engine again");
  }
  const bool fits = std::ranges::all_of(step.packed, [&](const plan::PackedInput& packed) {
    const std::string& layout = plan.blobs[static_cast<size_t>(packed.blob)].layout;
    return own->layout_is_current && own->layout_is_current(layout);
  });
  if (fits) return {own, std::nullopt};
  backend::Problem problem = problem_of(plan, step);
  const std::vector<Tensor> plain = unpack(plan, step, *own, problem);
  for (size_t i = 0; i < step.packed.size(); ++i)
    problem.inputs[static_cast<size_t>(step.packed[i].input)].constant = &plain[i];
  const backend::KernelDef& kernel = kernel_here(backend, plan, step, problem);
  return {&kernel, repack(kernel, step, problem, plain)};
}

}  // namespace vernier::runtime
