// Rewrites of a model that are wrong somewhere: an engine is built of the result and verified
// against the model as it was.
#pragma once
#include "ir/graph.h"

namespace vernier::test {

/// The attention mask becomes 1 for as many first positions as it has ones: wrong where it has a
/// hole.
void take_mask_for_a_prefix(ir::Graph& model);

}  // namespace vernier::test
