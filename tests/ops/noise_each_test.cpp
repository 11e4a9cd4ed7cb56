// Seeded noise on arrays: its size, that elements are independent, and that a seed says it all.
#include "reference/noise_each.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vernier::reference {
namespace {

std::vector<double> noise(int64_t count, uint64_t seed) {
  constexpr double kSize = 0x1p-24;
  const std::vector<double> x(static_cast<size_t>(count), 2.0);
  std::vector<double> y(x.size());
  noise_each(x.data(), y.data(), count, kSize, seed);
  for (double& v : y) v = (v / 2 - 1) / kSize;
  return y;
}

TEST(NoiseEach, HasMeanZeroAndDeviationOne) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<double> y = noise(100'000, seed);
    double sum = 0, squares = 0, neighbors = 0, next_word = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      sum += y[i];
      squares += y[i] * y[i];
      EXPECT_LE(std::abs(y[i]), std::sqrt(3.0) + 1e-6);
      if (i + 1 < y.size()) neighbors += y[i] * y[i + 1];
      if (i + 32 < y.size()) next_word += y[i] * y[i + 32];
    }
    const auto n = static_cast<double>(y.size());
    const double deviations = 5 / std::sqrt(n);  // of the mean of so many
    EXPECT_NEAR(sum / n, 0, deviations) << seed;
    EXPECT_NEAR(squares / n, 1, deviations) << seed;
    EXPECT_NEAR(neighbors / n, 0, deviations) << seed;
    EXPECT_NEAR(next_word / n, 0, deviations) << seed;
  }
}

TEST(NoiseEach, IsThatOfItsSeedAtEveryLength) {
  const std::vector<double> all = noise(100, 7);
  for (int64_t count : {0, 1, 31, 32, 33, 99}) {
    const std::vector<double> some = noise(count, 7);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << count;
  }
  EXPECT_NE(noise(100, 8), all);
}

TEST(NoiseEach, MayOverwriteItsOperand) {
  std::vector<double> x(50, 3.0), y(50);
  noise_each(x.data(), y.data(), 50, 0.5, 1);
  noise_each(x.data(), x.data(), 50, 0.5, 1);
  EXPECT_EQ(x, y);
}

TEST(NormalNoiseEach, HasTheDeviationAndTheTailsOfANormalDraw) {
  constexpr int64_t kCount = 200'000;
  const std::vector<double> x(kCount, 5.0), part(kCount, 4.0);
  std::vector<double> y(kCount);
  normal_noise_each(x.data(), part.data(), 0.5, y.data(), kCount, 3);
  double sum = 0, squares = 0, fourths = 0, largest = 0;
  for (const double v : y) {
    const double n = (v - 5) / 2;
    sum += n;
    squares += n * n;
    fourths += n * n * n * n;
    largest = std::max(largest, std::abs(n));
  }
  EXPECT_NEAR(sum / kCount, 0, 0.012);
  EXPECT_NEAR(squares / kCount, 1, 0.015);
  EXPECT_NEAR(fourths / kCount, 3 - 0.3, 0.06) << "that of four uniform draws; 3 of a normal one";
  EXPECT_LE(largest, 2 * std::sqrt(3.0));
  EXPECT_GT(largest, 3);
}

TEST(NormalNoiseEach, IsThatOfItsSeedAtEveryLength) {
  const std::vector<double> x(100, 1.0), part(100, 1.0);
  std::vector<double> all(100);
  normal_noise_each(x.data(), part.data(), 1, all.data(), 100, 7);
  for (const int64_t count : {0, 1, 7, 8, 9, 99}) {
    std::vector<double> some(static_cast<size_t>(count) + 1, -77.0);
    normal_noise_each(x.data(), part.data(), 1, some.data(), count, 7);
    EXPECT_TRUE(std::equal(some.begin(), some.end() - 1, all.begin())) << count;
    EXPECT_EQ(some.back(), -77) << "nothing behind it is written";
  }
}

}  // namespace
}  // namespace vernier::reference
