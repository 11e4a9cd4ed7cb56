// The CPU as a Device: aligned host memory and a team of threads. Contract: backend/kernel.h.
#pragma once
#include "backend/kernel.h"

namespace vernier::backend::cpu {

std::unique_ptr<Device> make_device(const DeviceOptions& options);
/// "x86_64 avx3 amx oneDNN 2.6.3": the instruction set that Highway selected, "amx" where tiles
/// multiply (simd/tiles.h), and the matmul library.
std::string target();
/// The C library, whose functions the FP64 evaluators call.
std::vector<NamedVersion> environment();

}  // namespace vernier::backend::cpu
