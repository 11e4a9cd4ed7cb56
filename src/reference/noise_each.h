// Seeded noise on arrays of doubles, in vectors.
#pragma once
#include <cstdint>

namespace vernier::reference {

/// y[i] = x[i]·(1 + size·u) with u uniform in ±√3, whose deviation is 1, drawn with `seed`. The
/// same seed gives the same bits on every machine. y may be x; else they do not overlap.
void noise_each(const double* x, double* y, int64_t count, double size, uint64_t seed);

}  // namespace vernier::reference
