// Observing changes nothing (design "Principles"): values that a user asks for beside the model's
// outputs (`--outputs`) are added to a graph that is fused already, so that no step changes.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"

namespace vernier::compiler {

/// Makes the ONNX values `names` outputs of `fused` under their own names. A value that a step
/// makes is copied; one inside a fused step is computed again, in f32, by nodes of its own from
/// what the steps do make. `raised`: the graph before fusion, raised with these values as outputs
/// too, so that it has them. Outputs have the types of `raised`.
void add_side_outputs(ir::Graph& fused, const ir::Graph& raised,
                      const std::vector<std::string>& names);

}  // namespace vernier::compiler
