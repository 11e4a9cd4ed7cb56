// F against R, and noise that holds none of it: what a wrong rewrite does to a row in any place is
// found in every type, and does not widen the limits. Contract: docs/verification.md "Limits".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plan/graphs.h"
#include "plants/plants.h"
#include "plants/rewrite_plants.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kName = "rewritten graph against the model",
                           kModel = "bge_reranker_ts17";

struct Settings {
  std::string mode = "fp32";
  bool planted = false;
  uint64_t seed = 1;
  std::vector<std::string> rules = {};
};
Report verified(const Settings& settings, std::vector<int64_t> lengths) {
  const std::filesystem::path path = test::example_model(std::string(kModel)).path;
  const auto model = onnx::import_model(path);
  const auto changed = onnx::import_model(path);
  if (settings.planted) test::take_mask_for_a_prefix(*changed);
  CompileOptions options;
  options.mode = settings.mode;
  options.rules = settings.rules;
  Request request;
  request.lengths = std::move(lengths);
  request.threads = 2;
  request.seed = settings.seed;
  return verify_engine(
      Engine::from_bytes(engine::engine_bytes(compiler::plan_of(*changed, options))), *model,
      request);
}

const CheckResult& row_of(const Report& report) {
  return *std::ranges::find(report.checks, kName, &CheckResult::name);
}

// The hole of a mask stands in the sixth row, far behind the first two. The default sweep:
// planted_defects.
class PrefixMask : public ::testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, PrefixMask, ::testing::Values(1, 2, 3, 4, 5));
TEST_P(PrefixMask, IsFoundInBf16) {
  const Report report = verified({.mode = "bf16", .planted = true, .seed = GetParam()}, {16});
  EXPECT_EQ(report.verdict, "bug (rewrite)") << to_text(report);
  EXPECT_GT(row_of(report).failed, 0);
  EXPECT_FALSE(report.rewrites.empty());
}

TEST(Rewrite, PrefixMaskIsFoundInEveryMode) {
  for (const char* mode : {"fp32", "fp16", "bf16"}) {
    const Report report = verified({.mode = mode, .planted = true}, {16});
    EXPECT_EQ(report.verdict, "bug (rewrite)") << mode << "\n" << to_text(report);
  }
}

// Every row is looked at, and each value of both graphs once on all of them.
TEST(Rewrite, RightPlansPassOnAllRows) {
  for (const char* mode : {"fp32", "fp16", "bf16"}) {
    const Report report = verified({.mode = mode}, {16});
    EXPECT_EQ(report.verdict, "pass") << mode << "\n" << to_text(report);
    EXPECT_GE(row_of(report).done, 5) << mode;
  }
}

TEST(Rewrite, APolicyWithRulesPasses) {
  for (const std::string rule : {"op:Attention compute=f32", "op:LayerNorm store=f32"}) {
    const Report report = verified({.mode = "bf16", .rules = {rule}}, {16});
    EXPECT_EQ(report.verdict, "pass") << rule << "\n" << to_text(report);
  }
}

// Noise that held the rewrite's own error would be several times as large.
TEST(Noise, HoldsNoErrorOfARewrite) {
  const Report right = verified({.mode = "bf16"}, {16}),
               wrong = verified({.mode = "bf16", .planted = true}, {16});
  ASSERT_EQ(right.outputs.size(), 1U);
  ASSERT_EQ(wrong.outputs.size(), 1U);
  EXPECT_LT(wrong.outputs[0].noise_rms, 1.5 * right.outputs[0].noise_rms);
  EXPECT_LT(wrong.outputs[0].limits.element, 1.5 * right.outputs[0].limits.element);
}

// A model in f16 spells the root of 2 as 1.4141; raising takes it for what it means. In fp32 that
// is more than anything that f32 explains.
constexpr std::string_view kHalfGelu = R"(graph g(%x: f32[batch, 32]) {
  %h = Cast(%x) {to=f16}
  %scaled = Div(%h, f16[1]{1.4140625})
  %erf = Erf(%scaled)
  %more = Add(%erf, f16[1]{1})
  %gated = Mul(%h, %more)
  %half = Mul(%gated, f16[1]{0.5})
  %y = Cast(%half) {to=f32}
  return %y as "y"
})";

TEST(Noise, ModelsInSixteenBitsAreGrantedTheirRoundedNumbers) {
  const auto model = test::graph_of(std::string(kHalfGelu));
  CompileOptions options;
  options.mode = "fp32";
  const plan::Plan plan = compiler::plan_of(*model, options);
  EXPECT_TRUE(std::ranges::none_of(plan.steps,
                                   [](const plan::Step& step) { return step.op == OpKind::kErf; }));
  Request request;
  request.threads = 1;
  const Report report =
      verify_engine(Engine::from_bytes(engine::engine_bytes(plan)), *model, request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  // Six times an eighth of the unit of f16 at 1; the noise of f32 is a hundredth of it.
  const OutputResult& y = report.outputs.at(0);
  EXPECT_LT(y.noise_rms, 1e-5 * y.all_rms_reference);
  EXPECT_GT(y.limits.element, 6e-4 * y.all_rms_reference);
  EXPECT_LT(y.limits.element, 9e-4 * y.all_rms_reference);
}

}  // namespace
}  // namespace vernier::verify
