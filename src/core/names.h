// Operators in the names of kernels. Nearest names for messages: vernier/nearest.h.
#pragma once
#include <string>
#include <string_view>

#include "vernier/nearest.h"

namespace vernier {

/// An operator as a part of a kernel's name: "RMSNorm" → "rms_norm", "GatherND" → "gather_nd",
/// "TopK" → "top_k", "ReduceL2" → "reduce_l2". A capital starts a word after a small letter, or
/// before one; the last of "IsNaN" → "is_nan" does not.
std::string snake_case(std::string_view name);

}  // namespace vernier
