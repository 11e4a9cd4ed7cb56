// The range audit of a build: what would leave the range of its type on seeded inputs (ranges.h) is
// given f32 before anything is built. Contract: docs/verification.md "Range audit".
#pragma once
#include <string>
#include <vector>

#include "core/limits.h"
#include "ir/graph.h"
#include "plan/plan.h"
#include "verify/ranges.h"
#include "vernier/compile.h"

namespace vernier::verify {

/// What is held in less than f32, on seeded inputs inside the model's input domains: two rows at
/// lengths 4 and 48. Masks' constants do not count. `plan` must be of exact constants
/// (PlanOptions::Constants::kExact) and of `model`.
std::vector<RangeRow> audit_ranges(const plan::Plan& plan, const ir::Graph& model, uint64_t seed,
                                   const Watch& watch = {});

/// Audits what `options` would build of `model` and adds the promotions that keep every value in
/// range: stored, or for operands of a product computed, in f32. Returns what would have overflown.
/// A rule of the user's that insists (==) is left as it is. A model that is too large to evaluate
/// at the sizes that it fixes is not audited, and a note says so.
std::vector<RangeRow> promote_out_of_range(const ir::Graph& model, CompileOptions& options,
                                           std::vector<std::string>& notes);

/// Import, promote_out_of_range(), compile(): what `vernier build` does. The report's notes name
/// every promotion and the rule that would have asked for it.
CompileReport compile_audited(const std::string& model_path, const std::string& engine_path,
                              const CompileOptions& options);

}  // namespace vernier::verify
