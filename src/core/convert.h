// Tensors from one float type to another.
#pragma once
#include "core/tensor.h"

namespace vernier {

/// The float tensor rounded once to another float type; the tensor itself if it has that type.
Tensor converted(const Tensor& t, DType type);

}  // namespace vernier
