// Where the constants of a model lead: how large values get because of them, known without data,
// and f32 for what a smaller type cannot hold. Contract: docs/precision.md "Constants that do not
// fit".
#pragma once
#include <string>
#include <vector>

#include "ir/graph.h"

namespace vernier::precision {

/// What a value is known to reach: the finite constants of the graph taken through arithmetic, with
/// everything that is computed from data as a number in [0, 1], like a mask.
struct Reach {
  double least = 0, most = 1;
  double peak() const;
};
/// By ValueId. True infinities among the constants are left out: they are infinite in every type.
std::vector<Reach> constant_reach(const ir::Graph& graph);

/// Asks for f32 wherever constants reach what the type that is asked for cannot hold (with
/// kRangeMargin): results are stored, and products take their operands, in f32. Binds like the
/// range audit, over the mode and over floors of rules; a rule that insists (==) is left as it is.
/// The requests must be there (ask_mode, apply_rules). Returns a note for each node that it raised.
std::vector<std::string> keep_constants_finite(ir::Graph& raised);

}  // namespace vernier::precision
