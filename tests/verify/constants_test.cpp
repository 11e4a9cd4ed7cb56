// The check of constants: every constant of an engine is held against the model's, whatever passes,
// types and packing did to it; a wrong one that no input looks at is found by this check alone.
// Contract: docs/verification_checks.md "Constants".
#include "verify/sweep/constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "onnx/model_builder.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kName = "constants against the model";

Report verified(const plan::Plan& plan, const ir::Graph& model) {
  Request request;
  request.batches = {1};
  request.lengths = {4};
  request.threads = 2;
  const auto engine =
      Engine::from_bytes(engine::engine_bytes(plan), test::planted_backend(nullptr));
  return verify_engine(engine, model, request);
}

const CheckResult& row_of(const Report& report) {
  return *std::ranges::find(report.checks, kName, &CheckResult::name);
}

struct Built {
  plan::Plan plan;
  std::shared_ptr<ir::Graph> model;
};
Built built(const std::string& name, const std::string& mode) {
  const std::string path = test::example_model(name).path.string();
  CompileOptions options;
  options.mode = mode;
  return {compiler::run(path, options).plan, onnx::import_model(path)};
}

class ConstantPlants : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Plants, ConstantPlants,
                         ::testing::Values("vocabulary-row", "late-positions", "bias-element",
                                           "packed-columns", "vocabulary-row-fp16", "int8-scale"),
                         &test::plant_test_name<::testing::TestParamInfo<std::string_view>>);

TEST_P(ConstantPlants, AreFoundByThisCheck) {
  const auto plant = std::ranges::find(test::plants(), GetParam(), &test::Plant::name);
  ASSERT_NE(plant, test::plants().end());
  Built engine = built(std::string(plant->model), std::string(plant->mode));
  plant->spoil(engine.plan);
  const Report report = verified(engine.plan, *engine.model);
  EXPECT_EQ(report.verdict, "bug (constant)") << to_text(report);
  EXPECT_GE(row_of(report).failed, 1) << to_text(report);
}

// What the other checks do not see: no input of the sweep reads these rows.
TEST(Constants, RowsThatNobodyLooksUpAreFoundByNoOtherCheck) {
  const auto plant = std::ranges::find(test::plants(), "late-positions", &test::Plant::name);
  Built engine = built(std::string(plant->model), "fp32");
  plant->spoil(engine.plan);
  const Report report = verified(engine.plan, *engine.model);
  for (const CheckResult& check : report.checks)
    EXPECT_EQ(check.failed > 0, check.name == kName) << check.name << "\n" << to_text(report);
  EXPECT_THAT(report.explanation, HasSubstr("position_embeddings"));
  EXPECT_THAT(report.explanation, HasSubstr("the first at [64, 0]"));
}

struct Case {
  std::string model, mode;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.model << " " << one.mode; }
class AllConstants : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, AllConstants,
                         ::testing::Values(Case{"bge_reranker_ts17", "fp32"},
                                           Case{"gpt2_ts17", "fp16"}, Case{"vit_ts17", "bf16"},
                                           Case{"deformable_attention_ts17", "fp32"},
                                           Case{"tracker_filter_predictor_ts17", "fp16"},
                                           Case{"bert_ts11", "int8"}));

TEST_P(AllConstants, AreHeldAgainstTheModel) {
  const Built engine = built(GetParam().model, GetParam().mode);
  const Report report = verified(engine.plan, *engine.model);
  EXPECT_EQ(row_of(report).failed, 0) << row_of(report).note;
  const std::string all = std::to_string(row_of(report).done);
  EXPECT_THAT(row_of(report).note, StartsWith(all + " of " + all + " constants, "));
}

TEST(Constants, ThoseThatNobodyRecordedAreCountedAndNamed) {
  Built engine = built("bge_reranker_ts17", "fp32");
  for (plan::PlanValue& value : engine.plan.values) {
    if (value.name.find("word_embeddings") != std::string::npos) value.derivation = plan::kNone;
  }
  const Report report = verified(engine.plan, *engine.model);
  const std::string held = std::to_string(row_of(report).done),
                    all = std::to_string(row_of(report).done + 1);
  EXPECT_THAT(row_of(report).note, StartsWith(held + " of " + all + " constants, "));
  EXPECT_THAT(row_of(report).note, HasSubstr("; not held: constant '"));
  EXPECT_THAT(row_of(report).note, HasSubstr("word_embeddings"));
}

TEST(Constants, OfAnotherModelAreFindings) {
  Built engine = built("bge_reranker_ts17", "fp32");
  for (plan::DerivationRow& row : engine.plan.derivations)
    if (row.name.find("word_embeddings") != std::string::npos) row.name = "no_such_weight";
  const Report report = verified(engine.plan, *engine.model);
  EXPECT_EQ(report.verdict, "bug (constant)") << to_text(report);
  EXPECT_THAT(report.explanation, HasSubstr("the model has no constant 'no_such_weight'"));
}

// conv_batch_norm computes new weights in f64.
TEST(Constants, OfAFoldedBatchNormAreHeld) {
  using onnx::f32_tensor;
  onnx::ModelBuilder model(17);
  model.input("x", onnx::kFloat, {"batch", int64_t{2}, int64_t{5}, int64_t{5}});
  std::vector<float> weights(36);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = 0.1F * static_cast<float>(i % 7) - 0.3F;
  model.initializer(f32_tensor("w", {2, 2, 3, 3}, weights));
  model.initializer(f32_tensor("b", {2}, {0.1F, -0.2F}));
  model.initializer(f32_tensor("scale", {2}, {1.3F, 0.7F}));
  model.initializer(f32_tensor("shift", {2}, {0.3F, -0.6F}));
  model.initializer(f32_tensor("mean", {2}, {0.05F, 0.4F}));
  model.initializer(f32_tensor("var", {2}, {0.9F, 1.7F}));
  model.node("Conv", {"x", "w", "b"}, {"c"});
  model.node("BatchNormalization", {"c", "scale", "shift", "mean", "var"}, {"y"});
  model.output("y");
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "constants_batch_norm.onnx";
  const std::string bytes = model.bytes();
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const plan::Plan plan = compiler::run(path.string(), {}).plan;
  ASSERT_EQ(plan.steps.size(), 1U);
  const Report report = verified(plan, *onnx::import_model(path));
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_THAT(row_of(report).note, StartsWith("2 of 2 constants, 38 numbers"));
}

TEST(Constants, Int8WeightsAreWithinHalfAStep) {
  const std::vector<double> real{0.5, -1.27, 0.2, 1.0};
  const Tensor exact = Tensor::from(DType::kF32, {2, 2}, std::span<const double>(real));
  const auto weights = [](std::vector<double> q) {
    return Tensor::from(DType::kQ8, {2, 2}, std::span<const double>(q));
  };
  const std::vector<double> steps{0.5 / 127, 0.01};
  const Tensor scales = Tensor::from(DType::kF32, {2}, std::span<const double>(steps));
  EXPECT_EQ(quantized_complaint(weights({127, -127, 51, 100}), scales, exact, {}), "");
  EXPECT_THAT(quantized_complaint(weights({127, -127, 52, 100}), scales, exact, {}),
              HasSubstr("[1, 0] is 52 steps of"));
  EXPECT_THAT(quantized_complaint(weights({127, -126, 51, 100}), scales, exact, {}),
              HasSubstr("[0, 1] is -126 steps of"));
  EXPECT_EQ(scales_complaint(scales, exact, {}), "");
  const std::vector<double> wide{0.5 / 127, 0.011}, low{0.3 / 127, 0.01};
  EXPECT_THAT(
      scales_complaint(Tensor::from(DType::kF32, {2}, std::span<const double>(wide)), exact, {}),
      HasSubstr("for column 1"));
  EXPECT_THAT(
      scales_complaint(Tensor::from(DType::kF32, {2}, std::span<const double>(low)), exact, {}),
      HasSubstr("for column 0"));
}

}  // namespace
}  // namespace vernier::verify
