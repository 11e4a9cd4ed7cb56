// From requests to a typed graph: every value gets its storage type, and a Cast is inserted where a
// value is needed in another type. Contract: docs/precision.md "The typed graph".
#pragma once
#include "ir/graph.h"

namespace vernier::precision {

/// Types a raised graph by its nodes' requests (join_requests has run):
///   results   are stored in their node's `store` type; nodes that only move values keep the type
///             of these values (a table of constants takes the type requested for the result)
///   operands  of a product with a requested compute type get a Cast if they are stored in a wider
///             type; other nodes convert as they read (Graph::typed)
///   outputs   keep the model's types: a Cast if they are stored in another type
/// Casts of the model between float types have become requests, so they are replaced by Identity.
/// Throws Error(kInput) if a requested type has no storage (tf32).
void type_graph(ir::Graph& graph);

/// The storage type of input `i` of `node`: its value's type, or for constant operands of a product
/// and constant tables the requested type, and f32 for other 16-bit constants (weights are
/// converted when the plan is written, not before).
DType stored_type(const ir::Graph& graph, const ir::Node& node, size_t i);

}  // namespace vernier::precision
