// Names: the nearest names for messages; operators in the names of kernels.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

/// "; nearest: 'a', 'b', 'c'" — at most three of `known`, by edit distance; "" if there are none.
/// The part of a pattern ("Softmax_*") before the star is compared with the beginnings of names.
std::string nearest_names(std::string_view wanted, const std::vector<std::string>& known);

/// An operator as a part of a kernel's name: "RMSNorm" → "rms_norm", "GatherND" → "gather_nd",
/// "TopK" → "top_k", "ReduceL2" → "reduce_l2". A capital starts a word after a small letter, or
/// before one; the last of "IsNaN" → "is_nan" does not.
std::string snake_case(std::string_view name);

}  // namespace vernier
