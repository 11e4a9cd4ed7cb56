// Rows that are copied as they are, in the largest units that they divide into. C++17.
#pragma once
#include "backend/cuda/device/elements.cuh"

namespace vernier::backend::cuda {

/// The largest unit of at most 16 bytes that rows of `row_bytes` at these addresses divide into.
inline int unit_bytes(int64_t row_bytes, int width, const std::byte* a, const std::byte* b) {
  const auto bits = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                    static_cast<uintptr_t>(row_bytes) | 16u;
  int unit = width;
  while (unit < 16 && bits % static_cast<uintptr_t>(unit * 2) == 0) unit *= 2;
  return unit;
}

/// f(a unit of so many bytes)
template <class F>
void with_unit(int bytes, const F& f) {
  if (bytes == 16) return f(uint4{});
  with_width(bytes, f);
}

}  // namespace vernier::backend::cuda
