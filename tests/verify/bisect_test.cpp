// Bisect: planted rules are found, near and far and as a set; what is not caused by precision is
// said to be none.
#include "verify/bisect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

#include "backend/cpu/cpu.h"
#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "verify/runner.h"
#include "vernier/compile.h"

namespace vernier::verify {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kModel = "bert_embedder_ts17";
const std::string kBlock0 = "/m/encoder/layer.0/", kBlock1 = "/m/encoder/layer.1/";

// A planted type that is far too small for what the node does.
std::string planted(const std::string& node, const std::string& type = "f8e4m3") {
  return "name:" + node + " compute==" + type;
}

Bisection bisected(const CompileOptions& options, Request request = {}) {
  const test::ExampleModel model = test::example_model(kModel);
  const auto engine = Engine::from_bytes(compile_to_bytes(model.path.string(), options));
  if (request.batches.empty()) request.batches = {4};
  if (request.lengths.empty()) request.lengths = {16};
  request.threads = 2;
  return bisect_engine(engine, *onnx::import_model(model.path), request);
}

std::vector<std::string> names(const Bisection& found) {
  std::vector<std::string> result;
  for (const BisectedNode& node : found.nodes) result.push_back(node.node);
  return result;
}

CompileOptions fp16(std::vector<std::string> rules = {}) {
  CompileOptions options;
  options.mode = "fp16";
  options.rules = std::move(rules);
  return options;
}

TEST(Bisect, FindsOnePlantedNode) {
  const std::string softmax = kBlock1 + "attention/self/Softmax";
  const Bisection found = bisected(fp16({planted(softmax)}));
  ASSERT_EQ(found.outcome, BisectOutcome::kFound) << to_text(found);
  ASSERT_THAT(names(found), ElementsAre(softmax)) << to_text(found);
  const BisectedNode& node = found.nodes[0];
  EXPECT_EQ(node.compute, DType::kF8E4M3);
  EXPECT_EQ(node.rule, planted(softmax));
  EXPECT_TRUE(found.rules_pass);
  EXPECT_GT(found.candidates, 10U);
  EXPECT_LE(found.builds, 12) << to_text(found);
}

// They stand at both ends: every prefix of the model that has both has much else.
TEST(Bisect, FindsTwoThatAreFarApartAndNothingBetween) {
  const std::string first = kBlock0 + "attention/self/Softmax",
                    second = kBlock1 + "attention/self/Softmax";
  const Bisection found = bisected(fp16({planted(first), planted(second)}));
  ASSERT_EQ(found.outcome, BisectOutcome::kFound) << to_text(found);
  EXPECT_THAT(names(found), ElementsAre(first, second)) << to_text(found);
  EXPECT_TRUE(found.rules_pass);
}

TEST(Bisect, TheOptionsThatItPrintsBuildAnEngineThatPasses) {
  const std::string softmax = kBlock0 + "attention/self/Softmax";
  const Bisection found = bisected(fp16({planted(softmax)}));
  ASSERT_EQ(found.nodes.size(), 1U);
  const std::string rule = found.nodes[0].raising.at(0);
  EXPECT_THAT(rule, testing::StartsWith("name:" + softmax + " compute=f32"));
  EXPECT_THAT(to_text(found), HasSubstr("--rule '" + rule + "'"));
  const Bisection fixed = bisected(fp16({planted(softmax), rule}));
  EXPECT_EQ(fixed.outcome, BisectOutcome::kPasses) << to_text(fixed);
}

// Probes are never written to a file: they run as if they were, bit for bit.
TEST(Bisect, AProbeRunsAsTheEngineThatWouldBeWritten) {
  const auto model = onnx::import_model(test::example_model(kModel).path);
  const compiler::Job job = compiler::planned_again(*model, fp16());
  plan::KeptConstants kept;
  kept.expect(*job.known->raised);
  for (const std::set<std::string>& raised : {std::set<std::string>{}, {"#20", "#21", "#22"}}) {
    const plan::Plan plan =
        compiler::plan_of(*model, job, plan::PlanOptions::Constants::kStored, raised, &kept);
    const plan::Plan alone =
        compiler::plan_of(*model, fp16(), plan::PlanOptions::Constants::kStored, raised);
    const auto bytes = engine::engine_bytes(alone);
    EXPECT_EQ(engine::engine_bytes(plan), bytes);
    const NamedTensors inputs = test::example_model(kModel).cases().at(0).inputs;
    Runner probe(Engine::Impl::engine_of(plan, backend::cpu_backend()), {.threads = 2});
    Runner written(Engine::from_bytes(bytes), {.threads = 2});
    EXPECT_THAT(different_outputs(probe.run(inputs), written.run(inputs)), testing::IsEmpty());
  }
}

TEST(Bisect, HasNothingToFindInAnEngineThatPasses) {
  const Bisection found = bisected(fp16());
  EXPECT_EQ(found.outcome, BisectOutcome::kPasses) << to_text(found);
  EXPECT_EQ(found.builds, 0);
  EXPECT_TRUE(found.nodes.empty());
  EXPECT_THAT(to_text(found), HasSubstr("there is nothing to find"));
}

TEST(Bisect, KeepsToTheLimitsOfTheUser) {
  Request request;
  request.tolerance = parse_tolerance("max=1e-5");
  const Bisection found = bisected(fp16(), request);
  ASSERT_EQ(found.outcome, BisectOutcome::kFound) << to_text(found);
  EXPECT_GT(found.nodes.size(), 1U);
  EXPECT_TRUE(found.rules_pass) << to_text(found);
  request.tolerance = parse_tolerance("max=1e-12");
  const Bisection impossible = bisected(fp16(), request);
  EXPECT_EQ(impossible.outcome, BisectOutcome::kNotPrecision);
  EXPECT_EQ(impossible.builds, 2);
  EXPECT_THAT(to_text(impossible), HasSubstr("precision is not the cause"));
}

// A product that adds its residual keeps what it has before the sum in registers. With the sum
// raised the two are no longer fused, and the product is stored as it asked: it must be raised too.
TEST(Bisect, RaisesWhatLeavesItsRegistersWhenAFusionEnds) {
  CompileOptions options = fp16();
  options.passes_off = {"add_layer_norm"};
  Request request;
  request.tolerance = parse_tolerance("max=1e-5");
  const Bisection found = bisected(options, request);
  ASSERT_EQ(found.outcome, BisectOutcome::kFound) << to_text(found);
  EXPECT_TRUE(found.rules_pass) << to_text(found);
}

TEST(Bisect, LeavesBugsToReplay) {
  for (const test::Plant& plant : test::plants()) {
    if (plant.model != std::string("bge_reranker_ts17") || plant.verdict != "bug" ||
        plant.default_sizes)  // this run is small
      continue;
    const test::ExampleModel model = test::example_model(std::string(plant.model));
    const auto file = std::filesystem::temp_directory_path() /
                      ("vernier_bisect_" + std::to_string(getpid()) + ".vn");
    compile(model.path.string(), file.string());
    const auto engine = Engine::open(file.string(), test::planted_backend(&plant));
    std::filesystem::remove(file);
    Request request;
    request.batches = {4};
    request.lengths = {16};
    const Bisection found = bisect_engine(engine, *onnx::import_model(model.path), request);
    EXPECT_EQ(found.outcome, BisectOutcome::kNotPrecision) << plant.name;
    EXPECT_EQ(found.verdict, "bug") << plant.name;
    EXPECT_EQ(found.builds, 0);
    EXPECT_THAT(to_text(found), HasSubstr("precision is not the cause"));
    return;
  }
  FAIL() << "no plant to try";
}

TEST(Bisect, JsonHasWhatTheTextShows) {
  const std::string softmax = kBlock1 + "attention/self/Softmax";
  const auto json = nlohmann::json::parse(to_json(bisected(fp16({planted(softmax)}))));
  EXPECT_EQ(json["outcome"], "found");
  ASSERT_EQ(json["nodes"].size(), 1U);
  EXPECT_EQ(json["nodes"][0]["node"], softmax);
  EXPECT_EQ(json["nodes"][0]["got"]["compute"], "f8e4m3");
  EXPECT_EQ(json["options"][0],
            "--rule '" + json["nodes"][0]["raising"][0].get<std::string>() + "'");
  EXPECT_EQ(json["rules_pass"], true);
}

}  // namespace
}  // namespace vernier::verify
