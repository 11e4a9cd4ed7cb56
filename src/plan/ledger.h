// The ledger: one row per ONNX node — what was asked of it, what it got, and why (design
// "Precision").
#pragma once
#include <map>

#include "ir/graph.h"
#include "plan/plan.h"

namespace vernier::plan {

/// Where a node of the fused graph went.
struct Place {
  LedgerState state = LedgerState::kStep;
  int32_t step = kNone;
  std::string why;
};

/// Fills plan.ledger: rows for the origins of every live node (by `places`) and of every retired
/// node, in file order.
void write_ledger(const ir::Graph& graph, const std::map<ir::NodeId, Place>& places, Plan& plan);

}  // namespace vernier::plan
