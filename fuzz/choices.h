// Choices: a string of bytes read as decisions. The inputs of the fuzz targets run, request and
// verify are choices: they select a seed and its changes, so they are valid in every version of the
// formats. Contract: fuzz/README.md.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"

namespace vernier::fuzz {

using Bytes = std::vector<std::byte>;

class Choices {
 public:
  /// Past the end every decision is 0.
  explicit Choices(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint64_t bits(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && !bytes_.empty(); ++i) {
      value |= static_cast<uint64_t>(bytes_.front()) << (8 * i);
      bytes_ = bytes_.subspan(1);
    }
    return value;
  }
  /// A number below `count`, which is above 0.
  size_t below(size_t count) { return static_cast<size_t>(bits(count <= 256 ? 1 : 3)) % count; }
  bool one_in(size_t count) { return below(count) == 0; }
  template <class List>
  auto& of(List& list) {
    return list.begin()[static_cast<std::ptrdiff_t>(below(static_cast<size_t>(list.size())))];
  }
  /// The next `size` bytes, or the remaining ones, as separate choices.
  Choices part(size_t size) {
    const auto first = bytes_.first(std::min(size, bytes_.size()));
    bytes_ = bytes_.subspan(first.size());
    return Choices(first);
  }

 private:
  std::span<const std::byte> bytes_;
};

/// `size` bytes of a generator.
inline Bytes random_bytes(SplitMix& random, size_t size) {
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next() >> 32);
  return bytes;
}

/// A number near `old`, or one at a limit of arithmetic.
inline int64_t changed_integer(int64_t old, Choices& choices) {
  constexpr std::array<int64_t, 18> kNumbers{
      0,         1,         -1,        2,         3,         7,
      64,        255,       256,       1 << 16,   1LL << 31, -(1LL << 31),
      1LL << 32, 1LL << 40, 1LL << 62, INT64_MAX, INT64_MIN, 4096};
  const auto wrapped = static_cast<uint64_t>(old);
  switch (choices.below(8)) {
    case 0:
      return static_cast<int64_t>(wrapped + 1);
    case 1:
      return static_cast<int64_t>(wrapped - 1);
    case 2:
      return static_cast<int64_t>(0 - wrapped);
    case 3:
      return static_cast<int64_t>(wrapped * 2);
    case 4:
      return static_cast<int64_t>(choices.below(10));
    default:
      return kNumbers[choices.below(kNumbers.size())];
  }
}
inline double changed_float(double old, Choices& choices) {
  constexpr double kInfinity = __builtin_huge_val();
  constexpr std::array<double, 14> kNumbers{0,         -0.0,      1,     -1,
                                            0.5,       1e-5,      1e-30, 5e-324,
                                            65504,     65520,     1e30,  -3.4028234663852886e38,
                                            kInfinity, -kInfinity};
  switch (choices.below(8)) {
    case 0:
      return old * 2;
    case 1:
      return old + 1;
    case 2:
      return -old;
    case 3:
      return __builtin_nan("");
    default:
      return kNumbers[choices.below(kNumbers.size())];
  }
}

}  // namespace vernier::fuzz
