// Functions on arrays of doubles beside those of <cmath>, which define them; rounding points and
// sums on arrays beside their loops.
#include "reference/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "reference/activations.h"
#include "reference/round_each.h"

namespace vernier::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Function {
  const char* name;
  ArrayFn on_arrays;
  double (*definition)(double);
};
double exp_of(double x) { return std::exp(x); }
double tanh_of(double x) { return std::tanh(x); }
double erf_of(double x) { return std::erf(x); }

class VectorMath : public ::testing::TestWithParam<Function> {};
INSTANTIATE_TEST_SUITE_P(All, VectorMath,
                         ::testing::Values(Function{"exp", &exp_each, &exp_of},
                                           Function{"tanh", &tanh_each, &tanh_of},
                                           Function{"erf", &erf_each, &erf_of},
                                           Function{"sigmoid", &sigmoid_each, &sigmoid},
                                           Function{"gelu_erf", &gelu_erf_each, &gelu_erf},
                                           Function{"gelu_tanh", &gelu_tanh_each, &gelu_tanh}),
                         [](const auto& one) { return one.param.name; });

std::vector<double> arguments() {
  std::vector<double> x;
  for (int i = -8000; i <= 8000; ++i) x.push_back(i / 100.0);  // beyond every tail
  for (int e = -300; e <= 300; e += 3) x.insert(x.end(), {std::ldexp(1, e), -std::ldexp(1, e)});
  for (const double edge : {0.625, 1.0, 0.5, 5.9, 26.5, 27.3, 37.5, 708.4, 709.78, 745.1})
    for (const double sign : {-1.0, 1.0})
      for (const double near : {1 - 1e-15, 1.0, 1 + 1e-15}) x.push_back(sign * edge * near);
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0, 3);
  for (int i = 0; i < 20000; ++i) x.push_back(normal(random));
  return x;
}

TEST_P(VectorMath, IsWithinEightUnitsOfItsDefinition) {
  const std::vector<double> x = arguments();
  std::vector<double> y(x.size());
  GetParam().on_arrays(x.data(), y.data(), std::ssize(x));
  constexpr double kUnits = 8 * 0x1p-53 * 2;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = GetParam().definition(x[i]);
    if (!std::isfinite(want)) {
      EXPECT_EQ(y[i], want) << GetParam().name << "(" << x[i] << ")";
      continue;
    }
    // A factor below the normal numbers is exact to a unit only, which |x| ≤ 64 multiplies.
    const double limit =
        std::max(std::abs(want) * kUnits, 64 * std::numeric_limits<double>::denorm_min());
    ASSERT_NEAR(y[i], want, limit) << GetParam().name << "(" << x[i] << ")";
  }
}

TEST_P(VectorMath, NanAndInfinitiesAreThoseOfTheDefinition) {
  const std::vector<double> x{std::nan(""), kInfinity, -kInfinity, 0.0, -0.0, 1e308, -1e308};
  std::vector<double> y(x.size());
  GetParam().on_arrays(x.data(), y.data(), std::ssize(x));
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = GetParam().definition(x[i]);
    EXPECT_EQ(std::isnan(y[i]), std::isnan(want)) << GetParam().name << "(" << x[i] << ")";
    if (std::isnan(want)) continue;
    EXPECT_EQ(y[i], want) << GetParam().name << "(" << x[i] << ")";
  }
}

TEST_P(VectorMath, BitsDependOnTheElementAlone) {
  std::vector<double> x = arguments();
  x.resize(101);
  std::vector<double> whole(x.size()), in_place = x;
  GetParam().on_arrays(x.data(), whole.data(), std::ssize(x));
  GetParam().on_arrays(in_place.data(), in_place.data(), std::ssize(x));
  EXPECT_EQ(whole, in_place);
  for (size_t i = 0; i < x.size(); ++i) {
    double one = 0;
    GetParam().on_arrays(&x[i], &one, 1);
    ASSERT_EQ(one, whole[i]) << i;
  }
}

TEST(RoundEach, IsTheLoopOverTheElements) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-150, 130);
  std::vector<double> values{0.0, -0.0, kInfinity, -kInfinity, std::nan(""), 65519.9, 65520, -449};
  for (int i = 0; i < 1000; ++i)
    values.push_back((i % 2 == 0 ? 1 : -1) * std::exp2(exponent(random)));
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kTF32, DType::kF8E4M3,
                           DType::kQ8, DType::kF64, DType::kUndefined}) {
    for (const auto mode : {PointRounding::Mode::kNearest, PointRounding::Mode::kTruncate}) {
      const PointRounding point{.type = type, .mode = mode};
      std::vector<double> each = values;
      round_each(point, each);
      for (size_t i = 0; i < values.size(); ++i) {
        const double want = rounded(point, values[i]);
        ASSERT_TRUE(each[i] == want || (std::isnan(each[i]) && std::isnan(want)))
            << name(type) << " " << values[i] << ": " << each[i] << " instead of " << want;
      }
    }
  }
}

TEST(RoundEach, RecordsPeaksBeforeRounding) {
  Rounding rounding;
  rounding.set(1, {DType::kF16});
  PointPeaks peaks{};
  rounding.record(&peaks);
  std::vector<double> values{1, -1.00001, kInfinity, 0.5};
  round_each(rounding, 1, values);
  EXPECT_EQ(peaks[1], 1.00001);
  EXPECT_EQ(values[1], -1);
}

TEST(SumsOf, AreThoseOfTheLoopForEveryCount) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (size_t count = 0; count <= 130; ++count) {
    std::vector<double> values(count);
    double sum = 0, squares = 0, largest = -kInfinity;
    for (double& v : values) {
      v = normal(random);
      sum += v;
      squares += v * v;
      largest = std::max(largest, v);
    }
    EXPECT_NEAR(sum_of(values), sum, 1e-13 * (1 + squares)) << count;
    EXPECT_NEAR(square_sum_of(values), squares, 1e-13 * (1 + squares)) << count;
    EXPECT_EQ(largest_of(values), largest) << count;
  }
}

TEST(HiddenKeys, AreReplacedOrAddedTo) {
  const std::vector<int64_t> keep{1, 0, 0, 7, 0};
  std::vector<double> replaced{1, 2, kInfinity, -0.0, 5}, added = replaced;
  replace_hidden(replaced, keep.data(), -3);
  EXPECT_EQ(replaced, (std::vector<double>{1, -3, -3, -0.0, -3}));
  add_to_hidden(added, keep.data(), -kInfinity);
  EXPECT_EQ(added[0], 1);
  EXPECT_EQ(added[1], -kInfinity);
  EXPECT_TRUE(std::isnan(added[2])) << "infinity less infinity";
  EXPECT_EQ(added[4], -kInfinity);
}

}  // namespace
}  // namespace vernier::reference
