// Version and instruction set of oneDNN: see version.h.
#include "backend/cpu/onednn/version.h"

#include <oneapi/dnnl/dnnl.h>

namespace vernier::backend::cpu {

std::string onednn::version() {
  const dnnl_version_t* version = dnnl_version();
  // The instruction set is oneDNN's own number (dnnl_cpu_isa_t): packed layouts may depend on it.
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + " isa " +
         std::to_string(static_cast<int>(dnnl_get_effective_cpu_isa()));
}

}  // namespace vernier::backend::cpu
