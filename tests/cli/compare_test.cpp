// vernier build --int8 measures: time beside 16 bits, and errors. Its options and what it prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class CompareBuild : public WithEngine {
 protected:
  static Outcome build(const std::string& engine, std::vector<std::string> more) {
    std::vector<std::string> arguments{"build",      kModel,     "-o",
                                       file(engine), "--shapes", "batch=1..2,seq=4..8..16"};
    std::ranges::move(more, std::back_inserter(arguments));
    return run_program(arguments);
  }
};

TEST_F(CompareBuild, TheReportSaysWhichEngineIsKeptAndWhy) {
  const Outcome outcome = build("kept.vn", {"--int8", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  const json& comparison = report.at("comparison");
  const bool slower = comparison.at("speedup").get<double>() * 1.03 < 1;
  EXPECT_EQ(comparison.at("kept"), slower ? "bf16" : "int8");
  EXPECT_EQ(report.at("weight_bytes"),
            comparison.at(slower ? "other_weight_bytes" : "int8_weight_bytes"));
  EXPECT_EQ(comparison.at("times")[0].at("sizes"), "batch=1,seq=8");
}

TEST_F(CompareBuild, ForceKeepsInt8) {
  const Outcome outcome = build("forced.vn", {"--int8", "--force"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("in bf16 at batch=1,seq=8: "));
  ASSERT_EQ(build("plain.vn", {"--int8", "--no-compare"}).code, 0);
  EXPECT_TRUE(read_file(file("forced.vn")) == read_file(file("plain.vn"))) << "the bytes differ";
}

TEST_F(CompareBuild, ProductsAreKeptIn16BitsByTheirErrors) {
  const Outcome outcome = build("tight.vn", {"--int8", "--no-compare", "--int8-error", "0.001"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("' kept in bf16: int8 is off by "));
  const Outcome ledger = run_program({"inspect", file("tight.vn"), "--ledger"});
  EXPECT_THAT(ledger.out, HasSubstr("kept in bf16: int8 is off by "));
  const Outcome wrong = build("tight.vn", {"--int8", "--int8-error", "-1"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--int8-error"));
}

TEST_F(CompareBuild, WeightsAloneAreComparedToo) {
  const Outcome outcome = build("weights.vn", {"--w8", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json comparison = json::parse(outcome.out).at("comparison");
  const bool slower = comparison.at("speedup").get<double>() * 1.03 < 1;
  EXPECT_EQ(comparison.at("kept"), slower ? "bf16" : "w8");
  EXPECT_GT(comparison.at("times")[0].at("w8_ms"), 0);
  const Outcome forced = build("weights.vn", {"--w4", "--force"});
  EXPECT_THAT(forced.out, HasSubstr("w4: "));
  const Outcome both = build("weights.vn", {"--w8", "--w4"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--w8 and --w4 exclude each other"));
}

TEST_F(CompareBuild, WithoutComparisonNothingIsTimed) {
  for (const char* mode : {"--int8", "--fp16", "--w8"}) {
    const Outcome outcome = build("plain.vn", {mode, "--no-compare", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, Not(HasSubstr("comparison")));
  }
  const Outcome both = build("plain.vn", {"--int8", "--no-compare", "--force"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--no-compare excludes --force"));
}

}  // namespace
}  // namespace vernier::test
