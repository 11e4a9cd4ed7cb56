// The launch of cuda.quantize_rows.rows, for kernels that join such a step (KernelBody::joins).
#pragma once
#include "backend/kernel.h"

namespace vernier::backend::cuda {

void launch_quantize_rows(const LaunchCall& call);

}  // namespace vernier::backend::cuda
