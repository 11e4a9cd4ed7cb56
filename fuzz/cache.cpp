// Fuzz target: calibration caches of TensorRT. A cache has usable scales by tensor, or reading it
// is an Error(kInput). Contract: calibrate/cache.h.
#include "calibrate/cache.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto cache = vernier::calibration::read_cache(text, "fuzzed");
    if (cache.version.empty() || cache.algorithm.empty()) std::abort();
    for (const auto& [name, scale] : cache.scales) {
      if (name.empty() || std::signbit(scale) || !std::isfinite(scale * 127)) std::abort();
    }
  } catch (const vernier::Error& error) {
    if (error.code() != vernier::ErrorCode::kInput) std::abort();
  }
  return 0;
}
