// Fuzz target: .npz archives, .npy arrays and Polygraphy's JSON from memory. All bytes give arrays
// with correct sizes or Error(kInput). Contract: io/npz.h, io/polygraphy.h.
#include "io/npz.h"

#include <cstdlib>

#include "io/polygraphy.h"
#include "vernier/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kLargest = 1 << 16;
  if (size > kLargest) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  const bool json = size > 0 && (data[0] == '{' || data[0] == '[');
  try {
    const vernier::io::ArraySets sets =
        json ? vernier::io::read_polygraphy_bytes(bytes, "x.json")
             : vernier::io::ArraySets{vernier::io::read_arrays_bytes(bytes, "x.npz")};
    for (const auto& arrays : sets) {
      for (const auto& row : arrays) {
        const auto& tensor = row.second;
        if (tensor.bytes() > 0 && tensor.data() == nullptr) std::abort();
      }
    }
  } catch (const vernier::Error& error) {
    if (error.code() != vernier::ErrorCode::kInput) std::abort();
  }
  return 0;
}
