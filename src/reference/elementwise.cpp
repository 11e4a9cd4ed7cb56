// Rows of two broadcast arrays: see elementwise.h.
#include "reference/elementwise.h"

namespace vernier::reference {

PairRows pair_rows(const Shape& a, const Shape& b, const Shape& out) {
  const std::array strides{broadcast_strides(a, out), broadcast_strides(b, out)};
  // From the last axis outwards: an axis joins the one behind it where both arrays go on over it.
  Shape sizes;
  std::array<Shape, 2> steps;
  for (size_t axis = out.size(); axis-- > 0;) {
    if (out[axis] == 1) continue;
    const bool joins = !sizes.empty() && strides[0][axis] == steps[0].back() * sizes.back() &&
                       strides[1][axis] == steps[1].back() * sizes.back();
    if (joins) {
      sizes.back() *= out[axis];
      continue;
    }
    sizes.push_back(out[axis]);
    for (size_t n = 0; n < steps.size(); ++n) steps[n].push_back(strides[n][axis]);
  }
  PairRows rows;
  if (num_elems(out) == 0) rows.cols = 0;
  if (sizes.empty()) return rows;
  rows.cols = sizes.front();
  rows.steps = {steps[0].front(), steps[1].front()};
  rows.outer.assign(sizes.rbegin(), sizes.rend() - 1);
  for (size_t n = 0; n < steps.size(); ++n)
    rows.strides[n].assign(steps[n].rbegin(), steps[n].rend() - 1);
  rows.count = num_elems(rows.outer);
  return rows;
}

std::array<int64_t, 2> PairRows::starts(int64_t row) const {
  std::array<int64_t, 2> at{};
  for (size_t axis = outer.size(); axis-- > 0;) {
    const int64_t place = row % outer[axis];
    row /= outer[axis];
    for (size_t n = 0; n < at.size(); ++n) at[n] += place * strides[n][axis];
  }
  return at;
}

}  // namespace vernier::reference
