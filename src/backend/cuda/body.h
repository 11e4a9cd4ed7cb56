// What the kernels of the CUDA backend need besides backend/body.h: the stream of a launch.
// X.cu holds device code and a launcher in plain types (X.h, C++17), X.cpp supports, numerics and
// the KernelBody.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/body.h"

namespace vernier::backend::cuda {

/// The stream everything of a launch goes to.
inline cudaStream_t stream_of(const Execution& execution) {
  return static_cast<cudaStream_t>(execution.stream);
}
/// The device array of operand `i`, or null where it is absent.
inline std::byte* data_or_null(std::span<const TensorArg> operands, size_t i) {
  return i < operands.size() ? operands[i].data : nullptr;
}

}  // namespace vernier::backend::cuda
