// Graphs as text, inferred, for the tests of analysis.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "ir/text.h"
#include "ops/infer.h"

namespace vernier::analysis::testing {

inline std::shared_ptr<ir::Graph> graph_of(std::string_view text) {
  auto graph = ir::parse(text, &ops::infer_node);
  ops::infer_graph(*graph);
  ir::check(*graph, "test");
  return graph;
}

/// The output of the first node of that operator.
inline ir::ValueId output(const ir::Graph& graph, std::string_view op) {
  for (ir::NodeId id : graph.order()) {
    if (name(graph.node(id).op) == op) return graph.node(id).outputs[0];
  }
  ADD_FAILURE() << "no " << op;
  return ir::kNoValue;
}

}  // namespace vernier::analysis::testing
