// Weights that hold NaN or infinities: a model that was damaged or diverged in training is built
// all the same, but nobody should have to learn it from its outputs.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"

namespace vernier::compiler {

/// A line for each used constant of an imported graph that holds NaN or infinities: name, type,
/// counts, the first position. Infinities that are meant are not reported: a single number, and a
/// mask of 0 and -Inf. Reads all weights once.
std::vector<std::string> non_finite_weights(const ir::Graph& graph);

}  // namespace vernier::compiler
