// Einsum equations: parsed once for shape inference and evaluation alike.
// Labels are letters; the axes of an ellipsis become labels −1 (last), −2, … so that they line up
// at the right and may broadcast.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vernier {

struct EinsumEquation {
  std::vector<std::vector<int>> inputs;  ///< a label per axis of each input
  std::vector<int> output;               ///< a label per axis of the output
};

/// `ranks`: of the inputs. Without "->" the output is the ellipsis' axes, then every label that
/// occurs once, in alphabetical order. Throws Error(kInput) quoting the equation on bad text, a
/// wrong number of terms, a term that does not fit its input's rank, or an unknown output label.
EinsumEquation parse_einsum(std::string_view equation, std::span<const size_t> ranks);

}  // namespace vernier
