// SplitMix: a small generator whose sequence is fixed by its definition, for values that must be
// the same in every run: seeded weights, constants of tests.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

namespace vernier {

class SplitMix {
 public:
  /// Starts `position` numbers into the sequence of `seed`; every normal() takes two.
  explicit SplitMix(uint64_t seed, uint64_t position = 0) : state_(seed + position * kStep) {}

  uint64_t next() {
    uint64_t z = (state_ += kStep);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  /// Standard normal (Box-Muller): the same on every machine up to its libm's log and cos.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  uint64_t state_;
};

}  // namespace vernier
