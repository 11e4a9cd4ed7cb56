// Division on the device by numbers that the host knows.
#pragma once
#include <cstdint>

namespace vernier::backend::cuda {

/// n / d without a division: exact for n < 2^31 (Granlund and Montgomery, PLDI 1994); the 64-bit
/// form just divides. Made on the host; 0 counts as 1, for arrays that are empty.
template <class Index>
struct Divider;
template <>
struct Divider<uint32_t> {
  uint32_t divisor, multiplier, shift;
  explicit Divider(int64_t d = 1) : divisor(static_cast<uint32_t>(d > 0 ? d : 1)), shift(0) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    const uint64_t excess = (uint64_t{1} << shift) - divisor;
    multiplier = static_cast<uint32_t>((excess << 32) / divisor + 1);
  }
  __device__ uint32_t operator()(uint32_t n) const {
    return (__umulhi(n, multiplier) + n) >> shift;
  }
};
template <>
struct Divider<uint64_t> {
  uint64_t divisor;
  explicit Divider(int64_t d = 1) : divisor(static_cast<uint64_t>(d > 0 ? d : 1)) {}
  __device__ uint64_t operator()(uint64_t n) const { return n / divisor; }
};

}  // namespace vernier::backend::cuda
