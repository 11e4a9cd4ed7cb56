// Fuzz target: import of a model from memory. All bytes give a graph or Error(kInput). Contract:
// onnx/import.h.
#include <cstdlib>

#include "onnx/import.h"
#include "vernier/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kLargest = 1 << 16;
  if (size > kLargest) return 0;
  try {
    vernier::onnx::import_model_bytes(std::as_bytes(std::span(data, size)), "");
  } catch (const vernier::Error& error) {
    if (error.code() != vernier::ErrorCode::kInput) std::abort();
  }
  return 0;
}
