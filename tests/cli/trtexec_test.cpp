// vernier trtexec: command lines of NVIDIA's trtexec, unchanged. Contract:
// docs/migrating_from_tensorrt.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Trtexec : public WithEngine {
 protected:
  static Outcome trtexec(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"trtexec", "--duration=0", "--warmUp=0"});
    return run_program(arguments);
  }
  static void expect_refused(std::vector<std::string> arguments, const std::string& why) {
    const Outcome outcome = trtexec(std::move(arguments));
    EXPECT_EQ(outcome.code, 2) << why;
    EXPECT_THAT(outcome.err, HasSubstr(why));
  }
  static std::string shapes(const std::string& shape) {
    return "input_ids:" + shape + ",attention_mask:" + shape;
  }
};

TEST_F(Trtexec, BuildsAnEngineInTheAskedRangesAndTimesIt) {
  const std::string engine = file("trt.vn"), layers = file("layers.json"), times = file("t.json");
  const Outcome outcome =
      trtexec({"--onnx=" + kModel, "--saveEngine=" + engine, "--minShapes=" + shapes("1x4"),
               "--optShapes=" + shapes("2x16"), "--maxShapes=" + shapes("4x32"), "--on=cpu",
               "--bf16", "--useCudaGraph", "--memPoolSize=workspace:4096", "--percentile=50,99",
               "--explicitBatch", "--dumpOptimizationProfile", "--exportLayerInfo=" + layers,
               "--exportTimes=" + times, "--iterations=12"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("Engine built in "), HasSubstr("(cpu, bf16, "),
            HasSubstr("=== Performance summary ===\nThroughput: "), HasSubstr("Latency: min = "),
            HasSubstr("median = "), HasSubstr("percentile(99%) = "),
            HasSubstr("Total Host Walltime: "), HasSubstr("PASSED vernier trtexec\n")));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("note: --useCudaGraph changes nothing: runs on a GPU are always"),
                    HasSubstr("note: --memPoolSize changes nothing: "),
                    HasSubstr("note: --explicitBatch changes nothing: "),
                    HasSubstr("input input_ids: [batch=1..4, seq=4..32]\n")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("GPU Compute Time")));
  std::ifstream written(times);
  EXPECT_GE(json::parse(written).size(), 12u);
  std::ifstream steps(layers);
  EXPECT_FALSE(json::parse(steps).at("steps").empty());
  const json plan = json::parse(run_program({"inspect", engine, "--plan", "--json"}).out);
  for (const json& size : plan.at("sizes")) {
    const bool batch = size.at("name") == "batch";
    EXPECT_EQ(size.at("min"), batch ? 1 : 4);
    EXPECT_EQ(size.at("opt"), batch ? 2 : 16);
    EXPECT_EQ(size.at("max"), batch ? 4 : 32);
  }
}

TEST_F(Trtexec, RunsAnEngineOnRawInputs) {
  const std::string ids = file("ids.bin"), mask = file("mask.bin"), out = file("outputs.json");
  const std::vector<int64_t> values{0, 17, 23, 2}, ones{1, 1, 1, 1};
  const auto write = [](const std::string& path, const std::vector<int64_t>& of) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(of.data()),
               static_cast<std::streamsize>(of.size() * sizeof(int64_t)));
  };
  write(ids, values);
  write(mask, ones);
  const Outcome outcome =
      trtexec({"--loadEngine=" + engine(), "--shapes=" + shapes("1x4"), "--streams=2",
               "--loadInputs='input_ids':" + ids + ",attention_mask:" + mask, "--dumpProfile",
               "--exportOutput=" + out});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Streams: 2"), HasSubstr("cpu.embed_norm.")));
  std::ifstream written(out);
  const json outputs = json::parse(written);
  EXPECT_EQ(outputs.at(0).at("dimensions"), "1x1");
  EXPECT_EQ(outputs.at(0).at("values").size(), 1u);
  expect_refused(
      {"--loadEngine=" + engine(), "--shapes=" + shapes("1x8"), "--loadInputs=input_ids:" + ids},
      "has 32 bytes, and input 'input_ids' of shape 1x8 takes 8 elements of i64");
  expect_refused({"--loadEngine=" + engine(), "--loadInputs=ids:" + ids},
                 "'ids:" + ids + "' is not INPUT:FILE with an input of the engine");
}

TEST_F(Trtexec, RefusesWhatItCannotDoAndSaysWhatToWrite) {
  expect_refused({"--onnx=" + kModel, "--int4"}, "--int4: there is no such mode");
  expect_refused({"--onnx=" + kModel, "--useProfile=1"}, "no optimization profiles");
  expect_refused({"--onnx=" + kModel, "--saveAllDebugTensors=numpy"}, "use 'vernier localise'");
  expect_refused({"--onnx=" + kModel, "--useDLACore=0"}, "there is no code for DLA");
  expect_refused({"--onnx=" + kModel, "--batch=4"}, "give sizes with --shapes");
  expect_refused({"--onnx=" + kModel, "--device=1"}, "CUDA_VISIBLE_DEVICES=1");
  expect_refused({}, "needs a model (--onnx=model.onnx) or an engine");
  expect_refused({"--onnx=" + kModel, "--stronglyTyped", "--fp16"}, "give one or the other");
  expect_refused({"--onnx=" + kModel, "--minShapes=" + shapes("1x4")}, "need --optShapes");
  expect_refused({"--onnx=" + kModel, "--optShapes=input_ids:1xx4"}, "--optShapes");
  expect_refused({"--onnx=" + kModel, "--optShapes=input_ids"}, "is not NAME:1x128");
  expect_refused({"--onnx=" + kModel, "--percentile=101"}, "expected numbers from 0 to 100");
  expect_refused({"--loadEngine=" + engine(), "--shapes=" + shapes("1000x4")},
                 "the engine was built for 1..64");
  expect_refused({"--loadEngine=" + engine(), "--shapes=input_ids:1x4,attention_mask:1x8"},
                 "size 'seq' is 8 in one input and 4 in 'input_ids'");
  expect_refused({"--onnx=" + kModel, "--fp61"}, "did you mean '--fp16' or '--fp8'?");
  const Outcome nowhere =
      trtexec({"--onnx=" + kModel, "--saveEngine=" + file("no/such/folder.vn")});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("cannot write engine"));
}

TEST_F(Trtexec, RulesBindInItsSpelling) {
  const std::string engine = file("rules.vn");
  const Outcome outcome = trtexec({"--onnx=" + kModel, "--saveEngine=" + engine, "--on=cpu",
                                   "--fp16", "--layerPrecisions=LayerNormalization_*:fp32",
                                   "--precisionConstraints=prefer", "--skipInference"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("rules always bind"), HasSubstr("inference skipped"),
                                 Not(HasSubstr("Throughput"))));
}

TEST(BuildOptions, TheSpellingOfTrtexecIsExplained) {
  const Outcome outcome = run_program({"build", kModel, "--saveEngine=m.vn", "-o", "x.vn"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--saveEngine is trtexec's; write -o m.vn"));
}

}  // namespace
}  // namespace vernier::test
