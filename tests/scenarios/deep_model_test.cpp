// Field case 2: the deep model whose residual stream has outlier channels. XLM-R-large's 24 layers
// at a width that FP64 can follow: with everything in FP16 the sums of squares of the norms do not
// fit and the answers are noise; the default policies of fp16 and bf16 keep them in f32 and pass.
// Contract: docs/verification_fitting.md "Field cases".
#include <gtest/gtest.h>

#include "cli/program.h"
#include "onnx/import.h"
#include "verify/verify.h"
#include "vernier/session.h"

namespace vernier::verify {
namespace {

class DeepModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const test::Outcome made = test::run_program(
        {"make-model", "xlmr", "-o", model_, "--layers", "24", "--hidden", "128", "--heads", "4",
         "--ffn", "512", "--vocab", "200", "--positions", "32", "--outliers", "32"});
    ASSERT_EQ(made.code, 0) << made.err;
  }

  Report verify_build(const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"build", model_, "-o", engine_};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const test::Outcome built = test::run_program(arguments);
    EXPECT_EQ(built.code, 0) << built.err;
    Request request;
    request.batches = {2};
    request.lengths = {8};
    request.threads = 2;
    request.localise = true;
    return verify_engine(Engine::open(engine_), *onnx::import_model(model_), request);
  }

  test::TemporaryFolder folder_;
  std::string model_ = folder_ / "deep.onnx", engine_ = folder_ / "deep.vn";
};

// The relative error after the norms, averaged over each third of the depth.
std::vector<double> error_by_depth(const Localisation& found) {
  std::vector<double> errors;
  for (const StepError& step : found.steps) {
    const bool norm = step.kernel.find("layer_norm") != std::string::npos;
    if (norm && step.reference_rms > 0) errors.push_back(step.total_rms / step.reference_rms);
  }
  std::vector<double> thirds(3);
  for (size_t i = 0; i < errors.size(); ++i) thirds[i * 3 / errors.size()] += errors[i];
  return thirds;
}

void expect_growth(const Report& report) {
  ASSERT_TRUE(report.localisation);
  const std::vector<double> thirds = error_by_depth(*report.localisation);
  EXPECT_GT(thirds[0], 0);
  EXPECT_GT(thirds[1], thirds[0]);
  EXPECT_GT(thirds[2], thirds[1]);
}

TEST_F(DeepModel, TheDefaultOfFp16PassesAndItsErrorGrowsWithDepth) {
  const Report report = verify_build({"--fp16"});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  expect_growth(report);
}

TEST_F(DeepModel, TheDefaultOfBf16PassesAndItsErrorGrowsWithDepth) {
  const Report report = verify_build({"--bf16"});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  expect_growth(report);
}

TEST_F(DeepModel, EverythingInFp16IsNoise) {
  const Report report = verify_build({"--fp16", "--rule", "name:* compute==f16 accumulate==f16"});
  EXPECT_TRUE(report.verdict == "precision" || report.verdict == "overflow" ||
              report.verdict == "nan")
      << to_text(report);
  const OutputResult& logits = report.outputs.at(0);
  if (logits.worst.wrong_non_finite == 0) {
    EXPECT_GT(logits.all_rms, 0.1 * logits.all_rms_reference);
  }
  for (const CheckResult& check : report.checks) {
    if (check.name == "each step against FP64") {
      EXPECT_EQ(check.failed, 0) << "the kernels do what they are asked: the policy is at fault";
    }
  }
}

}  // namespace
}  // namespace vernier::verify
