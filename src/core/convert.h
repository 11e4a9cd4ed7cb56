// Tensors from one float type to another.
#pragma once
#include "core/tensor.h"

namespace vernier {

/// The float tensor rounded once to another float type; itself where it is of that type.
Tensor converted(const Tensor& t, DType type);

}  // namespace vernier
