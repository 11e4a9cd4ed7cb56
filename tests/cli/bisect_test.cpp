// vernier bisect and vernier reduce as a user runs them: a planted rule, what is printed and
// written, and exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kSoftmax = "/m/roberta/encoder/layer.1/attention/self/Softmax";
const std::string kPlanted = "name:" + kSoftmax + " compute==f8e4m3";

class Failing : public WithEngine {
 protected:
  static void SetUpTestSuite() {
    WithEngine::SetUpTestSuite();
    const Outcome built =
        run_program({"build", kModel, "-o", file("bad.vn"), "--fp16", "--rule", kPlanted});
    ASSERT_EQ(built.code, 0) << built.err;
  }
  static Outcome run_on(const std::string& command, const std::string& engine,
                        std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{command,    engine,   "--model",   kModel,
                                       "--inputs", inputs(), "--threads", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
};

TEST_F(Failing, BisectNamesTheNodeAndTheRule) {
  const Outcome outcome = run_on("bisect", file("bad.vn"), {"--json", "-o", file("found.json")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json found = json::parse(outcome.out);
  EXPECT_EQ(found, json::parse(read_file(file("found.json"))));
  ASSERT_EQ(found.at("nodes").size(), 1U) << outcome.out;
  EXPECT_EQ(found.at("nodes")[0].at("node"), kSoftmax);
  EXPECT_EQ(found.at("nodes")[0].at("rule"), kPlanted);
  EXPECT_EQ(found.at("rules_pass"), true);
  EXPECT_THAT(run_on("bisect", file("bad.vn")).out,
              HasSubstr("--rule 'name:" + kSoftmax + " compute=f32"));
}

TEST_F(Failing, ReduceWritesACommandThatFails) {
  const std::string folder = file("part");
  const Outcome outcome = run_on("reduce", file("bad.vn"), {"-o", folder});
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(kSoftmax));
  std::string command = read_file(folder + "/command.txt");
  for (size_t at = 0; (at = command.find("vernier ", at)) != command.npos;) {
    command.replace(at, 7, VERNIER_PROGRAM);
    at += std::string(VERNIER_PROGRAM).size();
  }
  const Outcome again = run_command("/bin/sh", {"-c", "cd '" + folder + "' && " + command});
  EXPECT_EQ(again.code, 1) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("verdict: "));
}

TEST_F(Failing, NothingIsDoneAboutAnEngineThatPasses) {
  const Outcome bisected = run_on("bisect", engine());
  EXPECT_EQ(bisected.code, 0) << bisected.err;
  EXPECT_THAT(bisected.out, HasSubstr("there is nothing to find"));
  const Outcome reduced = run_on("reduce", engine(), {"-o", file("none")});
  EXPECT_EQ(reduced.code, 0) << reduced.err;
  EXPECT_THAT(reduced.out, HasSubstr("there is nothing to reduce"));
  EXPECT_FALSE(std::filesystem::exists(file("none")));
}

TEST_F(Failing, AnF32EngineThatFailsHasNoCandidates) {
  const Outcome outcome = run_on("bisect", engine(), {"--tolerance", "max=1e-15"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("precision is not the cause: every node has at least f32"));
}

TEST_F(Failing, WhatTheyReadIsNotOverwritten) {
  const Outcome outcome = run_on("bisect", file("bad.vn"), {"-o", inputs()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("vernier: error:"));
}

}  // namespace
}  // namespace vernier::test
