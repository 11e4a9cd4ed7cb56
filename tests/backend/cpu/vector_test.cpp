// The vector functions that only kernels of 16- and 8-bit results use, on every instruction set:
// the bounds of their docstrings (simd/math-inl.h).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector_test.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/math-inl.h"
#include "backend/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

void ExpForBf16(const float* x, float* y, int64_t n) {
  const F32 d;
  for_each_vector(d, n, [&](int64_t i, int64_t lanes) {
    store_lanes(d, exp_for_bf16(d, load_lanes(d, x + i, lanes)), y + i, lanes);
  });
}
void GeluByTable(const float* x, float* y, int64_t n) {
  const F32 d;
  for_each_vector(d, n, [&](int64_t i, int64_t lanes) {
    store_lanes(d, gelu_erf_table_f32(d, load_lanes(d, x + i, lanes)), y + i, lanes);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
namespace {

HWY_EXPORT(ExpForBf16);
HWY_EXPORT(GeluByTable);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> between(float low, float high) {
  constexpr int kSteps = 200'000;
  std::vector<float> x;
  for (int i = 0; i <= kSteps; ++i)
    x.push_back(low + (high - low) * static_cast<float>(i) / kSteps);
  return x;
}

TEST(CpuVectors, ExponentialsForBf16) {
  std::vector<float> x = between(-95, 0);
  x.insert(x.end(), {-87.3365F, -kInfinity, -3e38F, NAN});
  std::vector<float> y(x.size());
  test::for_each_target([&](const std::string& target) {
    HWY_DYNAMIC_DISPATCH(ExpForBf16)(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i + 1 < x.size(); ++i) {
      const long double exact = x[i] < -87.3365F ? 0 : expl(x[i]);
      ASSERT_LE(fabsl(y[i] - exact), 3 * 0x1p-23L * exact) << x[i] << " on " << target;
      ASSERT_FALSE(std::signbit(y[i]));
    }
    EXPECT_TRUE(std::isnan(y.back())) << target;
    EXPECT_EQ(y[200'000], 1.0F) << target;
  });
}

TEST(CpuVectors, GeluByTable) {
  std::vector<float> x = between(-9, 9);
  x.insert(x.end(), {1e30F, -1e30F, kInfinity, -kInfinity, NAN});
  std::vector<float> y(x.size());
  test::for_each_target([&](const std::string& target) {
    HWY_DYNAMIC_DISPATCH(GeluByTable)(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i + 3 < x.size(); ++i) {
      const long double exact = 0.5L * x[i] * erfcl(-x[i] / sqrtl(2.0L));
      ASSERT_LE(fabsl(y[i] - exact), 2.7e-7L * fmaxl(fabsl(x[i]), 1)) << x[i] << " on " << target;
    }
    EXPECT_EQ(y[y.size() - 3], kInfinity) << target;
    EXPECT_TRUE(std::isnan(y[y.size() - 2])) << target;
    EXPECT_TRUE(std::isnan(y.back())) << target;
  });
}

}  // namespace
}  // namespace vernier::backend::cpu
#endif
