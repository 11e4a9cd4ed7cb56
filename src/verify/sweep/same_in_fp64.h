// Are two arrays of FP64 evaluations the same, but for the order of sums?
#pragma once
#include "verify/metrics.h"
#include "verify/sweep/context.h"

namespace vernier::verify {

/// R of equal rows agrees up to the order of its sums.
inline bool same_in_fp64(const EvalTensor& a, const EvalTensor& b) {
  constexpr double kOrderOfSums = 1e-9;
  if (a.shape != b.shape || a.is_float() != b.is_float()) return false;
  const Distance d = distance(a, b, kNoAxis);
  return d.worst <= kOrderOfSums && d.wrong_non_finite == 0 && d.different_integers == 0;
}

}  // namespace vernier::verify
