// The judgement of a single step on arrays that a test makes. Contract: docs/verification_checks.md
// "Replay".
#include "verify/step_judge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/attrs.h"
#include "runtime/backends.h"

namespace vernier::verify {
namespace {

// One query over three keys whose values are 1 wide. The score of key j is its bias; the
// probabilities, relative to the largest, are rounded to bf16.
class InsideRoundings : public ::testing::Test {
 protected:
  InsideRoundings() {
    plan::Step step;
    step.kernel = "cpu.attention.bf16";
    step.op = OpKind::kAttention;
    step.attrs = encode(AttentionAttrs{});
    const auto points = rounding_points(step.op);
    for (size_t i = 0; i < points.size(); ++i) {
      if (points[i] == "probs")
        step.numerics.points[i] = {.type = DType::kBF16,
                                   .scale = PointRounding::Scale::kUnnormalised};
    }
    plan_.steps.push_back(step);
  }

  // With `change` added to a right result.
  StepResult judged(double change) const {
    double sum = 0, context = 0;
    std::vector<double> scores;
    for (size_t j = 0; j < kProbs.size(); ++j) {
      scores.push_back(std::log(kProbs[j]));
      sum += kProbs[j];
      context += kRounded[j] * kValues[j];
    }
    const auto floats = [](const std::vector<double>& v, std::vector<int64_t> shape) {
      return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(v));
    };
    StepCopy copy{.step = 0, .in = {}, .out = {}, .bytes = 0};
    copy.in = {floats({0}, {1, 1, 1, 1}), floats({0, 0, 0}, {1, 3, 1, 1}),
               floats(kValues, {1, 3, 1, 1}), floats(scores, {1, 1, 1, 3})};
    copy.out = {floats({context / sum + change}, {1, 1, 1, 1})};
    return judge_step(plan_, runtime::backend_named("cpu", "a test"), copy);
  }

  // Of [0.25, 0.5) bf16 has every 2^-9th. The second one lies just below the middle between two,
  // and what rounding does to it and to the third cancels in the result.
  static constexpr double kUnit = 0x1p-9;
  const std::vector<double> kProbs{1, 0.25 + kUnit * 10.4999, 0.25 + kUnit * 20.75};
  const std::vector<double> kRounded{1, 0.25 + kUnit * 10, 0.25 + kUnit * 21};
  const std::vector<double> kValues{1, 1, 2};

 private:
  plan::Plan plan_;
};

TEST_F(InsideRoundings, MayGoTheOtherWayWhereAllOfThemCancel) {
  const double flip = kUnit / (kProbs[0] + kProbs[1] + kProbs[2]);
  EXPECT_TRUE(judged(0).passed) << judged(0).why;
  EXPECT_TRUE(judged(flip).passed) << judged(flip).why;
  EXPECT_FALSE(judged(40 * flip).passed);
}

}  // namespace
}  // namespace vernier::verify
