// Lookup in a backend's kernel list: see kernel.h.
#include "backend/kernel.h"

namespace vernier::backend {

const KernelDef* find_kernel(const Backend& backend, std::string_view name) {
  for (const KernelDef& kernel : backend.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

}  // namespace vernier::backend
