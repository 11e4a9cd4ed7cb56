// Kernels by chip: see usable.h.
#include "backend/cuda/usable.h"

#include "backend/cuda/cuda.h"
#include "backend/cuda/encode_tiled.h"
#include "backend/cuda/target.h"

namespace vernier::backend::cuda {
namespace {

constexpr std::string_view kCompiledFor = VERNIER_CUDA_ARCH;

// A GPU that there is must have a driver that describes arrays to its copy engine.
bool has_copy_engine() { return !cuda_available() || encode_tiled() != nullptr; }

}  // namespace

bool hopper_kernels_usable() { return kCompiledFor == "90a" && has_copy_engine(); }
bool copy_engine_usable() {
  return std::stoi(std::string(digits_of(kCompiledFor))) >= 90 && has_copy_engine();
}

}  // namespace vernier::backend::cuda
