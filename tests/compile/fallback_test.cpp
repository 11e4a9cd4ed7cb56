// The fallback of mode int8: products are kept in 16 bits, those first that cost the answers most,
// until the tolerance holds; the ledger has the figures; rules of the user's stay.
#include "compile/fallback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "engine/writer.h"

namespace vernier::compiler {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

const std::string kModel = std::string(VERNIER_TEST_MODELS) + "/bert_ts11/model.onnx";

plan::Plan build(double int8_error, std::vector<std::string> rules = {}) {
  CompileOptions options;
  options.mode = "int8";
  options.int8_error = int8_error;
  options.rules = std::move(rules);
  return run(kModel, options).plan;
}

std::ptrdiff_t quantized(const plan::Plan& plan) {
  return std::ranges::count(plan.steps, OpKind::kQuantizedLinear, &plan::Step::op);
}

// Ledger rows that tell what was measured.
std::vector<plan::LedgerRow> kept(const plan::Plan& plan) {
  std::vector<plan::LedgerRow> rows;
  for (const plan::LedgerRow& row : plan.ledger)
    if (row.why.find("kept in bf16: int8 is off by ") != std::string::npos) rows.push_back(row);
  return rows;
}

TEST(Fallback, NothingIsKeptWithinTheTolerance) {
  const plan::Plan plan = build(1);
  EXPECT_GT(quantized(plan), 4);
  EXPECT_TRUE(kept(plan).empty());
  EXPECT_THAT(plan.notes, Each(Not(HasSubstr("kept in bf16"))));
}

TEST(Fallback, ATighterToleranceKeepsMoreProductsIn16Bits) {
  const std::ptrdiff_t all = quantized(build(1));
  std::ptrdiff_t before = all;
  for (const double tolerance : {5e-3, 2e-3}) {
    const plan::Plan plan = build(tolerance);
    EXPECT_LE(quantized(plan), before) << tolerance;
    before = quantized(plan);
    for (const plan::LedgerRow& row : kept(plan)) {
      EXPECT_EQ(row.asked.compute.type, DType::kBF16) << row.node;
      EXPECT_THAT(row.asked.by, HasSubstr("rule ")) << row.node;
      EXPECT_NE(row.got_compute, DType::kQ8) << row.node;
    }
    EXPECT_GE(std::ssize(kept(plan)), all - quantized(plan));
  }
  EXPECT_LT(before, all) << "no tolerance was too tight";
}

TEST(Fallback, TheNotesSayWhatIsLeft) {
  const plan::Plan plan = build(5e-3);
  ASSERT_FALSE(kept(plan).empty());
  ASSERT_GT(quantized(plan), 0);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("' kept in bf16: int8 is off by ")));
  EXPECT_THAT(plan.notes, Contains(HasSubstr(" products with a constant weight, heads excepted")));
  EXPECT_THAT(plan.build.policy, HasSubstr("compute=bf16"));
}

// At 0.5 % six of eight products are to be kept, and one of them need not be.
TEST(Fallback, WhatNeedNotBeKeptIsQuantizedAfterAll) {
  const plan::Plan plan = build(5e-3);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("int8: quantized after all: ")));
  // The rules keep exactly the products that the notes name.
  std::ptrdiff_t rules = 0;
  for (size_t at = 0; (at = plan.build.policy.find("compute=bf16", at)) != std::string::npos; ++at)
    ++rules;
  const auto notes = std::ranges::count_if(plan.notes, [](const std::string& note) {
    return note.find("' kept in bf16: ") != std::string::npos;
  });
  EXPECT_GT(notes, 0);
  EXPECT_GE(rules, notes);
  EXPECT_EQ(rules, std::ssize(kept(plan)));
}

TEST(Fallback, ProductsThatRulesQuantizeStay) {
  const plan::Plan plan = build(1e-6, {"op:MatMul compute=int8", "op:Gemm compute=int8"});
  EXPECT_GT(quantized(plan), 0);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("warning: int8: the answers are off by ")));
}

TEST(Fallback, AToleranceThatNothingMeetsQuantizesNothing) {
  const plan::Plan plan = build(1e-6);
  EXPECT_EQ(quantized(plan), 0);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("warning: int8: nothing is quantized: all of ")));
}

TEST(Fallback, TwoBuildsGiveTheSameBytes) {
  EXPECT_EQ(engine::engine_bytes(build(5e-3)), engine::engine_bytes(build(5e-3)));
}

TEST(Fallback, OtherModesAreNotMeasured) {
  CompileOptions options;
  options.mode = "fp16";
  options.int8_error = 1e-9;
  EXPECT_TRUE(kept(run(kModel, options).plan).empty());
}

TEST(Fallback, AToleranceIsPositive) {
  try {
    build(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--int8-error: got 0.0"));
  }
}

}  // namespace
}  // namespace vernier::compiler
