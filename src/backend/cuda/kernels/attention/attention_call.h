// The step cuda.attention.flash_sm90, for kernels that join it (KernelBody::joins).
#pragma once
#include "backend/cuda/body.h"
#include "backend/cuda/kernels/attention/attention.h"

namespace vernier::backend::cuda {

/// What an Attention's call asks of a kernel, but for what quantizes its result.
AttentionLaunch attention_launch(const LaunchCall& call);
/// The launch of the row.
void launch_attention_sm90_step(const LaunchCall& call);

}  // namespace vernier::backend::cuda
