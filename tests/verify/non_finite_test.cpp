// Where NaN and infinity begin: the walk back from the outputs, and which arrays hold any.
#include "verify/non_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vernier::verify {
namespace {

constexpr auto kInfinite = Finiteness::kInfinite, kNaN = Finiteness::kNaN;

// Steps 0 … n−1, each of which reads what `reads` says and makes the value of its number.
plan::Plan plan_of(const std::vector<std::vector<int32_t>>& reads) {
  plan::Plan plan;
  for (size_t s = 0; s < reads.size(); ++s) {
    plan.values.emplace_back();
    plan::Step step;
    step.inputs = reads[s];
    step.outputs = {static_cast<int32_t>(s)};
    plan.steps.push_back(step);
  }
  plan.outputs = {static_cast<int32_t>(reads.size()) - 1};
  return plan;
}

TEST(NonFiniteTrace, FindsTheInfinityThatBecomesNaN) {
  const plan::Plan plan = plan_of({{}, {0}, {1}, {2}});
  NonFiniteTrace trace(plan);
  EXPECT_FALSE(trace.find());
  trace.note(1, kInfinite);
  trace.note_own(1);
  EXPECT_FALSE(trace.find());  // it ends on its way
  trace.note(2, kNaN);
  trace.note(3, kNaN);
  const auto found = trace.find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 1);
  EXPECT_EQ(found->nan_step, 2);
  EXPECT_EQ(found->own_steps, std::vector<int32_t>{1});
}

// The mask of the second layer (0) is infinite too, and its softmax (4) reads NaN of the first.
TEST(NonFiniteTrace, AMaskIsNotBlamedForNaNThatCameBefore) {
  const plan::Plan plan = plan_of({{}, {}, {1}, {2, 0}, {3}});
  NonFiniteTrace trace(plan);
  trace.note(0, kInfinite);
  trace.note_own(0);
  for (int32_t value : {2, 3, 4}) trace.note(value, kNaN);
  trace.note_own(2);
  const auto found = trace.find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2);
  EXPECT_EQ(found->nan_step, 2);
}

TEST(NonFiniteTrace, AnInfiniteOutputNamesWhoMadeIt) {
  const plan::Plan plan = plan_of({{}, {0}, {1}});
  NonFiniteTrace trace(plan);
  trace.note(1, kInfinite);
  trace.note(2, kInfinite);
  trace.note_own(1);
  const auto found = trace.find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 1);
  EXPECT_EQ(found->nan_step, plan::kNone);
}

// Through a view, which is its base's memory.
TEST(NonFiniteTrace, FollowsViews) {
  plan::Plan plan = plan_of({{}, {0}, {}});
  plan.values[2].alias_of = 1;
  plan.steps.pop_back();
  NonFiniteTrace trace(plan);
  trace.note(1, kNaN);
  trace.note_own(1);
  ASSERT_TRUE(trace.find());
  EXPECT_EQ(trace.find()->step, 1);
}

TEST(NonFinite, IsSeenInEveryFloatType) {
  for (const DType type : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E5M2}) {
    const auto holds = [&](std::vector<double> values) {
      const Tensor t = Tensor::from(type, {static_cast<int64_t>(values.size())},
                                    std::span<const double>(values));
      return is_non_finite(type, t.byte_span());
    };
    EXPECT_FALSE(holds({0, -1, largest_finite(type), -largest_finite(type)})) << name(type);
    EXPECT_TRUE(holds({0, 1, std::nan("")})) << name(type);
    EXPECT_TRUE(holds({-HUGE_VAL, 1, 2})) << name(type);
  }
  for (const DType type : {DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ, DType::kF8E8M0}) {
    std::vector<double> values{1, 2, largest_finite(type)};
    const auto held = [&] { return Tensor::from(type, {3}, std::span<const double>(values)); };
    EXPECT_FALSE(is_non_finite(type, held().byte_span())) << name(type);
    values[1] = std::nan("");
    EXPECT_TRUE(is_non_finite(type, held().byte_span())) << name(type);
  }
  EXPECT_FALSE(is_non_finite(DType::kI32, std::vector<std::byte>(8, std::byte{0xff})));
  const EvalTensor e{}, f{};
  EXPECT_EQ(unlike(e, f), Finiteness::kFinite);
}

}  // namespace
}  // namespace vernier::verify
