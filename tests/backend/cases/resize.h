// Makers of Resize cases, for tables and for tests of what a kernel refuses.
#pragma once
#include "backend/harness.h"

namespace vernier::backend::test {

/// Either scales, or sizes (the whole output shape).
struct Resampling {
  ResizeAttrs attrs = {};
  Shape x = {}, y = {};
  std::vector<double> scales = {};
};

OpCase resize_case(Maker& make, const Resampling& r, DType type = DType::kF32);

}  // namespace vernier::backend::test
