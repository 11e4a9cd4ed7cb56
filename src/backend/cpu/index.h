// Reading and checking operands that hold indices or axes.
#pragma once
#include <string_view>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// Element `at` of a dense integer array.
inline int64_t read_index(const TensorArg& indices, int64_t at) {
  return indices.dtype == DType::kI64 ? indices.as<const int64_t>()[at]
         : indices.dtype == DType::kI32
             ? indices.as<const int32_t>()[at]
             : load_integer(indices.dtype,
                            indices.data + at * static_cast<int64_t>(size_bytes(indices.dtype)));
}

/// Element `at` of `axes` as an axis of `x`, counted from the front. Throws Error(kInput) naming
/// `what` and the axis if x does not have it.
int read_axis(const TensorArg& axes, int64_t at, const TensorArg& x, std::string_view what);

/// Throws Error(kInput) naming `what`, the index, its position and the range [-size, size) if an
/// element is outside it. Call before starting threads.
void check_indices(const TensorArg& indices, int64_t size, std::string_view what);

}  // namespace vernier::backend::cpu
