// The planner: a fused graph to a Plan for one backend. Chooses kernels (first row that can and
// that satisfies the requests), turns pure layout into aliases, packs constants, finds lifetimes,
// and writes the ledger. The same graph and options give the same Plan.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel.h"
#include "ir/graph.h"
#include "plan/kept_constants.h"
#include "plan/plan.h"
#include "plan/table_bounds.h"

namespace vernier::plan {

struct PlanOptions {
  std::string shapes;                      ///< as in profile.h
  std::vector<TableBound> table_bounds{};  ///< of the raised graph, for the default sizes
  /// Rounded: constants are stored in the types that are asked of them, packed for their kernels.
  /// As the model has them: unrounded and plain, for the FP64 evaluation of the plan (F); such a
  /// plan is never run.
  enum class Constants : uint8_t { kStored, kExact } constants = Constants::kStored;
  /// Called with the name of each node as it is planned (progress).
  std::function<void(std::string_view node)> progress{};
  /// Constants of earlier plans are found here, and those of this plan are added. Null: all are
  /// made anew; the plan is the same.
  KeptConstants* kept = nullptr;
};

/// Does a kernel of the backend's own (no FP64 evaluator) honor what is asked of `node`, whose
/// inputs and outputs are values of `graph`?
bool has_kernel(const ir::Graph& graph, const ir::Node& node, const backend::Backend& backend);

/// Throws Error(kInput) naming the node, what is asked of it and the nearest kernel's reason when
/// no kernel can honor a request, or an input size that no symbol can be read from.
Plan make_plan(const ir::Graph& graph, const backend::Backend& backend, const PlanOptions& options);
/// As above, of a graph that nobody needs any more: each constant is released once the plan
/// holds it as the engine will, so that a build holds one set of weights, not two.
Plan make_plan(ir::Graph&& graph, const backend::Backend& backend, const PlanOptions& options);

}  // namespace vernier::plan
