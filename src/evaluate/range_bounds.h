// Bounds of what a plan's values can reach, from norms of its weights: where they fit, the range
// audit has nothing to find. Contract: docs/verification_checks.md "Range audit".
#pragma once
#include <vector>

#include "evaluate/domain.h"
#include "evaluate/ranges.h"
#include "plan/plan.h"

namespace vernier::evaluate {

/// What `plan` holds in less than f32, with a bound in place of each peak, for all inputs inside
/// `domains`, which are the model's; finite values only. A row of K numbers behind a norm has at
/// most length √K, and |x·w| is at most the product of the lengths. Without a bound: the largest
/// number of f64; of operands in 8 and 4 bits, which have scales, none. `plan` must be of exact
/// constants; where one of a product does not fit, there are no rows. Reads each weight twice.
std::vector<RangeRow> range_bounds(const plan::Plan& plan, const Domains& domains);
/// Do these and its constants fit? Then audit_ranges() finds nothing. False: not known.
bool fits_by_bounds(const plan::Plan& plan, const Domains& domains);

}  // namespace vernier::evaluate
