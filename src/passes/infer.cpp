// Types and shapes of all values: ops::infer_graph over the imported graph.
#include "ops/infer.h"

#include "passes/passes.h"

namespace vernier::passes {

int infer(ir::Graph& graph) {
  ops::infer_graph(graph);
  return static_cast<int>(graph.order().size());
}

}  // namespace vernier::passes
