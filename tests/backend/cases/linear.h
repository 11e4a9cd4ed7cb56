// Makers of Linear cases, for tables and for tests of rows alone.
#pragma once
#include "backend/harness.h"

namespace vernier::backend::test {

struct LinearShape {
  int64_t m, k, n;
};

/// x, a constant weight, bias, residual; f32.
OpCase linear_case(Maker& make, const LinearShape& s, const LinearAttrs& attrs);
/// Rows [0, m) of the case, without a residual.
OpCase first_rows(const OpCase& c, int64_t m);

}  // namespace vernier::backend::test
