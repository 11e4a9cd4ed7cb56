// vernier verify, inspect, bench and demo: what they print and how they exit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// {"input_ids": [4, 48]} of a list of tensors.
json shapes_by_name(const json& tensors) {
  json shapes = json::object();
  for (const json& tensor : tensors) shapes[tensor.at("name")] = tensor.at("shape");
  return shapes;
}

class Report : public WithEngine {
 protected:
  static Outcome refused(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& parts) {
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    // Only progress, which work of over two seconds shows, may stand before it.
    EXPECT_THAT(outcome.err, testing::AnyOf(testing::StartsWith("vernier: error: "),
                                            HasSubstr("\nvernier: error: ")));
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    return outcome;
  }
};

// ---- verify

TEST_F(Report, VerifyPassesARightEngine) {
  const Outcome outcome = run_program({"verify", engine(), "--model", kModel, "--inputs", inputs(),
                                       "--expect", expected(), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("verdict"), "pass");
  ASSERT_EQ(report.at("outputs").size(), 1u);
  EXPECT_EQ(report.at("outputs")[0].at("name"), "output");
  EXPECT_GT(report.at("outputs")[0].at("max_abs").get<double>(), 0);
}

TEST_F(Report, VerifyFailsWithExitCodeOne) {
  // Tighter than FP32 can be: the verdict must be a failure, said in text and by the exit code.
  const Outcome outcome = run_program(
      {"verify", engine(), "--model", kModel, "--inputs", inputs(), "--tolerance", "worst=1e-12"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("precision"));
}

TEST_F(Report, VerifySweepsWithoutInputsAndStampsTheEngine) {
  const std::string stamped = file("stamped.vn");
  std::filesystem::copy_file(engine(), stamped);
  const Outcome before = run_program({"run", stamped, "--inputs", inputs(), "--outputs",
                                      file("out.npz"), "--require-certificate"});
  EXPECT_EQ(before.code, 1);
  EXPECT_THAT(before.err, HasSubstr("verify"));
  const Outcome outcome = run_program(
      {"verify", stamped, "--model", kModel, "--batches", "1,4", "--lengths", "4,48", "--stamp"});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  for (const char* part : {"length 4", "length 48", "rows that share a batch with NaN",
                           "verdict: pass", "ids in [0, 999], padding id 1"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  const Outcome after = run_program({"run", stamped, "--inputs", inputs(), "--outputs",
                                     file("out.npz"), "--require-certificate"});
  EXPECT_EQ(after.code, 0) << after.err;
}

TEST_F(Report, BuildVerifiesOnRequestAndKeepsTheVerdict) {
  const std::string built = file("built.vn");
  const Outcome outcome =
      run_program({"build", "tests/models/vit_ts17/model.onnx", "-o", built, "--verify", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["verification"]["verdict"], "pass");
  const Outcome too_strict = run_program({"build", "tests/models/vit_ts17/model.onnx", "-o", built,
                                          "--verify", "--tolerance", "max=1e-30"});
  EXPECT_EQ(too_strict.code, 1);
  EXPECT_THAT(too_strict.out, HasSubstr("verdict: precision"));
  refused({"build", kModel, "-o", built, "--tolerance", "max=1"}, {"add --verify"});
}

TEST_F(Report, VerifyOfAPartNamesIt) {
  const Outcome outcome = run_program({"verify", engine(), "--model", kModel, "--from", "input_ids",
                                       "--to", "output", "--batches", "2", "--lengths", "5"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("only the part from 'input_ids' to 'output'"));
  refused({"verify", engine(), "--model", kModel, "--batches", "two"}, {"--batches", "got 'two'"});
  refused({"verify", engine(), "--model", kModel, "--from", "nowhere"}, {"--from", "nowhere"});
  refused({"verify", engine(), "--model", kModel, "--from", "input_id"},
          {"no value 'input_id'; did you mean 'input_ids'"});
  refused({"verify", engine(), "--model", kModel, "--expect", inputs()}, {"--inputs"});
  const Tensor answer = io::read_arrays(expected()).front().second;
  io::write_npz(file("outptu.npz"), {{"outptu", answer}});
  refused(
      {"verify", engine(), "--model", kModel, "--inputs", inputs(), "--expect", file("outptu.npz")},
      {"--expect: array 'outptu'", "did you mean 'output'?"});
}

TEST_F(Report, VerifyRefusesWhatDoesNotFit) {
  refused({"verify", engine(), "--model", kModel, "--inputs", inputs(), "--tolerance", "rms"},
          {"--tolerance", "got 'rms'"});
  refused({"verify", engine(), "--model", file("none.onnx"), "--inputs", inputs()}, {"none.onnx"});
  refused({"verify", engine(), "--model", "tests/models/vit_ts17/model.onnx", "--inputs", inputs()},
          {"pixel_values"});
}

TEST_F(Report, VerifyWritesAnHtmlReportWhateverTheVerdict) {
  const std::vector<std::string> verify{"verify",    engine(), "--model",   kModel,
                                        "--batches", "1,2",    "--lengths", "5"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = verify;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  EXPECT_EQ(with({"--report", file("a.html")}).code, 0);
  const std::string page = read_file(file("a.html"));
  for (const char* part : {"✓ pass", "id=\"growth-chart\"", "batch 2, length 5", "data-filter",
                           "Not measured: verify --report FILE --timing"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_EQ(with({"--report", file("b.html"), "--threads", "1"}).code, 0);
  EXPECT_TRUE(read_file(file("b.html")) == page) << "the same engine, another report";
  EXPECT_EQ(with({"--report", file("c.html"), "--tolerance", "worst=1e-12", "--timing"}).code, 1);
  const std::string failed = read_file(file("c.html"));
  for (const char* part : {"✗ precision", "What to do", "Failed cells", " ms in all"})
    EXPECT_THAT(failed, HasSubstr(part));
}

TEST_F(Report, AReportThatCannotBeWrittenIsRefusedBeforeTheWork) {
  // The model is not there either: the report's place is looked at first.
  const Outcome nowhere = run_program({"verify", engine(), "--model", file("none.onnx"), "--report",
                                       file("no/such/folder/r.html")});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot write report"));
  EXPECT_THAT(nowhere.err, HasSubstr("no/such/folder/r.html"));
  refused({"verify", engine(), "--model", kModel, "--report", file("")},
          {"cannot write report", "a folder"});
  refused({"verify", engine(), "--model", kModel, "--report", engine()}, {"would destroy"});
}

// ---- localise

TEST_F(Report, LocaliseNamesWhatContributesMost) {
  const Outcome text = run_program(
      {"localise", engine(), "--model", kModel, "--inputs", inputs(), "-o", file("errors.json")});
  ASSERT_EQ(text.code, 0) << text.err;
  for (const char* part : {"local", "total", "share", "what adds most to the error"})
    EXPECT_THAT(text.out, HasSubstr(part));
  const json errors = json::parse(read_file(file("errors.json")));
  EXPECT_GT(errors.at("steps").size(), 5u);
  EXPECT_FALSE(errors.at("by_share").empty());
  const Outcome seeded = run_program(
      {"localise", engine(), "--model", kModel, "--batch", "2", "--length", "7", "--json"});
  ASSERT_EQ(seeded.code, 0) << seeded.err;
  EXPECT_EQ(json::parse(seeded.out).at("cell"), "batch 2, length 7");
}

TEST_F(Report, LocaliseRefusesWhatDoesNotFit) {
  refused({"localise", engine(), "--model", "tests/models/vit_ts17/model.onnx"}, {"pixel_values"});
  refused({"localise", engine(), "--model", kModel, "-o", engine()}, {"would destroy"});
  const Outcome nowhere =
      run_program({"localise", engine(), "--model", kModel, "-o", file("no/such/folder/e.json")});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot write localisation"));
}

// ---- inspect

TEST_F(Report, InspectShowsTheCompositesOfAModel) {
  const Outcome outcome = run_program({"inspect", kModel, "--raised"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* composite : {"Attention", "LayerNorm", "Gelu", "Linear"}) {
    EXPECT_THAT(outcome.out, HasSubstr(composite));
  }
}

// What is shown is what a spec may say: each name binds its own node and nothing else.
TEST_F(Report, InspectShowsTheNamesThatTrtexecSpecsMayUse) {
  const json nodes =
      json::parse(run_program({"inspect", kModel, "--raised", "--json"}).out).at("nodes");
  const auto named = [&](const char* name) {
    return std::ranges::count(nodes, name, [](const json& node) { return node.at("trtexec"); });
  };
  for (const char* name : {"LayerNormalization_0", "LayerNormalization_1", "Attention_0", "Gelu_1"})
    EXPECT_EQ(named(name), 1) << name;
  const Outcome text = run_program({"inspect", kModel, "--raised"});
  EXPECT_THAT(text.out, HasSubstr("LayerNormalization_1"));
  const Outcome built =
      run_program({"build", kModel, "-o", file("spec.vn"), "--fp16",
                   "--layerPrecisions=LayerNormalization_1:fp32,Gelu_1:fp32,Attention_0:fp32"});
  EXPECT_EQ(built.code, 0) << built.err;
}

TEST_F(Report, InspectViewsOfAModel) {
  for (const std::vector<std::string>& views :
       {std::vector<std::string>{}, {"--dump-graph"}, {"--raised", "--dump-graph"}}) {
    std::vector<std::string> arguments{"inspect", kModel};
    arguments.insert(arguments.end(), views.begin(), views.end());
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("input_ids")) << testing::PrintToString(views);
  }
}

TEST_F(Report, InspectViewsOfAnEngine) {
  const std::string small = "batch=2,seq=16";
  for (const char* view : {"--ledger", "--plan", "--memory", "--timing"}) {
    const Outcome text = run_program({"inspect", engine(), view, "--shapes", small});
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_GT(text.out.size(), 200u) << view;
    const Outcome outcome = run_program({"inspect", engine(), view, "--shapes", small, "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(json::accept(outcome.out)) << view;
  }
  const Outcome summary = run_program({"inspect", engine(), "--check"});
  EXPECT_EQ(summary.code, 0) << summary.err;
  EXPECT_THAT(summary.out, HasSubstr("input_ids"));
}

// One form per concept: docs/json.md "Forms".
TEST_F(Report, TensorsHaveOneFormInAllJson) {
  const auto parsed = [](std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    return json::parse(run_program(arguments).out);
  };
  const auto expect_tensor = [](const json& tensor) {
    EXPECT_TRUE(tensor.at("name").is_string()) << tensor;
    EXPECT_TRUE(tensor.at("type").is_string()) << tensor;
    ASSERT_TRUE(tensor.at("shape").is_array()) << tensor;
    for (const json& size : tensor.at("shape"))
      EXPECT_TRUE(size.is_number_integer() || size.is_string()) << tensor;
  };
  const json summary = parsed({"inspect", engine()});
  EXPECT_EQ(summary.at("inputs")[0].at("shape"), json({"batch", "seq"}));
  EXPECT_EQ(summary.at("inputs")[0].at("ranges")[0], json({1, 64}));
  const json model = parsed({"inspect", kModel});
  EXPECT_EQ(model.at("inputs")[0].at("shape"), summary.at("inputs")[0].at("shape"));
  EXPECT_EQ(model.at("inputs")[0].at("type"), "i64");
  EXPECT_EQ(model.at("onnx_nodes"), summary.at("onnx_nodes"));
  const json small = parsed({"inspect", engine(), "--memory", "--shapes", "batch=2,seq=16"});
  EXPECT_EQ(small.at("inputs")[0].at("shape"), json({2, 16}));
  const json run = parsed({"run", engine(), "--inputs", inputs(), "-o", file("json.npz")});
  EXPECT_EQ(run.at("outputs")[0], (json{{"name", "output"}, {"type", "f32"}, {"shape", {4, 1}}}));
  for (const json& tensors : {summary.at("inputs"), summary.at("outputs"), model.at("inputs"),
                              model.at("outputs"), small.at("inputs"), run.at("inputs")})
    for (const json& tensor : tensors) expect_tensor(tensor);
  const json plan = parsed({"inspect", engine(), "--plan"});
  for (const json& step : plan.at("steps")) {
    for (const char* side : {"inputs", "outputs"}) {
      for (const json& tensor : step.at(side)) {
        if (!tensor.is_null()) expect_tensor(tensor);
      }
    }
  }
  const json raised = parsed({"inspect", kModel, "--raised"});
  for (const json& node : raised.at("nodes")) EXPECT_TRUE(node.at("shape").is_array()) << node;
}

TEST_F(Report, TimingSetsEachStepBesideWhatTheDeviceCanDo) {
  const json timing = json::parse(
      run_program({"inspect", engine(), "--timing", "--shapes", "batch=2,seq=16", "--json"}).out);
  EXPECT_GT(timing.at("rates").at("copy_gb_per_s").get<double>(), 0.1);
  EXPECT_GT(timing.at("rates").at("product_gflop_per_s").at("f32").get<double>(), 0.1);
  double floors = 0;
  for (const json& step : timing.at("steps")) {
    const double floor = step.at("floor_ms").get<double>();
    EXPECT_GE(floor, 0) << step;
    EXPECT_NEAR(step.at("of_floor").get<double>() * step.at("ms").get<double>(), floor, 1e-9);
    if (step.at("op") == "Linear") {
      EXPECT_GT(floor, 0) << step;
    }
    EXPECT_LT(floor, 1) << "milliseconds: the table of words is not read as a whole; " << step;
    floors += floor;
  }
  EXPECT_NEAR(timing.at("total_floor_ms").get<double>(), floors, 1e-9);
  EXPECT_GT(timing.at("run_ms").get<double>(), 0);
  EXPECT_FALSE(timing.contains("kernels")) << "the CPU launches none";
  const Outcome text = run_program({"inspect", engine(), "--timing", "--shapes", "batch=2,seq=16"});
  EXPECT_THAT(text.out, HasSubstr("measured here: copy "));
  EXPECT_THAT(text.out, HasSubstr("f32 product "));
}

TEST_F(Report, TheLedgerHasEveryNodeOnce) {
  const json built =
      json::parse(run_program({"build", kModel, "-o", file("again.vn"), "--json"}).out);
  const json ledger = json::parse(run_program({"inspect", engine(), "--ledger", "--json"}).out);
  std::set<std::string> nodes;
  for (const json& row : ledger.at("rows")) {
    EXPECT_TRUE(nodes.insert(row.at("node")).second) << row;
    for (const char* key : {"op", "origin_of", "asked", "got", "step", "kernel", "why"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
  }
  EXPECT_EQ(nodes.size(), built.at("onnx_nodes").get<size_t>());
}

TEST_F(Report, WhyShowsOneNodeAndNamesTheNearest) {
  const json ledger = json::parse(run_program({"inspect", engine(), "--ledger", "--json"}).out);
  const std::string node = ledger.at("rows").back().at("node");
  const Outcome found = run_program({"inspect", engine(), "--why", node});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr(node));
  refused({"inspect", engine(), "--why", node + "x"}, {node + "x", "did you mean '" + node + "'"});
}

TEST_F(Report, InspectRefusesTheWrongKindOfFile) {
  for (const char* view : {"--ledger", "--plan", "--memory", "--timing", "--check"}) {
    refused({"inspect", kModel, view}, {view, "is a model; build it first"});
  }
  refused({"inspect", kModel, "--why", "x"}, {"--why"});
  refused({"inspect", engine(), "--raised"}, {"--raised", "is an engine"});
  refused({"inspect", engine(), "--dump-graph"}, {"--dump-graph", "is an engine"});
  for (const char* view : {"--plan", "--raised"})
    refused({"inspect", file("none.vn"), view}, {"cannot read", "none.vn", "no such file"});
  refused({"inspect", file("none")}, {"cannot read", "none", "no such file"});
  write_file(file("text.vn"), "no engine at all");
  refused({"inspect", file("text.vn"), "--plan"}, {"text.vn", "it is not an engine"});
}

TEST_F(Report, CheckFindsADamagedWeight) {
  std::string bytes = read_file(engine());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(file("damaged.vn"), bytes);
  refused({"inspect", file("damaged.vn"), "--check"}, {"weights are corrupt"});
}

// ---- bench and demo

TEST_F(Report, BenchTimesRuns) {
  const Outcome outcome =
      run_program({"bench", engine(), "--batch", "2", "--length", "16", "--threads", "1",
                   "--seconds", "0", "--pause", "1", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("pause_ms"), 1);
  EXPECT_GE(report.at("runs").get<int>(), 10);
  EXPECT_GT(report.at("median_ms").get<double>(), 0);
  EXPECT_EQ(shapes_by_name(report.at("inputs")).at("input_ids"), json({2, 16}));
  EXPECT_EQ(report.at("times_ms").size(), report.at("runs").get<size_t>());
  EXPECT_THAT(run_program({"bench", engine(), "--seconds", "0"}).out, HasSubstr("median"));
}

TEST_F(Report, BenchTakesTheUsersArrays) {
  const Outcome outcome = run_program(
      {"bench", engine(), "--inputs", inputs(), "--runs", "3", "--seconds", "0", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("runs"), 3);
  EXPECT_EQ(shapes_by_name(report.at("inputs")).at("input_ids"), json({4, 48}));
  refused({"bench", engine(), "--inputs", inputs(), "--batch", "2"}, {"--inputs excludes --batch"});
  refused({"bench", engine(), "--inputs", file("none.npz")}, {"none.npz"});
}

TEST_F(Report, BenchRefusesSizesOutsideTheEngine) {
  refused({"bench", engine(), "--batch", "100000"}, {"--batch 100000", "build it with --shapes"});
}

// The engine's range allows it, the machine does not: said before any array is made.
TEST_F(Report, BenchRefusesWhatNoMemoryHolds) {
  const std::string wide = file("wide.vn");
  ASSERT_EQ(run_program({"build", kModel, "-o", wide, "--shapes", "batch=1..16000000"}).code, 0);
  const Outcome outcome = run_program({"bench", wide, "--batch", "16000000", "--length", "128"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.err,
              testing::AnyOf(HasSubstr("batch=16000000,seq=128: the inputs"),  // on small machines
                             HasSubstr("bytes for activations of batch=16000000, seq=128"),
                             HasSubstr("bytes of host memory could not be allocated")));
}

TEST_F(Report, DemoComparesWithTheStoredOutputs) {
  const Outcome outcome = run_program({"demo", kModelFolder});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the bits it has in the batch: yes"));
  EXPECT_THAT(outcome.out, HasSubstr("kept"));
}

TEST_F(Report, DemoRanksTheEvaluationSetBetterThanBm25) {
  const Outcome outcome = run_program({"demo", "tests/models/demo_reranker"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  for (const char* part : {"verdict: pass", "\"Return the object as a ustar header block\"",
                           "300 queries with 12 passages each", "orders that are not FP64's: 0"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST_F(Report, DemoFailsOnWrongAnswers) {
  std::filesystem::create_directory(file("wrong"));
  std::filesystem::copy(kModel, file("wrong/model.onnx"));
  NamedTensors arrays = io::read_arrays(kModelFolder + "case_1.npz");
  for (auto& [name, tensor] : arrays) {
    if (!name.starts_with("out.")) continue;
    std::vector<double> values;
    for (int64_t i = 0; i < tensor.elems(); ++i) values.push_back(tensor.float_at(i) + 1e-3);
    tensor = Tensor::from(tensor.dtype(), tensor.shape(), values);
  }
  io::write_npz(file("wrong/case_0.npz"), arrays);
  const Outcome outcome = run_program({"demo", file("wrong")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("EXCEEDED"));
  refused({"demo", file("")}, {"has no case_0.npz"});
}

}  // namespace
}  // namespace vernier::test
