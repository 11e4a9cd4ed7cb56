// The CUDA backend: kernels.def plus a Device on one GPU. Contract: backend/kernel.h.
#pragma once
#include "backend/kernel.h"

namespace vernier::backend {

/// Kernels and device of an NVIDIA GPU. Usable only where cuda_available() is yes.
const Backend& cuda_backend();
/// Yes, or why no kernel can run here ("no CUDA device: driver not found").
Support cuda_available();

}  // namespace vernier::backend
