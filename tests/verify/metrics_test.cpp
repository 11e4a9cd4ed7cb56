// Metrics: counted by hand on small arrays.
#include "verify/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "evaluate/rows.h"
#include "verify/tolerance.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours

namespace {

using Order = std::vector<size_t>;

EvalTensor array(Shape shape, std::vector<double> values) {
  EvalTensor t(DType::kF32, std::move(shape));
  t.f = std::move(values);
  return t;
}

TEST(DistanceOf, CountsWhatAMeanWouldHide) {
  const EvalTensor want = array({2, 2}, {1, 2, 3, 4});
  EvalTensor got = array({2, 2}, {1, 2, 3.5, 4});
  const Distance d = distance(got, want);
  EXPECT_EQ(d.max_abs, 0.5);
  EXPECT_EQ(d.worst, 0.125);
  EXPECT_EQ(d.worst_row, 1);
  EXPECT_EQ(distance(got, want, 1).worst_row, 0);
  EXPECT_EQ(d.rms, 0.25);
  EXPECT_EQ(d.mean_abs, 0.125);
  EXPECT_EQ(d.max_ulp, 0.5 / 0x1p-22);
  EXPECT_NEAR(d.snr_db, 20 * std::log10(std::sqrt(7.5) / 0.25), 1e-9);
  got.f[0] = std::nan("");
  EXPECT_EQ(distance(got, want).wrong_non_finite, 1);
  EXPECT_FALSE(complaint(distance(got, want), parse_tolerance("cos=0")).empty())
      << "no tolerance lets NaN pass";
  EvalTensor nan_too = want;
  nan_too.f[0] = std::nan("");
  EXPECT_EQ(distance(got, nan_too).wrong_non_finite, 0);
}

TEST(DistanceOf, InfinitiesMustAgreeInSign) {
  const double inf = INFINITY;
  EXPECT_EQ(distance(array({2}, {inf, -inf}), array({2}, {inf, inf})).wrong_non_finite, 1);
}

TEST(UlpOf, IsTheSpacingAtEachValue) {
  EXPECT_EQ(ulp(DType::kF32, 1), 0x1p-23);
  EXPECT_EQ(ulp(DType::kF32, -1.999), 0x1p-23);
  EXPECT_EQ(ulp(DType::kF32, 0), 0x1p-149);
  EXPECT_EQ(ulp(DType::kF32, 0x1p-140), 0x1p-149);
  EXPECT_EQ(ulp(DType::kF16, 0x1p-20), 0x1p-24);
  EXPECT_EQ(ulp(DType::kF16, 4096), 4);
  EXPECT_EQ(ulp(DType::kBF16, 3), 0x1p-6);
  EXPECT_EQ(ulp(DType::kF64, 1), 0x1p-52);
  EXPECT_EQ(ulp(DType::kF4E2M1, 0), 0.5);
  EXPECT_EQ(ulp(DType::kF4E2M1, 5), 2);
  EXPECT_EQ(ulp(DType::kF8E4M3FNUZ, 0), 0x1p-10);
  EXPECT_EQ(ulp(DType::kF8E5M2FNUZ, 0), 0x1p-17);
  EXPECT_EQ(ulp(DType::kF8E8M0, 3), 2);
  EXPECT_EQ(ulp(DType::kF64, 0x1p-1060), 0x1p-1074);
  EXPECT_EQ(ulp(DType::kF32, INFINITY), 0);
  EXPECT_EQ(ulp(DType::kQ8, 100), 1);
}

TEST(BestFirst, EqualScoresKeepTheirOrderAndNanComesFirst) {
  EXPECT_EQ(best_first({1, 3, 2, 3}), (Order{1, 3, 2, 0}));
  EXPECT_EQ(best_first({0.0, -0.0, 0.0}), (Order{0, 1, 2}));
  EXPECT_EQ(best_first({-1, -INFINITY, INFINITY, -2, 5e-324, -5e-324}), (Order{2, 4, 5, 0, 3, 1}));
  EXPECT_EQ(best_first({1, std::nan(""), INFINITY, -std::nan("")}), (Order{1, 3, 2, 0}));
}

TEST(BestFirst, IsTheSameWhateverOrderIsGuessed) {
  std::vector<double> scores;
  for (int i = 0; i < 100; ++i) scores.push_back(i * 37 % 50);  // each of them twice
  const Order right = best_first(scores);
  Order guess = right;
  EXPECT_EQ(best_first(scores, guess), right);
  std::swap(guess[10], guess[17]);
  EXPECT_EQ(best_first(scores, guess), right) << "nearly right";
  std::reverse(guess.begin(), guess.end());
  EXPECT_EQ(best_first(scores, guess), right) << "all wrong";
}

TEST(RankingOf, FindsTheFirstPlaceAndTheOrder) {
  const Ranking same = ranking({3, 1, 2}, {30, 10, 20});
  EXPECT_FALSE(same.top1_changed);
  EXPECT_EQ(same.correlation, 1);
  EXPECT_EQ(same.top1_margin, 10);
  const Ranking reversed = ranking({1, 2, 3}, {3, 2, 1});
  EXPECT_TRUE(reversed.top1_changed);
  EXPECT_EQ(reversed.correlation, -1);
  EXPECT_EQ(reversed.top5_changed, 0);
  EXPECT_EQ(ranking({0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}).top5_changed, 1);
}

TEST(RowMetricsOf, AreOnePerRowOfAnyAxis) {
  const EvalTensor want = array({2, 3}, {1, 2, 3, 6, 5, 4}),
                   got = array({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto rows = row_metrics(got, want, 0);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].top1_changes, 0);
  EXPECT_EQ(rows[1].top1_changes, 1);
  EXPECT_EQ(rows[1].least_correlation, -1);
  EXPECT_EQ(rows[1].distance.max_abs, 2);
  EXPECT_EQ(row_metrics(got, want, 1).size(), 3U);
  EXPECT_EQ(row_metrics(got, want, kNoAxis).size(), 1U);
}

TEST(Complaint, ForgivesNoMoreThanTheNoise) {
  const EvalTensor want = array({1}, {1}), got = array({1}, {1 + 3e-5});
  EXPECT_FALSE(complaint(distance(got, want), {}).empty());
  EXPECT_TRUE(complaint(distance(got, want), {}, 4e-5).empty());
  EXPECT_FALSE(complaint(distance(got, want), {}, 2e-5).empty());
  EXPECT_FALSE(complaint(distance(got, want), parse_tolerance("worst=1e-6"), 4e-5).empty())
      << "a limit that was asked for is kept";
}

TEST(Ulp, IsTheDistanceToTheNextNumber) {
  EXPECT_EQ(ulp(DType::kF32, 1), 0x1p-23);
  EXPECT_EQ(ulp(DType::kF32, 1.5), 0x1p-23);
  EXPECT_EQ(ulp(DType::kF32, -4), 0x1p-21);
  EXPECT_EQ(ulp(DType::kF32, 0), 0x1p-149);
  EXPECT_EQ(ulp(DType::kF16, 1), 0x1p-10);
  EXPECT_EQ(ulp(DType::kBF16, 1), 0x1p-7);
  EXPECT_EQ(ulp(DType::kF64, 1), 0x1p-52);
}

TEST(Rows, AreTakenAndJoinedAlongAnyAxis) {
  const Tensor t = Tensor::from(DType::kI32, {2, 3}, std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(take_row(t, 0, 1).integers(), (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(take_row(t, 1, 2).integers(), (std::vector<int64_t>{3, 6}));
  BatchAxes axes;
  axes.axis["x"] = 1;
  const NamedTensors joined =
      join_rows({{{"x", take_row(t, 1, 2)}}, {{"x", take_row(t, 1, 0)}}}, axes);
  EXPECT_EQ(joined[0].second.integers(), (std::vector<int64_t>{3, 1, 6, 4}));
  EXPECT_EQ(joined[0].second.shape(), (Shape{2, 2}));
}

}  // namespace
}  // namespace vernier::verify
