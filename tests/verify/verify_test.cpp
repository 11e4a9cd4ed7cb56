// Verify in its first form: a right engine passes on every example model; a wrong rewrite, a wrong
// kernel answer, NaN, a missing output and a foreign engine do not, and the report says why.
#include "verify/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compile/pipeline.h"
#include "core/attrs.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"

namespace vernier::verify {
namespace {

using test::ExampleModel;

// The pieces of one comparison, to be spoilt by a test before it looks.
struct Pieces {
  std::shared_ptr<ir::Graph> model;
  plan::Plan plan;
  std::shared_ptr<const Engine> engine;
  NamedTensors inputs, answers;

  explicit Pieces(const std::string& name, size_t case_index = 0) {
    const ExampleModel example = test::example_model(name);
    model = onnx::import_model(example.path);
    plan = compiler::run(example.path.string(), {}).plan;
    engine = Engine::from_bytes(engine::engine_bytes(plan));
    inputs = example.cases().at(case_index).inputs;
    Session session(engine, {.threads = 2});
    for (const Output& output : session.run(test::refs(inputs)))
      answers.emplace_back(output.name, test::copy(output));
  }
  Report report(const Request& request = {}) const {
    return compare(*model, plan, *engine->impl().backend, inputs, answers, request);
  }
};

class RightEngine : public ::testing::TestWithParam<std::string> {};

TEST_P(RightEngine, PassesWithManyValuesComparedInFp64) {
  const Report report = Pieces(GetParam()).report();
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_GE(report.compared_values, 5) << to_text(report);
}
INSTANTIATE_TEST_SUITE_P(Models, RightEngine, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const ExampleModel& model : test::example_models())
                             names.push_back(model.name);
                           return names;
                         }()),
                         [](const auto& one) { return one.param; });

TEST(WrongRewrite, AChangedEpsilonIsABugThatNamesTheStep) {
  Pieces setup("bge_reranker_ts17");
  size_t spoilt = setup.plan.steps.size();
  for (size_t s = 0; s < setup.plan.steps.size(); ++s) {
    if (setup.plan.steps[s].op != OpKind::kAddLayerNorm) continue;
    auto attrs = decode<NormAttrs>(setup.plan.steps[s].attrs);
    attrs.epsilon = 0.01;
    setup.plan.steps[s].attrs = encode(attrs);
    spoilt = s;
    break;
  }
  ASSERT_LT(spoilt, setup.plan.steps.size());
  const Report report = setup.report();
  EXPECT_EQ(report.verdict, "bug (rewrite)") << to_text(report);
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.explanation.find("step " + std::to_string(spoilt) + " "), std::string::npos)
      << report.explanation;
}

// An f32 copy of `tensor` with element `index` replaced.
Tensor with_element(const Tensor& tensor, int64_t index, double value) {
  EvalTensor copy = EvalTensor::from(tensor);
  copy.f[static_cast<size_t>(index)] = value;
  return copy.to_tensor();
}

TEST(WrongAnswer, OneElementOffByALittleIsFoundWithItsRow) {
  Pieces setup("bge_reranker_ts17", 2);
  Tensor& output = setup.answers[0].second;
  const int64_t last = output.elems() - 1;
  output = with_element(output, last, output.float_at(last) + 1e-4);
  const Report report = setup.report();
  EXPECT_EQ(report.verdict, "precision") << to_text(report);
  EXPECT_EQ(report.outputs[0].distance.worst_row, output.shape()[0] - 1);
}

TEST(WrongAnswer, NanInfinityAMissingOutputAndAnotherTypeNeverPass) {
  const Pieces good("bge_reranker_ts17");
  for (double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Pieces setup = good;
    setup.answers[0].second = with_element(setup.answers[0].second, 0, value);
    EXPECT_EQ(setup.report().verdict, "nan");
  }
  Pieces missing = good;
  missing.answers.clear();
  EXPECT_FALSE(missing.report().passed());
  EXPECT_NE(missing.report().explanation.find("missing"), std::string::npos)
      << missing.report().explanation;
  Pieces other_type = good;
  const EvalTensor values = EvalTensor::from(good.answers[0].second);
  other_type.answers[0].second =
      Tensor::from(DType::kF64, values.shape, std::span<const double>(values.f));
  EXPECT_NE(other_type.report().explanation.find("type f64, expected f32"), std::string::npos);
  Pieces extra = good;
  extra.answers.emplace_back("nonsense", good.answers[0].second);
  EXPECT_NE(extra.report().explanation.find("not a value of the model"), std::string::npos);
}

TEST(Expectation, StoredOutputsAgreeAndChangedOnesDoNot) {
  const Pieces setup("bge_reranker_ts17");
  Request request;
  request.expect = test::example_model("bge_reranker_ts17").cases()[0].outputs;
  EXPECT_TRUE(setup.report(request).passed()) << to_text(setup.report(request));
  request.expect[0].second = with_element(request.expect[0].second, 0, 7);
  EXPECT_EQ(setup.report(request).verdict, "expectation");
}

TEST(ToleranceText, IsReadAndRefusedWithTheReason) {
  const Tolerance t = parse_tolerance("rms=1e-3,max=0.5,cos=0.999");
  EXPECT_EQ(t.rms, 1e-3);
  EXPECT_EQ(t.max, 0.5);
  EXPECT_EQ(t.cos, 0.999);
  for (const char* bad : {"rms", "rms=", "rms=-1", "flops=1", "rms=1e-3,,max=1", "rms=nan"}) {
    try {
      parse_tolerance(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("expected worst=, max=, rms= or cos="),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(DistanceOf, CountsWhatAMeanWouldHide) {
  EvalTensor want(DType::kF32, {2, 2}), got(DType::kF32, {2, 2});
  want.f = {1, 2, 3, 4};
  got.f = {1, 2, 3.5, 4};
  const Distance d = distance(got, want);
  EXPECT_EQ(d.max_abs, 0.5);
  EXPECT_EQ(d.worst, 0.125);
  EXPECT_EQ(d.worst_row, 1);
  EXPECT_EQ(d.rms, 0.25);
  got.f[0] = std::nan("");
  EXPECT_EQ(distance(got, want).wrong_non_finite, 1);
  want.f[0] = std::nan("");
  EXPECT_EQ(distance(got, want).wrong_non_finite, 0);
}

}  // namespace
}  // namespace vernier::verify
