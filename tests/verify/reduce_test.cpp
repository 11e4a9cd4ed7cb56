// Reduce: a planted rule leaves a few nodes, which fail again from the files; an engine that passes
// leaves nothing.
#include "verify/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compile/pipeline.h"
#include "core/hash.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier::verify {
namespace {

using testing::Contains;
using testing::HasSubstr;

class Reduced : public testing::Test {
 protected:
  Reduced() : folder_(testing::TempDir() + "vernier_reduce_" + std::to_string(getpid())) {}
  ~Reduced() override { std::filesystem::remove_all(folder_); }
  Reduction reduced(const std::string& name, const std::vector<std::string>& rules) const {
    const test::ExampleModel model = test::example_model(name);
    CompileOptions options;
    options.mode = "fp16";
    options.rules = rules;
    const auto engine = Engine::from_bytes(compile_to_bytes(model.path.string(), options));
    Request request;
    request.batches = {1, 4};
    request.lengths = {16};
    request.threads = 2;
    return reduce_engine(engine, *onnx::import_model(model.path), onnx::ModelSlicer(model.path),
                         request, {.folder = folder_, .plugins = {}});
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

TEST_F(Reduced, APlantedNodeIsLeftWithLittleAroundIt) {
  const std::string softmax = "/m/encoder/layer.1/attention/self/Softmax";
  const Reduction found = reduced("bert_embedder_ts17", {"name:" + softmax + " compute==f8e4m3"});
  ASSERT_EQ(found.outcome, ReduceOutcome::kReduced) << to_text(found);
  EXPECT_THAT(found.nodes, Contains(softmax));
  EXPECT_LE(found.nodes.size(), 4U) << to_text(found);
  EXPECT_GT(found.model_nodes, 200U);
  EXPECT_NE(found.part_verdict, "pass");
  EXPECT_EQ(text_of("command.txt"), found.command + "\n");
  EXPECT_THAT(found.command, HasSubstr("vernier build model.onnx -o model.vn --fp16 --rule 'name:" +
                                       softmax + " compute==f8e4m3"));
  EXPECT_THAT(found.command,
              HasSubstr("&& vernier verify model.vn --model model.onnx --inputs inputs.npz"));
  const auto part = onnx::import_model(folder_ / "model.onnx");
  for (ir::ValueId input : part->inputs) {
    for (const Dim& dim : part->value(input).shape) EXPECT_TRUE(dim.is_constant());
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model.vn"));
}

// The composite is one step of nine nodes.
TEST_F(Reduced, ACompositeIsLeftWhereTheWholeOfItFails) {
  const Reduction found = reduced("bert_embedder_ts17", {"op:LayerNorm layer:0 compute==bf16"});
  ASSERT_EQ(found.outcome, ReduceOutcome::kReduced) << to_text(found);
  EXPECT_LE(found.nodes.size(), 12U) << to_text(found);
}

// The kernels that the engine was opened with are those of the parts.
TEST_F(Reduced, AWrongKernelIsLeftAlone) {
  for (const test::Plant& plant : test::plants()) {
    if (plant.model != std::string("bge_reranker_ts17") || plant.verdict != "bug" ||
        plant.default_sizes || plant.packed)  // this run is small
      continue;
    const test::ExampleModel model = test::example_model(std::string(plant.model));
    const auto engine =
        Engine::from_bytes(compile_to_bytes(model.path.string()), test::planted_backend(&plant));
    Request request;
    request.batches = {4};
    request.lengths = {16};
    request.threads = 2;
    const Reduction found =
        reduce_engine(engine, *onnx::import_model(model.path), onnx::ModelSlicer(model.path),
                      request, {.folder = folder_, .plugins = {}});
    ASSERT_EQ(found.outcome, ReduceOutcome::kReduced) << plant.name << "\n" << to_text(found);
    EXPECT_EQ(found.part_verdict, "bug") << to_text(found);
    EXPECT_LE(found.nodes.size(), 12U) << to_text(found);
    return;
  }
  FAIL() << "no plant to try";
}

// One operand of an int8 engine has a static range that is far too narrow. The part is built with
// the same factors and ranges: with the scales of its rows it would pass.
TEST_F(Reduced, ScalesOfItsProductsGoWithThePart) {
  const test::ExampleModel model = test::example_model("bert_embedder_ts17");
  CompileOptions options;
  options.mode = "int8";
  compiler::Compiled compiled;
  const auto imported = compiler::import(model.path.string(), options, compiled);
  compiler::Scales scales;
  scales.model_hash = file_hash(model.path);
  for (const compiler::QuantizedProduct& product :
       compiler::quantized_products(*imported, options)) {
    compiler::ScalesSite& site = scales.sites.emplace_back();
    const bool by_key = scales.sites.size() % 2 == 1;
    for (const passes::ProductName& name : product.names)
      site.products.push_back(by_key ? name.key : name.name);
    site.factors.assign(static_cast<size_t>(product.weight.shape()[product.trans_w ? 1 : 0]), 0.5);
    site.low = scales.sites.size() == 4 ? -0.01 : -4;
    site.high = -site.low;
  }
  const std::vector<std::string> narrow = scales.sites[3].products;
  options.scales = compiler::save_scales(scales);
  options.scales_file = "the test's scales";
  options.static_scales = true;
  options.int8_error = 1e3;  // the narrow range stays
  const auto engine = Engine::from_bytes(compile_to_bytes(model.path.string(), options));
  Request request;
  request.batches = {1};
  request.lengths = {16};
  request.threads = 2;
  const Reduction found = reduce_engine(engine, *imported, onnx::ModelSlicer(model.path), request,
                                        {.folder = folder_, .plugins = {}});
  ASSERT_EQ(found.outcome, ReduceOutcome::kReduced) << to_text(found);
  EXPECT_THAT(found.nodes, Contains(narrow[0]));
  EXPECT_LE(found.nodes.size(), 4U) << to_text(found);
  EXPECT_THAT(found.command, HasSubstr("compute=q8' --scales scales.json --static && "));
  const compiler::Scales part = compiler::load_scales(text_of("scales.json"), "scales.json");
  EXPECT_EQ(part.model_hash, file_hash(folder_ / "model.onnx"));
  ASSERT_EQ(part.sites.size(), 1U);
  EXPECT_EQ(part.sites[0].products, narrow);
  EXPECT_EQ(part.sites[0].factors, scales.sites[3].factors);
  EXPECT_EQ(part.sites[0].high, 0.01);
}

TEST_F(Reduced, AnEngineThatPassesLeavesNothing) {
  const Reduction found = reduced("bert_embedder_ts17", {});
  EXPECT_EQ(found.outcome, ReduceOutcome::kPasses) << to_text(found);
  EXPECT_THAT(to_text(found), HasSubstr("there is nothing to reduce"));
  EXPECT_EQ(found.builds, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(Reduced, JsonHasWhatTheTextShows) {
  const Reduction found = reduced("bert_embedder_ts17", {"op:Softmax compute==f8e4m3"});
  const auto json = nlohmann::json::parse(to_json(found));
  EXPECT_EQ(json["outcome"], "reduced") << to_text(found);
  EXPECT_EQ(json["nodes"].size(), found.nodes.size());
  EXPECT_EQ(json["command"], found.command);
}

}  // namespace
}  // namespace vernier::verify
