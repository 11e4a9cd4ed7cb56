// The CPU backend: the kernels of kernels.def on a thread pool. Contract: backend/kernel.h;
// how to add a kernel: docs/adding_a_kernel.md.
#pragma once
#include "backend/kernel.h"

namespace vernier::backend {

/// The CPU's kernel list, in the order tried for each operator; the last row of every operator is
/// its FP64 evaluator. make_device: 64-byte aligned host memory and a team of options.threads.
const Backend& cpu_backend();

}  // namespace vernier::backend
