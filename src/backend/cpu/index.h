// Reading and checking index operands. Contract here.
#pragma once
#include <string_view>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// Element `at` of a dense integer array.
int64_t read_index(const TensorArg& indices, int64_t at);

/// Element `at` of `axes` as an axis of `x`, counted from the front. Throws Error(kInput) naming
/// `what` and the axis where x has none such.
int read_axis(const TensorArg& axes, int64_t at, const TensorArg& x, std::string_view what);

/// Throws Error(kInput) naming `what`, the index, its position and the range [-size, size) if an
/// element is outside it. Call before starting threads.
void check_indices(const TensorArg& indices, int64_t size, std::string_view what);

}  // namespace vernier::backend::cpu
