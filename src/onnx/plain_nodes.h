// Operators that standard ONNX has, too: how their attributes are written. Internal to src/onnx.
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/graph_nodes.h"

namespace vernier::onnx {

/// Writes a node of one ONNX operator (or a few, for what sizes need); false: it is none. `inputs`
/// and `outputs` as names, "" where absent.
bool write_plain_node(const ir::Graph& graph, const ir::Node& node,
                      const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs, GraphNodes& nodes);

}  // namespace vernier::onnx
