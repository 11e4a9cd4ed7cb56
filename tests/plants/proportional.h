// Kernels whose results are all slightly too large: what is the smallest proportional error that
// verify finds? Result: docs/verification_fitting.md "Proportional errors".
#pragma once

namespace vernier::test {

/// Verifies an engine in fp32 with each of several kernels wrong by a factor of 1 + d, over the
/// default sweep, with d from 1e-5 on down by halves, and with d = 0. Prints a line for each, with
/// the smallest d that was found. Returns how many were not found at 1e-5, or found at 0. Not
/// for 16-bit results: such a small factor, applied after rounding, rounds away.
int find_proportional_errors();

}  // namespace vernier::test
