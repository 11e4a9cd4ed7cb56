// Ranges: peaks at rounding points, what they are held in, the margin, and what does not count.
#include "evaluate/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vernier::evaluate {
namespace {

// Identity twice: the first stored in f16, the second in f32.
plan::Plan two_steps() {
  plan::Plan plan;
  for (const DType type : {DType::kF16, DType::kF32}) {
    plan::PlanValue value;
    value.dtype = type;
    plan.values.push_back(value);
    plan::Step step;
    step.op = OpKind::kAdd;
    step.name = "/add";
    step.outputs = {static_cast<int32_t>(plan.values.size() - 1)};
    plan.steps.push_back(step);
  }
  return plan;
}

PointPeaks peak_at_end(double peak) {
  PointPeaks peaks{};
  peaks[rounding_points(OpKind::kAdd).size() - 1] = peak;
  return peaks;
}

TEST(Ranges, KeepTheLargestOfAllRunsAndTheTypeItIsStoredIn) {
  const plan::Plan plan = two_steps();
  Ranges ranges(plan);
  for (double peak : {10.0, 30.0, 20.0}) ranges.note(0, peak_at_end(peak));
  ranges.note(1, peak_at_end(5));
  const std::vector<RangeRow> rows = ranges.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].peak, 30);
  EXPECT_EQ(rows[0].type, DType::kF16);
  EXPECT_EQ(rows[0].limit, 65504);
  EXPECT_EQ(rows[1].type, DType::kF32);
}

TEST(Ranges, FitsIsTwiceThePeakWithinTheLimit) {
  const plan::Plan plan = two_steps();
  for (const auto& [peak, fits] : {std::pair(32752.0, true), {32753.0, false}, {70000.0, false}}) {
    Ranges ranges(plan);
    ranges.note(0, peak_at_end(peak));
    EXPECT_EQ(ranges.rows().at(0).fits, fits) << peak;
  }
}

TEST(Ranges, OnlyTrueInfinitiesDoNotCount) {
  const plan::Plan plan = two_steps();
  Ranges ranges(plan);
  const double lowest = std::numeric_limits<float>::max();
  ranges.note(0, peak_at_end(std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(ranges.rows().empty());
  ranges.note(0, peak_at_end(lowest));
  ranges.note(1, peak_at_end(lowest));
  EXPECT_EQ(ranges.rows().at(0).peak, lowest);
  EXPECT_FALSE(ranges.rows().at(0).fits);
  EXPECT_TRUE(ranges.rows().at(1).fits);  // nothing is wider than f32
  ranges.note(1, peak_at_end(2 * lowest));
  EXPECT_FALSE(ranges.rows().at(1).fits);
}

// A point that sees both a true infinity and a finite number keeps the number.
TEST(Ranges, AnInfinityHidesNoFiniteNumber) {
  PointPeaks peaks{};
  Rounding rounding;
  rounding.record(&peaks);
  for (double value : {3.0, -HUGE_VAL, -70000.0, std::nan("")}) rounding(0, value);
  EXPECT_EQ(peaks[0], 70000);
  const std::vector<double> row{5.0, HUGE_VAL, -90000.0, std::nan("")};
  rounding.see(0, row);
  EXPECT_EQ(peaks[0], 90000);
}

}  // namespace
}  // namespace vernier::evaluate
