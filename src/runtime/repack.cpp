// Kernels and packed weights on this machine: see repack.h.
#include "runtime/repack.h"

#include <algorithm>

#include "runtime/plugins.h"
#include "runtime/proof.h"

namespace vernier::runtime {
namespace {

// The plain array of one packed input. Its layout repeats its type and shape: both must be those
// that the step was proven with.
Tensor unpack(const plan::Blob& blob, int32_t input, const backend::KernelDef& kernel,
              const backend::Problem& problem) {
  VERNIER_ASSERT(kernel.unpack && kernel.packed_layouts, "a kernel that packs must unpack");
  const std::vector<backend::PackedLayout> layouts = kernel.packed_layouts(problem);
  if (std::ranges::find(layouts, input, &backend::PackedLayout::input) == layouts.end())
    throw Error(ErrorCode::kInput, "input " + std::to_string(input) + " is never packed");
  Tensor plain = kernel.unpack(problem, {input, blob.layout, blob.bytes.byte_span()});
  if (plain.dtype() != blob.dtype || plain.shape() != blob.shape)
    throw Error(ErrorCode::kInput, "unpacks to " + str(plain.shape()));
  return plain;
}

// The plain arrays of a step's packed inputs.
std::vector<Tensor> unpack(const plan::Plan& plan, const plan::Step& step,
                           const backend::KernelDef& kernel, const backend::Problem& problem) {
  std::vector<Tensor> plain;
  for (const plan::PackedInput& packed : step.packed) {
    const plan::Blob& blob = plan.blob(packed.blob);
    try {
      plain.push_back(unpack(blob, packed.input, kernel, problem));
    } catch (const Error&) {
      throw Error(ErrorCode::kInput,
                  "the engine's step '" + step.name + "' (input " + std::to_string(packed.input) +
                      ", " + std::string(name(blob.dtype)) + str(blob.shape) +
                      ") holds a weight packed as '" + blob.layout + "', which kernel " +
                      step.kernel + " does not know here; build the engine again");
    }
  }
  return plain;
}

// The step's own kernel if it runs here, else the first that does and is as precise.
const backend::KernelDef& kernel_here(const backend::Backend& backend, const plan::Plan& plan,
                                      const plan::Step& step, const backend::KernelDef& own,
                                      const backend::Problem& problem) {
  const Support reason = backend::supports(own, problem);
  if (reason) return own;
  const auto at_least = [](DType t) { return TypeRequest{t, false}; };
  const Request as_before{at_least(step.numerics.compute), at_least(step.numerics.accumulate),
                          at_least(step.numerics.store), "build"};
  for (const backend::KernelDef& row : backend.kernels) {
    if (row.op != step.op || !backend::supports(row, problem)) continue;
    const Numerics numerics = row.numerics(problem);
    if (satisfies(numerics, as_before) && satisfies(numerics, step.asked)) return row;
  }
  throw Error(ErrorCode::kInput, "the engine was built for another machine (" + plan.target +
                                     ") and step '" + step.name +
                                     "' cannot run here: " + step.kernel + " " + reason.reason +
                                     "; build it again on this machine");
}

// Are the step's packed weights what this kernel packs here?
bool is_packed_here(const plan::Plan& plan, const plan::Step& step,
                    const backend::KernelDef& kernel, const backend::Problem& problem) {
  if (step.packed.empty()) return true;
  if (!kernel.packed_layouts) return false;
  const std::vector<backend::PackedLayout> expected = kernel.packed_layouts(problem);
  return std::ranges::all_of(step.packed, [&](const plan::PackedInput& packed) {
    const plan::Blob& blob = plan.blob(packed.blob);
    return std::ranges::any_of(expected, [&](const backend::PackedLayout& e) {
      return e.input == packed.input && e.layout == blob.layout && e.bytes == blob.bytes.bytes();
    });
  });
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
  backend::Problem problem = problem_of(plan, step);
  const backend::KernelDef* kernel = own;
  std::vector<Tensor> plain;
  std::optional<Repacked> repacked;
  if (!backend::supports(*own, problem) || !is_packed_here(plan, step, *own, problem)) {
    plain = unpack(plan, step, *own, problem);
    for (size_t i = 0; i < step.packed.size(); ++i) {
      backend::Operand& in = problem.inputs[step.packed[i].at()];
      in.constant = &plain[i];
      in.packed = false;
    }
    kernel = &kernel_here(backend, plan, step, *own, problem);
    if (!step.packed.empty()) repacked = repack(*kernel, step, problem, plain);
  }
  prove_kernel(plan, step, *kernel, problem);
  return {kernel, std::move(repacked)};
}

}  // namespace vernier::runtime
