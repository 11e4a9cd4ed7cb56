// Rounding points on arrays. Contract: core/rounding.h; each function is the loop over the elements
// that it says, in vectors.
#pragma once
#include <span>

#include "core/rounding.h"

namespace vernier::reference {

/// v = rounded(rounding, v)
void round_each(const PointRounding& rounding, std::span<double> values);
/// v = rounding(point, v), peaks included
void round_each(const Rounding& rounding, size_t point, std::span<double> values);
/// v = rounding.inner(v)
inline void round_inner_each(const Rounding& rounding, std::span<double> values) {
  round_each(rounding.inner(), values);
}

/// The sum of all values, in an order that their number alone decides.
double sum_of(std::span<const double> values);
/// The sum of their squares.
double square_sum_of(std::span<const double> values);
/// v = v / divisor
void divide_each(std::span<double> values, double divisor);
/// v = fill, and v += added, where keep is 0.
void replace_hidden(std::span<double> values, const int64_t* keep, double fill);
void add_to_hidden(std::span<double> values, const int64_t* keep, double added);
/// The largest; NaN does not count. -inf where there is none.
double largest_of(std::span<const double> values);

}  // namespace vernier::reference
