// Modes that quantize beside 16 bits: which engine is kept, what is said, and that nothing but the
// choice depends on times, which are given here.
#include "vernier/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu.h"
#include "core/error.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using enum CompareOptions::Keep;

const std::string kModel = std::string(VERNIER_TEST_MODELS) + "/bert_ts11/model.onnx";

CompileOptions in_mode(const std::string& mode) {
  CompileOptions options;
  options.mode = mode;
  return options;
}

/// A stopwatch on which int8 takes `int8_ms` where 16 bits take 4 ms.
TimeEngines stopwatch(double int8_ms) {
  return [int8_ms](const Engine&, const Engine&) -> std::vector<ComparedTimes> {
    return {{.sizes = "batch=1,seq=16", .quantized_ms = int8_ms, .other_ms = 4},
            {.sizes = "batch=8,seq=16", .quantized_ms = 8 * int8_ms, .other_ms = 32}};
  };
}

class Compare : public ::testing::Test {
 protected:
  Compare() : folder_(fs::path(::testing::TempDir()) / ("compare_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Compare() override { fs::remove_all(folder_); }

  ComparedReport build(const CompareOptions& compare, const CompileOptions& options) {
    return compile_faster(kModel, engine(), options, compare);
  }
  /// Is the file what compile() makes with these options?
  testing::AssertionResult is_engine_of(const CompileOptions& options) const {
    std::ifstream file(engine(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    const std::vector<std::byte> expected = compile_to_bytes(kModel, options);
    if (std::ranges::equal(std::as_bytes(std::span(bytes)), expected))
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << bytes.size() << " other bytes than the "
                                       << expected.size() << " of mode " << options.mode;
  }
  std::string engine() const { return (folder_ / "m.vn").string(); }

 private:
  fs::path folder_;
};

TEST_F(Compare, TheFasterEngineIsWrittenAndTheFiguresAreNotes) {
  const ComparedReport report = build({.time = stopwatch(2)}, in_mode("int8"));
  EXPECT_TRUE(is_engine_of(in_mode("int8")));
  ASSERT_TRUE(report.comparison);
  EXPECT_TRUE(report.comparison->kept_quantized);
  EXPECT_DOUBLE_EQ(report.comparison->speedup, 2);
  EXPECT_EQ(report.comparison->other, "bf16");
  EXPECT_LT(report.comparison->quantized_bytes, report.comparison->other_bytes);
  EXPECT_THAT(report.build.notes,
              Contains("int8: 2 ms against 4 ms in bf16 at batch=1,seq=16: 2.00 times as fast"));
  EXPECT_THAT(report.build.notes, Contains(HasSubstr("MB of weights against")));
  EXPECT_THAT(report.build.notes, Not(Contains(HasSubstr("warning"))));
}

TEST_F(Compare, SlowerInt8IsGivenUpWithAWarning) {
  const ComparedReport report = build({.time = stopwatch(5)}, in_mode("int8"));
  EXPECT_TRUE(is_engine_of(in_mode("bf16")));
  EXPECT_FALSE(report.comparison->kept_quantized);
  EXPECT_THAT(report.build.notes,
              Contains("warning: int8 is slower than bf16 on this machine: 0.80 times as fast. "
                       "The engine is built in bf16; --force keeps int8"));
  EXPECT_THAT(report.build.policy, HasSubstr("bf16"));
  EXPECT_EQ(report.build.weight_bytes, report.comparison->other_bytes);
}

TEST_F(Compare, ForceKeepsSlowerInt8AndSaysSo) {
  const ComparedReport report = build({.keep = kQuantized, .time = stopwatch(5)}, in_mode("int8"));
  EXPECT_TRUE(is_engine_of(in_mode("int8")));
  EXPECT_TRUE(report.comparison->kept_quantized);
  EXPECT_THAT(report.build.notes, Contains(HasSubstr("0.80 times as fast; kept, as --force asks")));
}

TEST_F(Compare, ADifferenceWithinTheNoiseKeepsInt8) {
  EXPECT_TRUE(build({.time = stopwatch(4.1)}, in_mode("int8")).comparison->kept_quantized);
  EXPECT_FALSE(build({.time = stopwatch(4.13)}, in_mode("int8")).comparison->kept_quantized);
}

// Weights alone are quantized for one row.
TEST_F(Compare, OfWeightsAloneOneRowDecides) {
  const auto times = [](double one, double batch) -> TimeEngines {
    return [=](const Engine&, const Engine&) -> std::vector<ComparedTimes> {
      return {{.sizes = "batch=1,seq=16", .quantized_ms = one, .other_ms = 4},
              {.sizes = "batch=8,seq=16", .quantized_ms = batch, .other_ms = 32}};
    };
  };
  const ComparedReport faster = build({.time = times(2, 64)}, in_mode("w8"));
  EXPECT_TRUE(is_engine_of(in_mode("w8")));
  EXPECT_DOUBLE_EQ(faster.comparison->speedup, 2);
  EXPECT_THAT(faster.build.notes,
              Contains("w8: 64 ms against 32 ms in bf16 at batch=8,seq=16: 0.50 times as fast"));
  const nlohmann::json json = nlohmann::json::parse(to_json(*faster.comparison));
  EXPECT_EQ(json.at("kept"), "w8");
  EXPECT_EQ(json.at("times")[0].at("w8_ms"), 2);
  EXPECT_TRUE(json.contains("w8_weight_bytes"));
  const ComparedReport slower = build({.time = times(8, 4)}, in_mode("w4"));
  EXPECT_TRUE(is_engine_of(in_mode("bf16")));
  EXPECT_THAT(slower.build.notes,
              Contains("warning: w4 is slower than bf16 on this machine at one row: 0.50 times as "
                       "fast. The engine is built in bf16; --force keeps w4"));
}

TEST_F(Compare, RulesHoldInBothEngines) {
  CompileOptions options = in_mode("int8");
  options.rules = {"layer:0 compute=f32"};
  build({.time = stopwatch(5)}, options);
  options.mode = "bf16";
  EXPECT_TRUE(is_engine_of(options));
}

TEST_F(Compare, OtherModesAreNotTimed) {
  const TimeEngines fails = [](const Engine&, const Engine&) -> std::vector<ComparedTimes> {
    throw Error(ErrorCode::kInternal, "nothing is to be timed");
  };
  EXPECT_FALSE(build({.time = fails}, in_mode("fp16")).comparison);
  EXPECT_TRUE(is_engine_of(in_mode("fp16")));
}

TEST_F(Compare, AnEngineThatDoesNotRunIsNoReasonToFail) {
  const TimeEngines fails = [](const Engine&, const Engine&) -> std::vector<ComparedTimes> {
    throw Error(ErrorCode::kMachine, "the device has no memory left");
  };
  const ComparedReport report = build({.time = fails}, in_mode("int8"));
  EXPECT_TRUE(is_engine_of(in_mode("int8")));
  EXPECT_THAT(report.build.notes,
              Contains("int8 is not compared with bf16: the device has no memory left"));
  EXPECT_TRUE(report.comparison->kept_quantized);
}

TEST_F(Compare, ADeviceThatIsNotHereIsNotTimed) {
  backend::Backend absent = backend::cpu_backend();
  absent.available = [] { return no("no such device here"); };
  CompileOptions options = in_mode("int8");
  options.kernels = &absent;
  const ComparedReport report = build({.time = stopwatch(5)}, options);
  EXPECT_TRUE(report.comparison->kept_quantized);
  EXPECT_THAT(report.build.notes, Contains("int8 is not compared with bf16: no such device here"));
  const nlohmann::json json = nlohmann::json::parse(to_json(*report.comparison));
  EXPECT_EQ(json.at("why_not"), "no such device here");
  EXPECT_TRUE(json.at("speedup").is_null());
  EXPECT_TRUE(json.at("other_weight_bytes").is_null());
}

TEST_F(Compare, BothEnginesRunAtOneRowAndAtABatch) {
  CompileOptions options = in_mode("int8");
  options.shapes = "batch=1..4,seq=4..8..16";
  const auto int8 = Engine::from_bytes(compile_to_bytes(kModel, options));
  options.mode = "bf16";
  const auto other = Engine::from_bytes(compile_to_bytes(kModel, options));
  std::vector<std::string> sizes, stages;
  for (const ComparedTimes& cell :
       time_engines(*int8, *other, {}, [&](std::string_view s) { stages.emplace_back(s); })) {
    sizes.push_back(cell.sizes);
    EXPECT_GT(cell.quantized_ms, 0);
    EXPECT_GT(cell.other_ms, 0);
  }
  ASSERT_FALSE(sizes.empty());
  EXPECT_EQ(sizes[0], "batch=1,seq=8");
  EXPECT_EQ(stages.size(), sizes.size());
  for (size_t i = 1; i < sizes.size(); ++i) EXPECT_THAT(sizes[i], HasSubstr("seq=8"));
}

TEST_F(Compare, StopEndsTheTiming) {
  const auto engine = Engine::from_bytes(compile_to_bytes(kModel, in_mode("int8")));
  Limits limits;
  limits.stop = [] { return true; };
  EXPECT_THROW(time_engines(*engine, *engine, limits), Error);
}

TEST_F(Compare, TheJsonHasTheFigures) {
  const ComparedReport report = build({.time = stopwatch(5)}, in_mode("int8"));
  const nlohmann::json json = nlohmann::json::parse(to_json(*report.comparison));
  EXPECT_EQ(json.at("kept"), "bf16");
  EXPECT_NEAR(json.at("speedup").get<double>(), 0.8, 1e-12);
  EXPECT_EQ(json.at("times").size(), 2u);
  EXPECT_EQ(json.at("times")[1].at("int8_ms"), 40);
}

}  // namespace
}  // namespace vernier::test
