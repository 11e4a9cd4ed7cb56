// Operators that compute their rows alone: which axes count rows, and which operands have them.
#pragma once
#include "analysis/facts.h"

namespace vernier::analysis {

/// The number of leading axes of the result of `node` along which every row is computed from the
/// same row of its operands. 0: not known of this operator.
int64_t row_axes(const Graph& graph, const Node& node);
/// Does input `i` of such a node have rows? Not a weight, a scale, a bias.
bool holds_rows(const Node& node, size_t i);

}  // namespace vernier::analysis
