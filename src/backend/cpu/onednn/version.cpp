// Version and instruction set of oneDNN: see version.h.
#include "backend/cpu/onednn/version.h"

#include <oneapi/dnnl/dnnl.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace vernier::backend::cpu {
namespace {

bool has_tiles() {
#if defined(__x86_64__)
  constexpr unsigned kTilesBf16 = 1u << 22;  // leaf 7, EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTilesBf16) != 0;
#else
  return false;
#endif
}

}  // namespace

void onednn::leave_out_tiles() {
  // Has no effect if the library was used before in this process; then is_brg() refuses tiles.
  if (has_tiles()) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}

std::string onednn::version() {
  leave_out_tiles();
  const dnnl_version_t* version = dnnl_version();
  // The instruction set is oneDNN's own number (dnnl_cpu_isa_t): packed layouts may depend on it.
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch) + " isa " +
         std::to_string(static_cast<int>(dnnl_get_effective_cpu_isa()));
}

}  // namespace vernier::backend::cpu
