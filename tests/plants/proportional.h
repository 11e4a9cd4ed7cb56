// Kernels whose results are all a little too large: how small may a proportional error be that
// verify finds? Result: docs/verification_fitting.md "Proportional errors".
#pragma once

namespace vernier::test {

/// Verifies engines in fp32, fp16 and bf16 with each of several kernels wrong by a factor of 1 + d,
/// over the default sweep, with d from 1e-5, 2e-4 and 2e-3 on down by halves. Prints a line for
/// each, with the smallest d that was found. Returns how many were not found at the first.
int find_proportional_errors();

}  // namespace vernier::test
