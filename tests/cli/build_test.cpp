// vernier build: the engine file, the report, and every refusal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"
#include "onnx/model_builder.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;

/// A value in the middle of the example model.
const std::string kHidden =
    "/m/roberta/encoder/layer.0/output/LayerNorm/LayerNormalization_output_0";

class Build : public WithEngine {};

/// Two nodes with operators that do not exist.
std::string unsupported_model() {
  onnx::ModelBuilder builder(17);
  builder.input("x", onnx::kFloat, {int64_t{2}}).output("y");
  builder.node("Frobnicate", {"x"}, {"a"}).set_name("first");
  builder.node("Defenestrate", {"a"}, {"y"}).set_name("second");
  return builder.bytes();
}

TEST_F(Build, TheReportCountsNodesAndSteps) {
  const Outcome outcome = run_program({"build", kModel, "-o", file("again.vn"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json report = nlohmann::json::parse(outcome.out);
  EXPECT_GT(report.at("onnx_nodes").get<int>(), report.at("steps").get<int>());
  EXPECT_GT(report.at("steps").get<int>(), 0);
  EXPECT_GT(report.at("weight_bytes").get<int64_t>(), 1'000'000);
}

// An If, its branch of two nodes, which is taken, and the other one's: four, in every command.
TEST_F(Build, AllCommandsCountTheSameNodes) {
  const auto branch = [](const std::vector<std::string>& operators) {
    onnx::proto::GraphProto graph;
    graph.set_name("branch");
    std::string last = "x";
    for (const std::string& op : operators) {
      *graph.add_node() = onnx::make_node(op, {last}, {op});
      last = op;
    }
    graph.add_output()->set_name(last);
    return graph;
  };
  onnx::ModelBuilder builder(17);
  builder.input("x", onnx::kFloat, {"rows", int64_t{4}}).output("y");
  onnx::proto::TensorProto condition;
  condition.set_name("condition");
  condition.set_data_type(onnx::kBool);
  condition.add_int32_data(1);
  builder.initializer(condition);
  builder.node("If", {"condition"}, {"y"},
               {onnx::attr_graph("then_branch", branch({"Neg", "Abs"})),
                onnx::attr_graph("else_branch", branch({"Exp"}))});
  const std::string model = file("if.onnx"), engine = file("if.vn");
  write_file(model, builder.bytes());
  const auto count = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out).at("onnx_nodes").get<int>();
  };
  EXPECT_EQ(count({"build", model, "-o", engine, "--json"}), 4);
  EXPECT_EQ(count({"inspect", model, "--json"}), 4);
  EXPECT_EQ(count({"inspect", engine, "--json"}), 4);
  EXPECT_THAT(run_program({"inspect", model}).out, HasSubstr("nodes     4 ONNX nodes\n"));
  EXPECT_THAT(run_program({"inspect", engine}).out, HasSubstr(" for 4 ONNX nodes, "));
  EXPECT_THAT(run_program({"build", model, "-o", engine}).out, HasSubstr(": 4 ONNX nodes, "));
  const Outcome verified = run_program(
      {"verify", engine, "--model", model, "--batches", "2", "--report", file("if.html")});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_THAT(read_file(file("if.html")), HasSubstr(" for 4 ONNX nodes<"));
}

TEST_F(Build, TwoBuildsGiveTheSameBytes) {
  const Outcome outcome = run_program({"build", kModel, "-o", file("again.vn")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("steps"));
  EXPECT_TRUE(read_file(file("again.vn")) == read_file(engine())) << "the bytes differ";
}

TEST_F(Build, ExtraOutputsAreReturnedAndChangeNothing) {
  Outcome outcome = run_program({"build", kModel, "-o", file("more.vn"), "--outputs", kHidden});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  outcome = run_program({"run", file("more.vn"), "--inputs", inputs(), "-o", file("more.npz")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  outcome = run_program({"run", engine(), "--inputs", inputs(), "-o", file("plain.npz")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const NamedTensors plain = io::read_arrays(file("plain.npz"));
  const NamedTensors more = io::read_arrays(file("more.npz"));
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[1].first, kHidden);
  EXPECT_EQ(more[1].second.shape(), (Shape{4, 48, 128}));
  ASSERT_EQ(more[0].second.bytes(), plain[0].second.bytes());
  EXPECT_EQ(std::memcmp(more[0].second.data(), plain[0].second.data(), plain[0].second.bytes()), 0);
}

TEST_F(Build, RangesBoundTheSizesOfRuns) {
  const Outcome built = run_program({"build", kModel, "-o", file("small.vn"), "--shapes",
                                     "input_ids=1..2x4..16,attention_mask=1..2x4..16"});
  ASSERT_EQ(built.code, 0) << built.err;
  const Outcome outcome =
      run_program({"run", file("small.vn"), "--inputs", inputs(), "-o", file("o.npz")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("input_ids"));
  EXPECT_FALSE(std::filesystem::exists(file("o.npz")));
}

TEST_F(Build, EveryErrorIsAMessage) {
  write_file(file("text.onnx"), "this is not a model");
  write_file(file("odd.onnx"), unsupported_model());
  write_file(file("half.onnx"), read_file(kModel).substr(0, 500'000));
  struct Row {
    std::vector<std::string> arguments;
    int code;
    std::vector<std::string> message;
  };
  const std::string out = file("e.vn");
  const std::vector<Row> rows{
      {{"build", file("none.onnx"), "-o", out}, 2, {"none.onnx"}},
      {{"build", file("text.onnx"), "-o", out}, 2, {"text.onnx"}},
      {{"build", file("half.onnx"), "-o", out}, 2, {"half.onnx"}},
      {{"build", file("odd.onnx"), "-o", out},
       2,
       {"Frobnicate", "first", "Defenestrate", "second"}},
      {{"build", kModel, "-o", out, "--outputs", "Nope"}, 2, {"no value 'Nope'"}},
      {{"build", kModel, "-o", out, "--outputs", "inputids"}, 2, {"did you mean 'input_ids'?"}},
      {{"build", kModel, "-o", out, "--shapes", "bach=1..4"}, 2, {"did you mean 'batch'?"}},
      {{"build", kModel, "-o", out, "--fuse", "qkv_marge=off"}, 2, {"did you mean 'qkv_merge'?"}},
      {{"build", kModel, "-o", out, "--rule", "role:attension compute=f32"},
       2,
       {"unknown role 'attension'; did you mean 'attention'"}},
      {{"build", kModel, "-o", out, "--rule", "op:LayerNrm compute=f32"},
       2,
       {"no node 'op:LayerNrm'; did you mean 'LayerNorm'"}},
      {{"build", kModel, "-o", out, "--fp16", "--layerPrecisions=LayerNorm_0:fp32"},
       2,
       {"no node 'LayerNorm_0'; did you mean 'LayerNormalization_0'"}},
      {{"build", kModel, "-o", out, "--shapes", "batch"}, 2, {"--shapes", "batch"}},
      {{"build", kModel, "-o", out, "--shapes", "nobody=1..4"}, 2, {"--shapes", "nobody"}},
      {{"build", kModel, "-o", out, "--shapes", "input_ids=4..1x4"}, 2, {"4..1"}},
      {{"build", kModel, "-o", out, "--fuse", "nothing=off"}, 2, {"nothing"}},
      {{"build", kModel, "-o", file("no/folder/e.vn")}, 3, {"no/folder/e.vn"}},
  };
  for (const Row& row : rows) {
    const Outcome outcome = run_program(row.arguments);
    EXPECT_EQ(outcome.code, row.code) << testing::PrintToString(row.arguments) << outcome.err;
    EXPECT_THAT(outcome.err, testing::StartsWith("vernier: error: "));
    for (const std::string& part : row.message) EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(out)) << "a failed build leaves no file";
  }
}

}  // namespace
}  // namespace vernier::test
