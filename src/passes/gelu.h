// The matcher of GELU, shared by its pass and the raise report.
#pragma once
#include "passes/match.h"

namespace vernier::passes {

struct GeluMatch {
  ValueId x = kNoValue;
  GeluKind kind = GeluKind::kErf;
};

/// Matches from the last multiplication.
std::optional<GeluMatch> match_gelu(const Graph& graph, NodeId anchor, Trace* trace = nullptr);

}  // namespace vernier::passes
