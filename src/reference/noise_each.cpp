// Noise: see noise_each.h. Eight generators beside each other (xorshift: Marsaglia, Xorshift RNGs,
// J. Stat. Softw. 8(14), 2003), begun by splitmix64; each word gives four draws of 16 bits.
#include "reference/noise_each.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/noise_each.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vernier::reference {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U64 = hn::CappedTag<uint64_t, 8>;
using F64 = hn::Rebind<double, U64>;
constexpr int64_t kGenerators = 8, kDraws = 4;  // of a word

constexpr double kMiddle = 32767.5;  // of a draw's numbers 0 to 65535

// The next words of some generators.
HWY_INLINE hn::Vec<U64> next_words(uint64_t* states) {
  const U64 bits;
  auto word = hn::LoadU(bits, states);
  word = hn::Xor(word, hn::ShiftLeft<13>(word));
  word = hn::Xor(word, hn::ShiftRight<7>(word));
  word = hn::Xor(word, hn::ShiftLeft<17>(word));
  hn::StoreU(word, bits, states);
  return word;
}

// Draw `k` of each word, a whole number.
template <int k>
HWY_INLINE hn::Vec<F64> draw_of(hn::Vec<U64> word) {
  const U64 bits;
  const F64 d;
  constexpr int kBits = 16;
  constexpr double kWhole = 0x1p52;  // below whose bits those of a draw stand
  const auto draw = hn::And(hn::ShiftRight<k * kBits>(word), hn::Set(bits, 0xffff));
  const auto whole = hn::BitCast(d, hn::Or(draw, hn::BitCast(bits, hn::Set(d, kWhole))));
  return hn::Sub(whole, hn::Set(d, kWhole));
}

// The same as a factor beside 1.
template <int k>
HWY_INLINE hn::Vec<F64> factor_of(hn::Vec<U64> word, double unit) {
  const F64 d;
  const auto value = hn::Sub(draw_of<k>(word), hn::Set(d, kMiddle));
  return hn::Add(hn::Set(d, 1.0), hn::Mul(value, hn::Set(d, unit)));
}

// The next kGenerators · kDraws elements.
HWY_INLINE void add_noise(const double* x, double* y, double unit, uint64_t* states) {
  const F64 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t g = 0; g < kGenerators; g += lanes) {
    const auto word = next_words(states + g);
    const auto add = [&](int64_t k, hn::Vec<F64> factor) HWY_ATTR {
      const int64_t at = k * kGenerators + g;
      hn::StoreU(hn::Mul(hn::LoadU(d, x + at), factor), d, y + at);
    };
    add(0, factor_of<0>(word, unit));
    add(1, factor_of<1>(word, unit));
    add(2, factor_of<2>(word, unit));
    add(3, factor_of<3>(word, unit));
  }
}

void NoiseEach(const double* x, double* y, int64_t count, double unit, uint64_t* states) {
  constexpr int64_t kAtOnce = kGenerators * kDraws;
  int64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) add_noise(x + i, y + i, unit, states);
  if (i == count) return;
  std::array<double, kAtOnce> rest{};
  std::copy_n(x + i, count - i, rest.begin());
  add_noise(rest.data(), rest.data(), unit, states);
  std::copy_n(rest.begin(), count - i, y + i);
}

// The next kGenerators elements.
HWY_INLINE void add_normal_noise(const double* x, const double* part, double* y, double unit,
                                 uint64_t* states) {
  const F64 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t g = 0; g < kGenerators; g += lanes) {
    const auto word = next_words(states + g);
    const auto sum = hn::Add(hn::Add(draw_of<0>(word), draw_of<1>(word)),
                             hn::Add(draw_of<2>(word), draw_of<3>(word)));
    const auto normal = hn::Mul(hn::Sub(sum, hn::Set(d, kDraws * kMiddle)), hn::Set(d, unit));
    hn::StoreU(hn::Add(hn::LoadU(d, x + g), hn::Mul(hn::LoadU(d, part + g), normal)), d, y + g);
  }
}

void NormalNoiseEach(const double* x, const double* part, double* y, int64_t count, double unit,
                     uint64_t* states) {
  int64_t i = 0;
  for (; i + kGenerators <= count; i += kGenerators)
    add_normal_noise(x + i, part + i, y + i, unit, states);
  if (i == count) return;
  std::array<double, kGenerators> rest{}, parts{};
  std::copy_n(x + i, count - i, rest.begin());
  std::copy_n(part + i, count - i, parts.begin());
  add_normal_noise(rest.data(), parts.data(), rest.data(), unit, states);
  std::copy_n(rest.begin(), count - i, y + i);
}
}  // namespace HWY_NAMESPACE
}  // namespace vernier::reference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::reference {
HWY_EXPORT(NoiseEach);
HWY_EXPORT(NormalNoiseEach);
namespace {

constexpr double kRoot3 = 1.7320508075688772, kLargest = 32767.5;  // of a draw of deviation 1

std::array<uint64_t, 8> generators(uint64_t seed) {
  std::array<uint64_t, 8> states;
  for (uint64_t& state : states) {
    seed += 0x9e3779b97f4a7c15u;
    uint64_t word = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    state = (word ^ word >> 31) | 1;  // never 0
  }
  return states;
}

}  // namespace

void noise_each(const double* x, double* y, int64_t count, double size, uint64_t seed) {
  HWY_DYNAMIC_DISPATCH(NoiseEach)(x, y, count, size * kRoot3 / kLargest, generators(seed).data());
}

void normal_noise_each(const double* x, const double* part, double size, double* y, int64_t count,
                       uint64_t seed) {
  HWY_DYNAMIC_DISPATCH(NormalNoiseEach)
  (x, part, y, count, size * kRoot3 / kLargest / 2, generators(seed).data());
}

}  // namespace vernier::reference
#endif
