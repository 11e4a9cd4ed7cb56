// What a replay judges: every step whole, or without those that are judged otherwise and some rows
// of large products. Contract: docs/verification_checks.md "Replay".
#include "verify/replay.h"

#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "verify/runner.h"

namespace vernier::verify {
namespace {

constexpr int64_t kBatch = 32, kLength = 8, kRows = ReplayOptions::kSampledRows;

class ReplayOf : public ::testing::Test {
 protected:
  std::vector<StepResult> steps(const ReplayOptions& options) {
    Replay replay(plan(), *engine_->impl().backend, kSignallingNan, options);
    NamedTensors inputs;
    for (const Port& port : engine_->inputs()) {
      const std::vector<int64_t> ones(kBatch * kLength, 1);
      inputs.emplace_back(
          port.name, Tensor::from(port.dtype, {kBatch, kLength}, std::span<const int64_t>(ones)));
    }
    Runner(engine_, {.threads = 2}).run(inputs, replay);
    return replay.steps();
  }
  const plan::Plan& plan() const { return engine_->impl().plan; }

 private:
  std::shared_ptr<const Engine> engine_ = Engine::from_bytes(engine::engine_bytes(
      compiler::run(test::example_model("bge_reranker_ts17").path.string(), {}).plan));
};

TEST_F(ReplayOf, ASampleHasSomeRowsOfLargeProductsAndAllOfTheRest) {
  const std::vector<StepResult> all = steps({}), some = steps({.sample = 1});
  ASSERT_EQ(all.size(), plan().steps.size());
  ASSERT_EQ(some.size(), all.size());
  int sampled = 0;
  for (size_t s = 0; s < all.size(); ++s) {
    EXPECT_TRUE(all[s].passed && some[s].passed) << all[s].why << some[s].why;
    const SymShape& shape = plan().value(plan().steps[s].outputs[0]).shape;
    const int64_t cols = shape.back().as_constant().value_or(1), rows = all[s].elems / cols;
    const bool has_rows = plan().steps[s].op == OpKind::kLinear && rows > kRows;
    const int64_t expected = has_rows ? cols * kRows : all[s].elems;
    EXPECT_EQ(some[s].elems, expected) << all[s].kernel;
    sampled += has_rows;
  }
  EXPECT_GT(sampled, 0);
}

TEST_F(ReplayOf, WhatIsJudgedOtherwiseSaysNothing) {
  const std::vector<StepResult> all = steps({}), some = steps({.judged = {1, 3}});
  for (size_t s = 0; s < all.size(); ++s) {
    const bool judged = s == 1 || s == 3;
    EXPECT_EQ(some[s].elems, judged ? 0 : all[s].elems);
    EXPECT_EQ(some[s].step, all[s].step);
    EXPECT_EQ(some[s].kernel, all[s].kernel);
  }
}

}  // namespace
}  // namespace vernier::verify
