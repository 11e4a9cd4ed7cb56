// The range audit of a build: what would leave the range of its type is given f32 before anything
// is built. Contract: docs/verification_checks.md "Range audit".
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compile/pipeline.h"
#include "evaluate/range_audit.h"

namespace vernier::compiler {

struct RangeAudit {
  std::vector<evaluate::RangeRow> overflows;
  /// Every promotion and the rule that would have asked for it, or why there was no audit.
  std::vector<std::string> notes;
  /// What it made of the model on its way, with the job as it is now: empty where it made none.
  std::optional<evaluate::Domains> domains;
  std::optional<plan::Plan> exact;  ///< of exact constants
  std::optional<Fused> fused;       ///< where no product is quantized
};

/// Audits what `job` would build of `model` (evaluate/range_audit.h), unless bounds show that all
/// of it fits (evaluate/range_bounds.h), and adds the promotions that keep every value in range to
/// its options: stored, or for operands of a product computed, in f32. A rule of the user's that
/// insists (==) is left as it is. A model that is too large to evaluate at the sizes that it fixes
/// is not audited.
RangeAudit promote_out_of_range(const ir::Graph& model, Job& job);

}  // namespace vernier::compiler
