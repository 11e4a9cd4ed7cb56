// Tensors from one float type to another, and in aligned memory.
#pragma once
#include "core/tensor.h"

namespace vernier {

/// The float tensor rounded once to another float type; the tensor itself if it has that type.
Tensor converted(const Tensor& t, DType type);

/// Do the bytes lie as Tensor::filled() puts them?
bool is_aligned(const Tensor& t);
/// The tensor, copied where they do not.
Tensor aligned(const Tensor& t);

}  // namespace vernier
