// Arena layout: one block of memory for all activations of a run, overlapping where lifetimes do
// not. Deterministic: the same intervals give the same offsets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vernier::runtime {

struct Interval {
  size_t bytes = 0;
  int32_t first = 0, last = 0;  ///< steps, both included
  size_t offset = 0;            ///< out
};

/// Sets every offset (multiples of `alignment`) so that intervals alive at the same step do not
/// overlap: largest first, each at the lowest place that fits. Returns the bytes needed. Throws
/// Error(kInput) where that is more than kMostBytes.
size_t place(std::vector<Interval>& intervals, size_t alignment);

/// The next multiple of `alignment`, a + b, a * b. Throw Error(kInput) beyond kMostBytes.
inline constexpr size_t kMostBytes = size_t{1} << 62;
size_t round_up(size_t bytes, size_t alignment);
size_t sum_of_bytes(size_t a, size_t b);
size_t product_of_bytes(size_t a, size_t b);

}  // namespace vernier::runtime
