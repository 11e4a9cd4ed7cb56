// Extreme operands and projections: what these checks find that no other does, that a step runs
// alone as it does in its engine, and that right kernels pass in all types. Contract:
// docs/verification_checks.md "Extreme operands", "Projection".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "verify/lone_step.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kExtreme = "each step on extreme operands",
                           kProjected = "products by random projections";

Report verified(const test::Plant* plant, const std::string& name, const std::string& mode,
                std::vector<int64_t> lengths) {
  const std::filesystem::path model = test::example_model(name).path;
  Request request;
  request.batches = {2};
  request.lengths = std::move(lengths);
  request.threads = 2;
  CompileOptions options;
  options.mode = mode;
  const plan::Plan plan = compiler::run(model.string(), options).plan;
  return verify_engine(Engine::from_bytes(engine::engine_bytes(plan), test::planted_backend(plant)),
                       *onnx::import_model(model), request);
}

const CheckResult& row_of(const Report& report, std::string_view name) {
  return *std::ranges::find(report.checks, name, &CheckResult::name);
}

class ExtremePlants : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Plants, ExtremePlants,
                         ::testing::Values("tame-variance", "tame-attention"),
                         &test::plant_test_name<::testing::TestParamInfo<std::string_view>>);

TEST_P(ExtremePlants, AreFoundByNoOtherCheck) {
  const auto plant = std::ranges::find(test::plants(), GetParam(), &test::Plant::name);
  ASSERT_NE(plant, test::plants().end());
  const Report report =
      verified(&*plant, std::string(plant->model), std::string(plant->mode), {4, 16});
  EXPECT_EQ(report.verdict, plant->verdict) << to_text(report);
  for (const CheckResult& check : report.checks)
    EXPECT_EQ(check.failed > 0, check.name == kExtreme) << check.name << "\n" << to_text(report);
}

// Norms that write f32 show it on ordinary rows, too; those that write f16 only here.
TEST(Extreme, RowsOfTinyVarianceShowALargeEpsilon) {
  const auto plant = std::ranges::find(test::plants(), "large-epsilon", &test::Plant::name);
  ASSERT_NE(plant, test::plants().end());
  const Report report = verified(&*plant, std::string(plant->model), "fp16", {4, 16});
  EXPECT_EQ(report.verdict, "bug") << to_text(report);
  const auto ordinary =
      std::ranges::find(report.checks, "each step against FP64", &CheckResult::name);
  EXPECT_GT(row_of(report, kExtreme).failed, ordinary->failed) << to_text(report);
}

struct Case {
  std::string model, mode;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.model << " " << one.mode; }
class RightKernels : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, RightKernels,
                         ::testing::Values(Case{"bge_reranker_ts17", "fp32"},
                                           Case{"bert_embedder_ts17", "fp16"},
                                           Case{"gpt2_ts17", "bf16"}, Case{"vit_ts17", "fp16"},
                                           Case{"deformable_attention_ts17", "fp32"},
                                           Case{"bert_ts11", "int8"}));

TEST_P(RightKernels, PassOnExtremeOperandsAndProjected) {
  const Report report = verified(nullptr, GetParam().model, GetParam().mode, {4, 16});
  for (const std::string_view name : {kExtreme, kProjected}) {
    EXPECT_EQ(row_of(report, name).failed, 0) << to_text(report);
    EXPECT_GT(row_of(report, name).done, 0) << to_text(report);
  }
  EXPECT_THAT(row_of(report, kProjected).note, HasSubstr(" products; sees one element that is off "
                                                         "by "));
  if (GetParam().model == "bge_reranker_ts17") {  // with a GELU
    EXPECT_THAT(row_of(report, kProjected).note,
                HasSubstr(" in some places of each row and column: "));
  }
  EXPECT_THAT(row_of(report, kProjected).note, ::testing::Not(HasSubstr("not covered")));
}

TEST(Projection, FindsOneColumnInACellThatIsNotReplayed) {
  const auto plant = std::ranges::find(test::plants(), "one-column", &test::Plant::name);
  ASSERT_NE(plant, test::plants().end());
  const Report report = verified(&*plant, "bge_reranker_ts17", "fp32", {100});
  EXPECT_EQ(report.verdict, "bug") << to_text(report);
  EXPECT_GT(row_of(report, kProjected).failed, 0) << to_text(report);
}

// Behind an activation, where a sample of rows and columns stands for the projection.
TEST(Projection, FindsOneColumnBehindAnActivationBySamples) {
  const auto plant = std::ranges::find(test::plants(), "activated-column", &test::Plant::name);
  ASSERT_NE(plant, test::plants().end());
  const Report report = verified(&*plant, "bge_reranker_ts17", "fp32", {100});
  EXPECT_EQ(report.verdict, "bug") << to_text(report);
  EXPECT_GT(row_of(report, kProjected).failed, 0) << to_text(report);
}

TEST(LoneStep, HasTheKernelConstantsAndLayoutsOfItsStep) {
  const std::string model = test::example_model("bge_reranker_ts17").path.string();
  const plan::Plan plan = compiler::run(model, {}).plan;
  const auto at = std::ranges::find(plan.steps, OpKind::kAttention, &plan::Step::op);
  ASSERT_NE(at, plan.steps.end());
  const auto index = static_cast<size_t>(at - plan.steps.begin());
  std::map<std::string, int64_t> sizes;
  for (const plan::Symbol& symbol : plan.symbols) sizes[symbol.name] = 4;
  const auto lone = lone_step(plan, index, sizes);
  ASSERT_TRUE(lone.has_value());
  ASSERT_EQ(lone->plan.steps.size(), 1U);
  const plan::Step& step = lone->plan.steps[0];
  EXPECT_EQ(step.kernel, at->kernel);
  EXPECT_EQ(step.attrs, at->attrs);
  ASSERT_EQ(step.inputs.size(), at->inputs.size());
  // q, k and v are still views of one product.
  EXPECT_EQ(lone->plan.base_index(step.inputs[0]), lone->plan.base_index(step.inputs[1]));
  EXPECT_EQ(lone->plan.value(step.inputs[1]).strides.size(),
            plan.value(at->inputs[1]).strides.size());
  const auto unknown = lone_step(plan, index, {});
  EXPECT_FALSE(unknown.has_value());
}

}  // namespace
}  // namespace vernier::verify
