// Raising as the pipeline does it, for tests of attention.
#pragma once
#include "passes/canonicalise.h"
#include "passes/passes.h"

namespace vernier::passes::testing {

/// The transposes that raising leaves cancel against the exporter's.
inline int raise_and_clean(ir::Graph& graph) {
  canonicalise(graph);
  const int found = raise_attention(graph);
  graph.remove_dead();
  graph.sort();
  return found + canonicalise(graph);
}

}  // namespace vernier::passes::testing
