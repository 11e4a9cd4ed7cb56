// Lookup in a backend's kernel list: see kernel.h.
#include "backend/kernel.h"

namespace vernier::backend {

const KernelDef* find_kernel(const Backend& backend, std::string_view name) {
  for (const KernelDef& kernel : backend.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

Support supports(const KernelDef& kernel, const Problem& problem) {
  if ((flags(problem.op) & kMoves) == 0 && !is_evaluator(kernel.name)) {
    for (const auto* operands : {&problem.inputs, &problem.outputs}) {
      for (const Operand& operand : *operands) {
        if (operand.present && is_only_evaluated(operand.dtype))
          return no("does not compute with " + std::string(vernier::name(operand.dtype)));
      }
    }
  }
  return kernel.supports(problem);
}

}  // namespace vernier::backend
