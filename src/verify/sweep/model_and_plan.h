// R and F of every row of a group: the model and the engine's plan, both in FP64. Contract:
// docs/verification.md "Limits".
#pragma once
#include <vector>

#include "verify/evidence.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

/// Rows of a group in FP64.
struct RowsInFp64 {
  std::vector<ComparedValue> compared;        ///< R and F at every value that both name
  std::vector<NamedValues> reference, exact;  ///< outputs of R and F by row; none where rows mix
  int64_t ties = 0;                           ///< that F decides otherwise: compared on R's path
};
/// The model and the plan on these rows of a group, as one batch.
RowsInFp64 evaluate_rows(const Context& context, const Group& group,
                         const std::vector<int64_t>& rows);
/// All rows of a group that are not those of before, in batches of as many as memory should hold.
std::vector<std::vector<int64_t>> batches_in_fp64(const Context& context, const Group& group);

/// What an evaluation of a plan has where the model has outputs, by name.
NamedValues answers_of(const Context& context, const plan::Plan& plan,
                       const PlanEvaluator& evaluated);

}  // namespace vernier::verify
