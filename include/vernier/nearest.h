// Names that are close to one that does not exist, for messages.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

/// "; did you mean 'a', 'b' or 'c'?": at most three of `known` that resemble `wanted`, the closest
/// first; "" if none does. Abbreviations resemble ("LayerNorm_0", "LayerNormalization_0"), and
/// upper and lower case count as nearly equal. Of a pattern ("Softmax_*") the part before the star
/// is compared with what the names begin with.
std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& known);
/// The same; if none resembles it, "; nearest: 'a', 'b', 'c'", for where the names are not listed.
std::string nearest_names(std::string_view wanted, const std::vector<std::string>& known);

}  // namespace vernier
