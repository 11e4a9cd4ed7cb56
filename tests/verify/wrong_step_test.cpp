// A step that is wrong on its own inputs is a bug, unless a rule lets it add up in less than f32.
#include "verify/checks/wrong_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vernier::verify::checks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

plan::Plan plan_with(DType sums, double sum_error) {
  plan::Plan plan;
  plan::Step step;
  step.name = "/enc/MatMul";
  step.kernel = "cuda.quantized_linear.sm90_fast";
  step.numerics.accumulate = sums;
  step.numerics.sum_error = sum_error;
  plan.steps.push_back(step);
  plan::LedgerRow row;
  row.node = "/enc/MatMul";
  row.step = 0;
  row.asked.compute.type = DType::kF8E4M3;
  row.asked.accumulate.type = sums;
  plan.ledger.push_back(row);
  return plan;
}

TEST(WrongStep, IsABug) {
  for (const double sum_error : {0.0, 0x1p-11}) {
    const Finding finding = wrong_step(plan_with(DType::kF32, sum_error), 0, "row 1 is 3");
    EXPECT_EQ(finding.verdict, Verdict::kBug);
    EXPECT_THAT(finding.why, HasSubstr("'/enc/MatMul') is wrong on its own inputs: row 1 is 3"));
    EXPECT_THAT(finding.why, Not(HasSubstr("accumulate")));
    EXPECT_THAT(finding.cause.rules, ElementsAre());
    EXPECT_EQ(finding.cause.value, "row 1 is 3");
  }
}

TEST(WrongStep, WithFastSumsIsTheirPrecision) {
  const Finding finding = wrong_step(plan_with(DType::kTF32, 0x1p-8), 0, "row 1 is 3");
  EXPECT_EQ(finding.verdict, Verdict::kPrecision);
  EXPECT_THAT(finding.why, HasSubstr("its sums are in tf32, as a rule allows"));
  EXPECT_THAT(finding.cause.rules, ElementsAre("name:/enc/MatMul accumulate=f32"));
}

}  // namespace
}  // namespace vernier::verify::checks
