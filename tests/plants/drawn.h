// Plants whose threshold is drawn from the sizes of an engine: what the sizes that verify chooses
// by itself are worth. Result: docs/verification_fitting.md "Drawn thresholds".
#pragma once

namespace vernier::test {

/// Verifies an engine with each of `count` norms that are wrong from a drawn size on, over the
/// default sweep of a seed of its own, and prints a line for each and how many were found. Returns
/// how many were not.
int find_drawn_plants(int count);

}  // namespace vernier::test
