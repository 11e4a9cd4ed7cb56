// From requests to a typed graph: every value gets the type it is stored in, and a Cast stands
// wherever a value must exist in another type. Contract: docs/precision.md "The typed graph".
#pragma once
#include "ir/graph.h"

namespace vernier::precision {

/// Types a raised graph by its nodes' requests (join_requests has run):
///   results   are stored in their node's `store` type; nodes that only move values keep the type
///             of what they move (a table of constants takes the type asked of the result)
///   operands  of a product that is asked to compute in a type get a Cast where they are stored
///             wider; other nodes convert as they read (Graph::typed)
///   outputs   keep the model's types: a Cast where they are stored otherwise
/// Casts of the model between float types are requests that were heard by now: they become
/// Identity. Throws Error(kInput) where a request cannot be stored (tf32).
void type_graph(ir::Graph& graph);

/// The type that input `i` of `node` is stored in: its value's, or for constant operands of a
/// product and constant tables the type that is asked of them, and f32 for other constants in 16
/// bits (weights are converted when the plan is written, not before).
DType stored_type(const ir::Graph& graph, const ir::Node& node, size_t i);

}  // namespace vernier::precision
