// Fuzz target: .npz archives and .npy arrays from memory. All bytes give arrays with correct sizes
// or Error(kInput). Contract: io/npz.h.
#include "io/npz.h"

#include <cstdlib>

#include "vernier/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kLargest = 1 << 16;
  if (size > kLargest) return 0;
  try {
    for (const auto& row :
         vernier::io::read_arrays_bytes(std::as_bytes(std::span(data, size)), "x.npz")) {
      const auto& tensor = row.second;
      if (tensor.bytes() > 0 && tensor.data() == nullptr) std::abort();
    }
  } catch (const vernier::Error& error) {
    if (error.code() != vernier::ErrorCode::kInput) std::abort();
  }
  return 0;
}
