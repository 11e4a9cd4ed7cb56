// Verify: a right engine passes on every example model; a wrong rewrite, a foreign engine, wrong
// expectations and impossible sweeps do not, and the report says why. Wrong kernels are planted in
// tests/plants.
#include "verify/verify.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "compile/pipeline.h"
#include "core/attrs.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plan/graphs.h"
#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier::verify {
namespace {

using test::ExampleModel;

// An engine at hand, to be spoilt by a test before it is verified.
struct Pieces {
  std::shared_ptr<ir::Graph> model;
  plan::Plan plan;
  Request request;

  explicit Pieces(const std::string& name, const CompileOptions& options = {}) {
    const ExampleModel example = test::example_model(name);
    model = onnx::import_model(example.path);
    plan = compiler::run(example.path.string(), options).plan;
    request.threads = 2;
  }
  Report report() const {
    return verify_engine(Engine::from_bytes(engine::engine_bytes(plan)), *model, request);
  }
  std::string error() const {
    try {
      report();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

const CheckResult& check_named(const Report& report, const std::string& part) {
  for (const CheckResult& check : report.checks) {
    if (check.name.find(part) != std::string::npos) return check;
  }
  throw std::runtime_error("no check named " + part);
}

class RightEngine : public ::testing::TestWithParam<std::string> {};

TEST_P(RightEngine, PassesItsSweep) {
  Pieces pieces(GetParam());
  const Report report = pieces.report();
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_GE(report.compared_values, 5) << to_text(report);
  for (const char* name : {"rewritten", "each step", "outputs", "memory", "one thread", "alone",
                           "copied", "reverse", "share a batch"})
    EXPECT_GT(check_named(report, name).done, 0) << name << "\n" << to_text(report);
  for (const OutputResult& output : report.outputs) {
    EXPECT_GT(output.noise_rms, 0) << output.name;
    EXPECT_FALSE(output.mixed_by_model) << output.name;
  }
}
INSTANTIATE_TEST_SUITE_P(Models, RightEngine, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const ExampleModel& model : test::example_models())
                             names.push_back(model.name);
                           return names;
                         }()),
                         [](const auto& one) { return one.param; });

TEST(TrainedModels, PassTheirSweep) {
  const auto folder = std::filesystem::path(VERNIER_SHARED_MODELS) / "trained";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIP: " << folder << " is not here";
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    Request request;
    request.batches = {1, 4};
    request.threads = 2;
    const auto engine = Engine::from_bytes(compile_to_bytes(entry.path().string()));
    const Report report = verify_engine(engine, *onnx::import_model(entry.path()), request);
    EXPECT_EQ(report.verdict, "pass") << entry.path() << "\n" << to_text(report);
    ++models;
  }
  EXPECT_GT(models, 0);
}

TEST(Sweep, CellsAreBatchesTimesLengths) {
  Pieces pieces("bge_reranker_ts17");
  pieces.request.batches = {1, 3};
  pieces.request.lengths = {5, 7};
  const Report report = pieces.report();
  ASSERT_EQ(report.cells.size(), 4U);
  EXPECT_EQ(report.cells[3].batch, 3);
  EXPECT_EQ(report.cells[3].length, 7);
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["verdict"], "pass");
  EXPECT_EQ(json["cells"].size(), 4U);
  EXPECT_EQ(json["outputs"][0]["name"], "output");
  for (const char* key : {"verdict", "max_abs", "rms", "noise_rms", "worst_row"})
    EXPECT_TRUE(json["outputs"][0].contains(key)) << key;
}

TEST(Sweep, IsTheSameForTheSameSeed) {
  Pieces pieces("tracker_filter_predictor_ts17");
  pieces.request.batches = {2};
  const Report a = pieces.report(), b = pieces.report();
  EXPECT_EQ(a.data_hash, b.data_hash);
  EXPECT_EQ(a.outputs[0].worst.max_abs, b.outputs[0].worst.max_abs);
  pieces.request.seed = 2;
  EXPECT_NE(pieces.report().data_hash, a.data_hash);
}

TEST(Sweep, SizesOutsideTheEngineAreRefusedWithItsRange) {
  Pieces pieces("bge_reranker_ts17");
  pieces.request.batches = {1, 1000};
  EXPECT_NE(pieces.error().find("--batches: 1000 is outside the engine's range of 'batch', 1..64"),
            std::string::npos)
      << pieces.error();
  pieces.request.batches = {1};
  pieces.request.lengths = {4000};
  EXPECT_NE(pieces.error().find("--lengths: 4000 is outside"), std::string::npos) << pieces.error();
  pieces.request.lengths = {4};
  pieces.request.batch_axis = "rows";
  EXPECT_NE(pieces.error().find("--batch-axis: the engine has no size 'rows'"), std::string::npos)
      << pieces.error();
}

TEST(UserInputs, AreOneCellEachAndTheirRowsAreCheckedToo) {
  Pieces pieces("bge_reranker_ts17");
  const auto cases = test::example_model("bge_reranker_ts17").cases();
  for (const test::ModelCase& one : cases) pieces.request.inputs.push_back({one.file, one.inputs});
  const Report report = pieces.report();
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_EQ(report.cells.size(), cases.size());
  EXPECT_GT(check_named(report, "alone").done, 0);
}

TEST(UserInputs, ThatDoNotFitAreRefused) {
  Pieces pieces("bge_reranker_ts17");
  NamedTensors inputs = test::example_model("bge_reranker_ts17").cases()[0].inputs;
  inputs.pop_back();
  pieces.request.inputs = {{"mine.npz", inputs}};
  EXPECT_NE(pieces.error().find("'attention_mask': missing"), std::string::npos) << pieces.error();
}

TEST(WrongRewrite, AChangedEpsilonIsABugThatNamesTheStep) {
  CompileOptions options;
  options.passes_off = {"unpad"};  // the tokens of all rows have no ONNX name
  Pieces pieces("bge_reranker_ts17", options);
  size_t spoilt = pieces.plan.steps.size();
  for (size_t s = 0; s < pieces.plan.steps.size(); ++s) {
    if (pieces.plan.steps[s].op != OpKind::kAddLayerNorm) continue;
    auto attrs = decode<NormAttrs>(pieces.plan.steps[s].attrs);
    attrs.epsilon = 0.01;
    pieces.plan.steps[s].attrs = encode(attrs);
    spoilt = s;
    break;
  }
  ASSERT_LT(spoilt, pieces.plan.steps.size());
  const Report report = pieces.report();
  EXPECT_EQ(report.verdict, "bug (rewrite)") << to_text(report);
  EXPECT_NE(report.explanation.find("step " + std::to_string(spoilt) + " "), std::string::npos)
      << report.explanation;
}

TEST(ForeignEngine, IsRefusedWithBothSetsOfNames) {
  Pieces pieces("bge_reranker_ts17");
  pieces.plan = compiler::run(test::example_model("vit_ts17").path.string(), {}).plan;
  EXPECT_NE(pieces.error().find("was not built from model"), std::string::npos) << pieces.error();
  EXPECT_NE(pieces.error().find("pixel_values"), std::string::npos) << pieces.error();
}

TEST(Expectation, StoredOutputsAgreeAndChangedOnesDoNot) {
  Pieces pieces("bge_reranker_ts17");
  const test::ModelCase one = test::example_model("bge_reranker_ts17").cases()[0];
  pieces.request.inputs = {{one.file, one.inputs}};
  pieces.request.expect = one.outputs;
  EXPECT_EQ(pieces.report().verdict, "pass");
  EvalTensor changed = EvalTensor::from(one.outputs[0].second);
  changed.f[0] = 7;
  pieces.request.expect[0].second = changed.to_tensor();
  const Report report = pieces.report();
  EXPECT_EQ(report.verdict, "reference") << to_text(report);
  EXPECT_NE(report.explanation.find("is not what was expected"), std::string::npos);
  pieces.request.expect[0].first = "logits";
  EXPECT_NE(
      pieces.error().find("array 'logits' is not an output of the model; its outputs are output"),
      std::string::npos)
      << pieces.error();
}

TEST(ToleranceText, IsReadAndRefusedWithTheReason) {
  const Tolerance t = parse_tolerance("rms=1e-3,max=0.5,cos=0.999,flips=0");
  EXPECT_EQ(t.rms, 1e-3);
  EXPECT_EQ(t.max, 0.5);
  EXPECT_EQ(t.cos, 0.999);
  EXPECT_EQ(t.flips, 0);
  EXPECT_TRUE(std::isinf(t.worst)) << "what is not named is not checked";
  EXPECT_EQ(parse_tolerance("").worst, 1e-5);
  EXPECT_EQ(to_text(t), "rms=0.001,max=0.5,cos=0.999,flips=0");
  for (const char* bad : {"rms", "rms=", "rms=-1", "flops=1", "rms=1e-3,,max=1", "rms=nan"}) {
    try {
      parse_tolerance(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_NE(
          std::string(error.what()).find("expected worst=, max=, rms=, cos=, flips= or metric="),
          std::string::npos)
          << error.what();
    }
  }
}

TEST(Part, NamesThatDoNotExistOrAreFusedAreRefusedWithTheNearest) {
  Pieces pieces("bge_reranker_ts17");
  pieces.request.from = {"inputids"};
  EXPECT_NE(pieces.error().find("--from: the model has no value 'inputids'"), std::string::npos)
      << pieces.error();
  EXPECT_NE(pieces.error().find("input_ids"), std::string::npos) << pieces.error();
  std::string fused;  // a value of the model that no step shows
  for (size_t v = 0; v < pieces.model->num_values(); ++v) {
    const std::string& name = pieces.model->value(static_cast<ir::ValueId>(v)).name;
    const bool shown = std::ranges::any_of(
        pieces.plan.values, [&](const plan::PlanValue& value) { return value.name == name; });
    if (name.find("Softmax") != std::string::npos && !shown) fused = name;
  }
  ASSERT_FALSE(fused.empty());
  pieces.request.from = {};
  pieces.request.to = {fused};
  EXPECT_NE(pieces.error().find("is inside a fused step of this engine"), std::string::npos)
      << pieces.error();
}

TEST(Stamp, TheVerdictIsReadBackFromTheFile) {
  const ExampleModel example = test::example_model("vit_ts17");
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("vernier_stamp_" + std::to_string(getpid()) + ".vn");
  compile(example.path.string(), file.string());
  Request request;
  request.model = example.path;
  request.engine = file;
  request.batches = {1, 2};
  const Report report = verify_and_stamp(request);
  const auto stamped = Engine::open(file.string());
  ASSERT_NE(stamped->certificate(), nullptr);
  EXPECT_EQ(stamped->certificate()->verdict, "pass");
  EXPECT_EQ(stamped->certificate()->engine_hash, stamped->content_hash());
  EXPECT_EQ(stamped->certificate()->data_hash, report.data_hash);
  EXPECT_EQ(stamped->certificate()->ranges, (std::vector<Certificate::Range>{{{"batch", {1, 2}}}}));
  EXPECT_FALSE(stamped->certificate()->own_tolerance);
  request.tolerance = parse_tolerance("max=1e-30");
  verify_and_stamp(request);
  EXPECT_EQ(Engine::open(file.string())->certificate()->verdict, "precision");
  EXPECT_TRUE(Engine::open(file.string())->certificate()->own_tolerance);
  request.from = {"pixel_values"};
  EXPECT_THROW(verify_and_stamp(request), Error);
  std::filesystem::remove(file);
}

TEST(Precision, ATolerancePastWhatF32CanDoFails) {
  Pieces pieces("bge_reranker_ts17");
  pieces.request.batches = {2};
  pieces.request.tolerance = parse_tolerance("max=1e-12");
  const Report report = pieces.report();
  EXPECT_EQ(report.verdict, "precision") << to_text(report);
  EXPECT_NE(report.explanation.find("limit 1e-12"), std::string::npos) << report.explanation;
}

// One column of 1001 is a difference of numbers that are almost equal, as in a few tokens of an
// embedder: it is off by far more than six times the rms of all, and by no more than f32 explains.
constexpr std::string_view kCancels =
    R"(graph g(%x: f32[batch, 1000], %near: f32[batch, 1]) {
  %same = Mul(%near, f32[1]{1.0001})
  %both = Concat(%near, %same) {axis=1}
  %back = MatMul(%both, f32[2, 1]{5000, -5000})
  %y = Concat(%x, %back) {axis=1}
  return %y as "y"
})";

Report report_of(std::string_view text) {
  Request request;
  request.batches = {8};
  const auto graph = test::graph_of(std::string(text));
  return verify_engine(Engine::from_bytes(engine::engine_bytes(compiler::plan_of(*graph, {}))),
                       *graph, request);
}

TEST(Precision, AnElementInF32MayBeOffByTheLargestNoise) {
  const Report report = report_of(kCancels);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  const OutputResult& y = report.outputs.at(0);
  EXPECT_GT(y.worst.worst, 2 * y.limits.worst);
  EXPECT_GT(y.worst.max_abs, 6 * y.noise_rms);
  EXPECT_LT(y.worst.max_abs, y.limits.element);
}

// Chains of one step whose inner results are far larger than what is left of them.
constexpr std::string_view kCancelsInside =
    R"(graph g(%x: f32[batch, 100]) {
  %large = Add(%x, f32[1]{5000})
  %y = Sub(%large, f32[1]{5000})
  return %y as "y"
})";
constexpr std::string_view kLogOfNearlyOne =
    R"(graph g(%x: f32[batch, 100]) {
  %small = Mul(%x, f32[1]{0.0001})
  %near = Add(%small, f32[1]{1})
  %y = Log(%near)
  return %y as "y"
})";

TEST(Precision, AChainInF32MayLoseWhatItsInnerResultsRound) {
  for (const std::string_view text : {kCancelsInside, kLogOfNearlyOne}) {
    const Report report = report_of(text);
    EXPECT_EQ(report.verdict, "pass") << to_text(report);
    EXPECT_GT(report.outputs.at(0).worst.max_abs, 1e-8) << text;
  }
}

}  // namespace
}  // namespace vernier::verify
