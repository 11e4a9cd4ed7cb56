// Names for error messages: the ones nearest to what a user wrote.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

/// "; nearest: 'a', 'b', 'c'" — at most three of `known`, by edit distance; "" if there are none.
/// Of a pattern ("Softmax_*") the part before the star is compared with what the names begin with.
std::string nearest_names(std::string_view wanted, const std::vector<std::string>& known);

}  // namespace vernier
