// Field case 2: the attention that is right in pieces and wrong as a whole: the tracker's target
// predictor as a whole, and every part between two values that the engine shows; a softmax planted
// in 16 bits is named, and raising it is what bisect asks for.
// Contract: docs/verification_fitting.md "Field cases".
#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "runtime/models.h"
#include "verify/bisect.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

class Tracker : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, Tracker, ::testing::Values("fp32", "fp16", "bf16"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(Tracker, WholeAndPartsPass) {
  const auto path = test::example_model("tracker_filter_predictor_ts17").path;
  CompileOptions options = test::options_here();
  options.mode = GetParam();
  const plan::Plan plan = compiler::run(path.string(), options).plan;
  const auto engine = Engine::from_bytes(engine::engine_bytes(plan));
  const auto model = onnx::import_model(path);
  Request request;
  request.batches = {1, 4};
  request.threads = 2;
  EXPECT_EQ(verify_engine(engine, *model, request).verdict, "pass");
  std::vector<std::string> cuts;  // visible values of the model, in the plan's order
  for (const plan::PlanValue& value : plan.values) {
    if (value.kind == plan::PlanValue::Kind::kArena && !value.name.empty())
      cuts.push_back(value.name);
  }
  ASSERT_GE(cuts.size(), 8U);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    request.from = {cuts[i]};
    request.to = {cuts[i + 1]};
    const Report report = verify_engine(engine, *model, request);
    EXPECT_EQ(report.verdict, "pass") << cuts[i] << " to " << cuts[i + 1] << "\n"
                                      << to_text(report);
    ASSERT_EQ(report.outputs.size(), 1U);
    EXPECT_EQ(report.outputs[0].name, cuts[i + 1]);
  }
}

// The model with `shift` added to the biases of its queries and keys: scores of hundreds that
// differ by little, which a softmax in 16 bits cannot tell apart. The usual fp16 keeps scores in
// f32.
std::shared_ptr<ir::Graph> with_shifted_scores(double shift) {
  auto model = onnx::import_model(test::example_model("tracker_filter_predictor_ts17").path);
  int shifted = 0;
  for (ir::NodeId id : model->order()) {
    const ir::Node& product = model->node(id);
    if (product.op != OpKind::kMatMul || !model->value(product.inputs[1]).is_constant()) continue;
    const Shape shape = model->value(product.inputs[1]).constant.shape();
    if (shape.size() != 2 || shape[1] != 3 * shape[0]) continue;  // q, k, v
    for (ir::NodeId user : model->value(product.outputs[0]).users) {
      for (ir::ValueId in : model->node(user).inputs) {
        if (!model->value(in).is_constant()) continue;
        Tensor& bias = model->value(in).constant;
        EvalTensor values = EvalTensor::from(bias);
        for (size_t i = 0; i < values.f.size() * 2 / 3; ++i) values.f[i] += shift;
        bias = values.to_tensor();
        ++shifted;
      }
    }
  }
  EXPECT_GT(shifted, 0);
  return model;
}

// The culprit is found and named, and taking the rule away restores the verdict.
TEST(TrackerPlanted, ASoftmaxInSixteenBitsIsNamed) {
  const auto model = with_shifted_scores(10);
  Request request;
  request.batches = {1, 4};
  request.threads = 2;
  CompileOptions options = test::options_here();
  options.mode = "fp16";
  const auto usual = Engine::from_bytes(engine::engine_bytes(compiler::plan_of(*model, options)));
  const Report right = verify_engine(usual, *model, request);
  EXPECT_EQ(right.verdict, "pass") << to_text(right);
  options.rules = {"role:attention.softmax compute==bf16"};
  if (options.device != "cpu") {
    EXPECT_THROW(compiler::plan_of(*model, options), Error);
    GTEST_SKIP() << "SKIP: no kernel of " << options.device
                 << " takes a softmax in 16 bits, so the build refuses it";
  }
  const auto engine = Engine::from_bytes(engine::engine_bytes(compiler::plan_of(*model, options)));
  const Report report = verify_engine(engine, *model, request);
  EXPECT_EQ(report.verdict, "precision") << to_text(report);
  const Localisation found = localise_model(engine, *model, request);
  ASSERT_FALSE(found.by_share(0.05).empty());
  const StepError& first = found.steps[found.by_share(0.05)[0]];
  EXPECT_TRUE(first.kernel.find("attention") != std::string::npos ||
              first.kernel.find("softmax") != std::string::npos)
      << to_text(found);
  const Bisection raised = bisect_engine(engine, *model, request);
  EXPECT_EQ(raised.outcome, BisectOutcome::kFound) << to_text(raised);
  EXPECT_FALSE(raised.nodes.empty());
  for (const BisectedNode& node : raised.nodes) EXPECT_EQ(node.op, "Softmax") << to_text(raised);
}

}  // namespace
}  // namespace vernier::verify
