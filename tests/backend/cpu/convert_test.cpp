// Bulk conversions between f32, f16 and bf16 against those of core/dtype.h: every 16-bit pattern,
// f32 patterns on and around every tie, odd lengths, guard elements; on every instruction set.
#include "backend/cpu/simd/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/cpu/targets.h"
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

struct Format {
  DType type;
  uint16_t (*narrow)(float);
  float (*widen)(uint16_t);
};
const std::vector<Format> kFormats{{DType::kF16, &f32_to_f16, &f16_to_f32},
                                   {DType::kBF16, &f32_to_bf16, &bf16_to_f32}};

std::vector<uint16_t> all_patterns() {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

// Each 16-bit value, the middle between it and the next, what lies beside both; then a sweep.
std::vector<float> hard_values(const Format& format) {
  std::vector<float> values;
  for (uint16_t bits : all_patterns()) {
    const auto here = std::bit_cast<uint32_t>(format.widen(bits));
    const auto next = std::bit_cast<uint32_t>(format.widen(static_cast<uint16_t>(bits + 1)));
    const uint32_t middle = here + (next - here) / 2;
    for (uint32_t at : {here, middle})
      for (uint32_t beside : {at - 1, at, at + 1}) values.push_back(std::bit_cast<float>(beside));
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 8191)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return values;
}

std::vector<float> widened(DType type, const std::vector<uint16_t>& bits) {
  std::vector<float> wide(bits.size());
  cpu::widen(type, reinterpret_cast<const std::byte*>(bits.data()), wide.data(),
             static_cast<int64_t>(bits.size()));
  return wide;
}
std::vector<uint16_t> narrowed(DType type, const std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  cpu::narrow(type, values.data(), reinterpret_cast<std::byte*>(bits.data()),
              static_cast<int64_t>(values.size()));
  return bits;
}

TEST(CpuConvert, WidensEveryPatternExactly) {
  for (const Format& format : kFormats) {
    for_each_target([&](const std::string& target) {
      const std::vector<float> wide = widened(format.type, all_patterns());
      for (size_t i = 0; i < wide.size(); ++i) {
        const float want = format.widen(static_cast<uint16_t>(i));
        const bool same = std::isnan(want)
                              ? std::isnan(wide[i]) && std::signbit(wide[i]) == std::signbit(want)
                              : std::bit_cast<uint32_t>(wide[i]) == std::bit_cast<uint32_t>(want);
        ASSERT_TRUE(same) << name(format.type) << " pattern " << i << " on " << target;
      }
    });
  }
}

TEST(CpuConvert, NarrowsToNearestEven) {
  for (const Format& format : kFormats) {
    const std::vector<float> values = hard_values(format);
    std::vector<uint16_t> want;
    for (float v : values) want.push_back(format.narrow(v));
    for_each_target([&](const std::string& target) {
      const std::vector<uint16_t> got = narrowed(format.type, values);
      for (size_t i = 0; i < values.size(); ++i) {
        const bool same =
            std::isnan(values[i]) ? std::isnan(format.widen(got[i])) : got[i] == want[i];
        ASSERT_TRUE(same) << name(format.type) << " of " << std::bit_cast<uint32_t>(values[i])
                          << " is " << got[i] << ", expected " << want[i] << " on " << target;
      }
    });
  }
}

TEST(CpuConvert, OddLengthsTouchTheirOwnElementsOnly) {
  constexpr size_t kBefore = 3, kRoom = 80;
  for (const Format& format : kFormats) {
    for_each_target([&](const std::string& target) {
      for (size_t n = 0; n <= 67; ++n) {
        std::vector<float> wide(kRoom, 7.0f), source(n);
        std::vector<uint16_t> bits(kRoom, 0xa5a5);
        for (size_t i = 0; i < n; ++i) source[i] = 0.1f * static_cast<float>(i) - 2;
        cpu::narrow(format.type, source.data(), reinterpret_cast<std::byte*>(&bits[kBefore]),
                    static_cast<int64_t>(n));
        cpu::widen(format.type, reinterpret_cast<const std::byte*>(&bits[kBefore]), &wide[kBefore],
                   static_cast<int64_t>(n));
        for (size_t i = 0; i < kRoom; ++i) {
          const bool inside = i >= kBefore && i < kBefore + n;
          const uint16_t want = inside ? format.narrow(source[i - kBefore]) : uint16_t{0xa5a5};
          ASSERT_EQ(bits[i], want) << "element " << i << " of " << n << " on " << target;
          ASSERT_EQ(wide[i], inside ? format.widen(want) : 7.0f) << i << " of " << n;
        }
      }
    });
  }
}

TEST(CpuConvert, ArraysWithGapsBecomeDenseAndBack) {
  Maker make(71);
  const Tensor x = make.normal({3, 5, 7});
  const auto device = cpu_backend().make_device({.threads = 2});
  ThreadTeam& threads = *device->execution().threads;
  for (const Format& format : kFormats) {
    std::vector<uint16_t> stored(3 * 5 * 7);
    cpu::narrow(format.type, reinterpret_cast<const float*>(x.data()),
                reinterpret_cast<std::byte*>(stored.data()), x.elems());
    // The same memory seen as [7, 3, 4]: the last axis has gaps, one row of 5 is left out.
    const TensorArg view{.data = reinterpret_cast<std::byte*>(stored.data()),
                         .dtype = format.type,
                         .rank = 3,
                         .shape = {7, 3, 4},
                         .strides = {1, 35, 7}};
    std::vector<float> dense(7 * 3 * 4);
    cpu::widen_array(view, dense.data(), threads);
    for (int64_t i = 0; i < 84; ++i) {
      const int64_t at = i / 12 + i / 4 % 3 * 35 + i % 4 * 7;
      ASSERT_EQ(dense[static_cast<size_t>(i)], format.widen(stored[static_cast<size_t>(at)])) << i;
    }
    const std::vector<uint16_t> before = stored;
    for (float& v : dense) v = -v;
    cpu::narrow_array(dense.data(), view, threads);
    for (size_t at = 0; at < stored.size(); ++at) {
      const bool seen = at / 7 % 5 < 4;
      ASSERT_EQ(stored[at], before[at] ^ (seen ? 0x8000 : 0)) << at;
    }
  }
}

}  // namespace
}  // namespace vernier::backend::test
