// Samples, ranges and factors: known answers, and never a worse choice than none.
#include "calibrate/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "calibrate/sample.h"
#include "core/attrs.h"
#include "core/evaluator.h"
#include "core/random.h"

namespace vernier::calibration {
namespace {

using testing::Each;
using testing::ElementsAre;

Matrix normal(int64_t rows, int64_t cols, uint64_t seed) {
  SplitMix random(seed);
  Matrix m{rows, cols, {}};
  for (int64_t i = 0; i < rows * cols; ++i) m.values.push_back(static_cast<float>(random.normal()));
  return m;
}

ProductWeight weight_of(const Matrix& m, bool trans_w = false) {
  return {Tensor::from_bytes(DType::kF32, {m.rows, m.cols}, std::as_bytes(std::span(m.values))),
          trans_w};
}

SiteRows rows_of(const Matrix& m) {
  SiteSample sample(m.cols, m.rows, 1);
  for (int64_t r = 0; r < m.rows; ++r)
    sample.take(
        std::span(m.values).subspan(static_cast<size_t>(r * m.cols), static_cast<size_t>(m.cols)));
  return {{m.rows, m.cols, sample.kept}, sample.low, sample.high};
}

TEST(Sample, KeepsTheRangeOfAllAndAsManyRowsAsItMay) {
  SiteSample sample(2, 4, 7);
  for (int i = 0; i < 1000; ++i) {
    const std::vector<float> row{static_cast<float>(i), static_cast<float>(-i)};
    ASSERT_TRUE(sample.take(row));
  }
  EXPECT_EQ(sample.rows, 1000);
  EXPECT_THAT(sample.low, ElementsAre(0, -999));
  EXPECT_THAT(sample.high, ElementsAre(999, 0));
  ASSERT_EQ(sample.kept.size(), 8u);
  for (size_t r = 0; r < 4; ++r) EXPECT_EQ(sample.kept[2 * r], -sample.kept[2 * r + 1]);
}

TEST(Sample, IsTheSameForTheSameRowsAndEvenOverThem) {
  double mean = 0;
  constexpr int kRuns = 200, kRows = 400;
  for (int run = 0; run < kRuns; ++run) {
    SiteSample a(1, 8, static_cast<uint64_t>(run)), b = a;
    for (int i = 0; i < kRows; ++i) {
      const std::vector<float> row{static_cast<float>(i)};
      a.take(row);
      b.take(row);
    }
    EXPECT_EQ(a.kept, b.kept);
    for (const float v : a.kept) mean += v / (8.0 * kRuns);
  }
  EXPECT_NEAR(mean, (kRows - 1) / 2.0, 5 * kRows / std::sqrt(12.0 * 8 * kRuns));
}

TEST(Sample, RefusesWhatIsNotFinite) {
  SiteSample sample(2, 4, 1);
  EXPECT_FALSE(sample.take(std::vector<float>{1, NAN}));
  EXPECT_FALSE(sample.take(std::vector<float>{-INFINITY, 1}));
  EXPECT_EQ(sample.rows, 0);
  EXPECT_TRUE(sample.kept.empty());
}

TEST(Ranges, OfPercentilesLeaveOutTheEnds) {
  std::vector<float> values;
  for (int i = 0; i <= 1000; ++i) values.push_back(static_cast<float>(i - 500));
  const Range all = percentile_range(values, 1), inner = percentile_range(values, 0.99);
  EXPECT_EQ(all.low, -500);
  EXPECT_EQ(all.high, 500);
  EXPECT_EQ(inner.low, -495);
  EXPECT_EQ(inner.high, 495);
  const Range positive = percentile_range(std::vector<float>{3, 4, 5}, 1);
  EXPECT_EQ(positive.low, 0) << "0 is in every range";
}

TEST(Ranges, OfMseAndEntropyCutALonelyOutlier) {
  Matrix values = normal(100, 100, 3);
  const Range plain_mse = mse_range(values.values), plain_entropy = entropy_range(values.values);
  EXPECT_GT(plain_mse.high, 2.5F);
  EXPECT_GT(plain_entropy.high, 1.5F);
  values.values[17] = 20;
  EXPECT_LT(mse_range(values.values).high, 20);
  EXPECT_LT(entropy_range(values.values).high, 10);
  const Range zeros = entropy_range(std::vector<float>{0, 0});
  EXPECT_EQ(zeros.high, 0);
}

TEST(Factors, ArePowersOfTwoThatEvenTheChannelsOut) {
  const std::vector<float> x{1, 16, 1, 1}, w{1, 1, 1, 1};
  EXPECT_THAT(factors_for(x, w, 0.5), ElementsAre(1, 0.25, 1, 1));
  EXPECT_THAT(factors_for(x, w, 0), Each(1));
  const std::vector<float> huge{1e-30F, 1e30F, 1, 1};
  EXPECT_THAT(factors_for(huge, w, 0.85), ElementsAre(65536, 1.0F / 65536, 1, 1));
  const std::vector<float> unused{0, 16, 1, 1, 1};
  EXPECT_EQ(factors_for(unused, std::vector<float>{1, 1, 1, 0, 1}, 0.5)[0], 1);
  EXPECT_THAT(factors_for(std::vector<float>{0, 0}, std::vector<float>{0, 0}, 0.5), Each(1));
}

// The meaning of QuantizeRows and QuantizedLinear's operand, of the evaluator.
TEST(Rounding, OfRowsIsThatOfTheOperator) {
  const Matrix x = normal(5, 33, 9);
  const Matrix rounded = rounded_rows(x);
  EvalTensor in(DType::kF32, {x.rows, x.cols});
  in.f.assign(x.values.begin(), x.values.end());
  std::vector<EvalTensor> out{EvalTensor(DType::kQ8, {x.rows, x.cols}),
                              EvalTensor(DType::kF32, {x.rows, 1}),
                              EvalTensor(DType::kF32, {x.rows, 1})};
  const std::vector<const EvalTensor*> inputs{&in};
  const AttrBytes attrs = encode(QuantizeRowsAttrs{});
  evaluator(OpKind::kQuantizeRows)({attrs, inputs, out, Rounding{}});
  for (size_t i = 0; i < x.values.size(); ++i) {
    const size_t row = i / static_cast<size_t>(x.cols);
    const double q = std::clamp(std::nearbyint(out[0].f[i]), -127.0, 127.0);
    EXPECT_NEAR(rounded.values[i], (q - out[1 + 1].f[row]) * out[1].f[row], 1e-6);
  }
  const Range range{-1, 1};
  EXPECT_EQ(rounded_rows({1, 3, {-7, 0.5F, 7}}, &range).values[2], 1) << "saturates";
}

TEST(Choice, FactorsHelpWhereAChannelIsAnOutlier) {
  Matrix x = normal(96, 64, 4);
  for (int64_t r = 0; r < x.rows; ++r) x.values[static_cast<size_t>(r * x.cols + 5)] *= 40;
  const Matrix w = normal(64, 48, 5);
  const SiteChoice choice = choose(rows_of(x), std::vector{weight_of(w)}, Method::kOutputError, {});
  const auto least = std::ranges::min_element(choice.factor_errors, {}, &NamedError::error);
  EXPECT_EQ(choice.factor_errors[0].name, "0");
  EXPECT_LT(least->error, choice.factor_errors[0].error * 0.6);
  EXPECT_LE(choice.factors[5], 0.25F);
  for (const float f : choice.factors) EXPECT_EQ(std::exp2(std::nearbyint(std::log2(f))), f);
}

TEST(Choice, IsNeverWorseThanNoFactorsAndThoseWinTies) {
  const Matrix zeros{8, 16, std::vector<float>(128)};
  const SiteChoice none =
      choose(rows_of(zeros), std::vector{weight_of(normal(16, 8, 1))}, Method::kOutputError, {});
  EXPECT_THAT(none.factors, Each(1));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Matrix x = normal(32, 24, seed);
    const Matrix w = normal(40, 24, seed + 100);  // transposed
    const SiteChoice choice =
        choose(rows_of(x), std::vector{weight_of(w, true)}, Method::kOutputError, {});
    for (const NamedError& each : choice.factor_errors) {
      EXPECT_GT(each.error, 1e-4);
      EXPECT_LT(each.error, 0.1);
    }
    const bool plain = std::ranges::all_of(choice.factors, [](float f) { return f == 1; });
    const auto least = std::ranges::min_element(choice.factor_errors, {}, &NamedError::error);
    EXPECT_EQ(plain, least->error == choice.factor_errors[0].error);
  }
}

TEST(Choice, TakesTheStaticRangeThatWasAskedFor) {
  const Matrix x = normal(64, 32, 2);
  const std::vector weights{weight_of(normal(32, 16, 3))};
  double least = 1;
  for (const Method method : {Method::kMax, Method::kPercentile, Method::kMse, Method::kEntropy}) {
    const SiteChoice choice = choose(rows_of(x), weights, method, {});
    EXPECT_THAT(choice.range_method, testing::HasSubstr(std::string(name(method))));
    EXPECT_LE(choice.range.low, 0);
    EXPECT_GE(choice.range.high, 0);
    const auto own = std::ranges::find(choice.range_errors, choice.range_method, &NamedError::name);
    ASSERT_NE(own, choice.range_errors.end());
    least = std::min(least, own->error);
  }
  const SiteChoice best = choose(rows_of(x), weights, Method::kOutputError, {});
  const auto own = std::ranges::find(best.range_errors, best.range_method, &NamedError::name);
  EXPECT_EQ(own->error, least);
  EXPECT_EQ(choose(rows_of(x), weights, Method::kMax, {}).range.high, std::ranges::max(x.values));
}

TEST(Methods, HaveNames) {
  for (const char* text : {"output-error", "max", "percentile", "mse", "entropy"})
    EXPECT_EQ(name(parse_method(text)), text);
  try {
    parse_method("median");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("--method: got 'median', expected output-error"));
  }
}

}  // namespace
}  // namespace vernier::calibration
