// The range audit: the largest magnitude of every value, and of what happens inside operators at
// their rounding points, against the largest number of the type that it is given (design
// "Verify"). Contract: docs/verification.md "Range audit".
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"
#include "vernier/compile.h"

namespace vernier::verify {

/// One rounding point of one step (or one constant that it multiplies).
struct AuditRow {
  int32_t step = -1;
  std::string name, op;            ///< the ONNX node that names the step, and the operator
  std::string point;               ///< "out", "q", "scores" …; "weight" for a constant operand
  double peak = 0;                 ///< largest |value| before it is rounded there, FP64
  DType type = DType::kUndefined;  ///< that it takes there
  double limit = 0;                ///< the largest finite number of `type`
  /// The value, or twice it (other inputs may be larger), does not fit.
  bool overflows() const;
};

/// Factor between a peak that was seen and what must still fit.
inline constexpr double kRangeMargin = 2;

/// What is held in less than f32, on seeded inputs inside the model's input domains: two rows at
/// lengths 4 and 48. Masks' constants do not count. `plan` must be of exact constants
/// (PlanOptions::Constants::kExact) and of `model`.
std::vector<AuditRow> audit_ranges(const plan::Plan& plan, const ir::Graph& model, uint64_t seed);

/// Audits what `options` would build of `model` and adds the promotions that keep every value in
/// range: stored, or for operands of a product computed, in f32. Returns what would have overflown.
/// A rule of the user's that insists (==) is left as it is.
std::vector<AuditRow> promote_out_of_range(const ir::Graph& model, CompileOptions& options);

/// Import, promote_out_of_range(), compile(): what `vernier build` does. The report's notes name
/// every promotion and the rule that would have asked for it.
CompileReport compile_audited(const std::string& model_path, const std::string& engine_path,
                              const CompileOptions& options);

}  // namespace vernier::verify
