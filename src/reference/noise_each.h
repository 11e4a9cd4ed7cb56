// Seeded noise on arrays of doubles, in vectors.
#pragma once
#include <cstdint>

namespace vernier::reference {

/// y[i] = x[i]·(1 + size·u) with u uniform in ±√3, whose deviation is 1, drawn with `seed`. The
/// same seed gives the same bits on every machine. y may be x; else they do not overlap.
void noise_each(const double* x, double* y, int64_t count, double size, uint64_t seed);

/// y[i] = x[i] + size·part[i]·n, n of mean 0 and deviation 1 and nearly normal: the sum of four
/// uniform draws, at most 2√3. Seeds are as above. No two of the arrays overlap.
void normal_noise_each(const double* x, const double* part, double size, double* y, int64_t count,
                       uint64_t seed);

}  // namespace vernier::reference
