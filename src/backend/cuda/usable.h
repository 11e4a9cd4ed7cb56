// Which kernels of chips from Hopper on a plan may hold. C++17: kernels' host code asks, too.
#pragma once

namespace vernier::backend::cuda {

/// Are those of sm_90a in this program, and is the GPU one? Without a GPU that the program has code
/// for, plans are made for the chip that it was compiled for.
bool hopper_kernels_usable();
/// The same of kernels that need no more than sm_90's copy engine.
bool copy_engine_usable();

}  // namespace vernier::backend::cuda
