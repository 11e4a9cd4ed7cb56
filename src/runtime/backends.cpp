// The list of backends: see backends.h.
#include "runtime/backends.h"

#include <vector>

#include "backend/cpu/cpu.h"
#ifdef VERNIER_HAS_CUDA
#include "backend/cuda/cuda.h"
#endif

namespace vernier::runtime {

const backend::Backend& backend_named(const std::string& device, const std::string& what) {
  const std::vector<const backend::Backend*> known{
      &backend::cpu_backend(),
#ifdef VERNIER_HAS_CUDA
      &backend::cuda_backend(),
#endif
  };
  std::string names;
  for (const backend::Backend* backend : known) {
    if (backend->name == device) return *backend;
    names += (names.empty() ? "" : ", ") + std::string(backend->name);
  }
  throw Error(ErrorCode::kInput,
              what + ": got '" + device + "', but this program has only " + names +
                  (device == "cuda" ? "; configure with -DVERNIER_CUDA=ON for NVIDIA GPUs" : ""));
}

}  // namespace vernier::runtime

namespace vernier {

std::string why_unavailable(const std::string& device) {
  try {
    const KernelSet& backend = runtime::backend_named(device, "the device");
    const Support support = backend.available ? backend.available() : yes();
    return support ? "" : support.reason;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace vernier
