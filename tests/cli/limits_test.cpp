// --max-memory, --max-seconds and --read-into-memory. Contract: docs/security.md "Limits".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class LimitsOfCommands : public WithEngine {
 protected:
  static std::vector<std::vector<std::string>> commands() {
    return {{"build", kModel, "-o", file("new.vn")},
            {"run", engine(), "--inputs", inputs(), "-o", file("new.npz")},
            {"verify", engine(), "--model", kModel}};
  }
  static void expect_over(std::vector<std::string> arguments, const char* option,
                          const std::string& value, const std::string& message) {
    arguments.insert(arguments.end(), {option, value});
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 3) << testing::PrintToString(arguments) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(StartsWith("vernier: error: "), HasSubstr(message)));
    EXPECT_FALSE(fs::exists(file("new.vn")));
    EXPECT_FALSE(fs::exists(file("new.npz")));
  }
};

TEST_F(LimitsOfCommands, MemoryIsRefusedBeforeItIsTaken) {
  for (const auto& arguments : commands())
    expect_over(arguments, "--max-memory", "20000", "but the memory limit (max-memory) is 20000");
  // The model's file fits, its weights and their packing do not.
  expect_over(commands()[0], "--max-memory", "3MB", "the model's weights and their packing");
  // Known exactly, with the sizes that were asked for.
  expect_over(commands()[1], "--max-memory", "20000",
              "a run with batch=4, seq=48, tokens=134 would take ");
  // The file fits, the evaluation of the largest cell does not.
  auto verify = commands()[2];
  verify.insert(verify.end(), {"--batches", "64", "--lengths", "128"});
  expect_over(verify, "--max-memory", "16MB", "the FP64 evaluation of ");
  auto read = commands()[1];
  read.push_back("--read-into-memory");
  expect_over(read, "--max-memory", "1MB", "into memory would take 2.");
}

TEST_F(LimitsOfCommands, TimeEndsTheWorkAndSaysWhere) {
  for (const auto& arguments : commands())
    expect_over(arguments, "--max-seconds", "0.001",
                "the time limit of 0.001 s (max-seconds) was exceeded after ");
}

TEST_F(LimitsOfCommands, WhatIsEnoughChangesNothing) {
  const std::vector<std::string> enough{"--max-memory", "4GB", "--max-seconds", "3000"};
  for (auto arguments : commands()) {
    arguments.insert(arguments.end(), enough.begin(), enough.end());
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  EXPECT_EQ(read_file(file("new.vn")), read_file(engine()));
  const std::string outputs = read_file(file("new.npz"));
  ASSERT_EQ(run_program({"run", engine(), "--inputs", inputs(), "-o", file("read.npz"),
                         "--read-into-memory"})
                .code,
            0);
  EXPECT_EQ(read_file(file("read.npz")), outputs);
  ASSERT_EQ(run_program({"verify", engine(), "--model", kModel, "--read-into-memory"}).code, 0);
  fs::remove(file("new.vn"));
  fs::remove(file("new.npz"));
}

TEST_F(LimitsOfCommands, WhatIsNoLimitIsNamed) {
  for (const auto& arguments : commands()) {
    for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
             {"--max-memory", "much"}, {"--max-seconds", "-1"}, {"--max-seconds", "soon"}}) {
      std::vector<std::string> with = arguments;
      with.insert(with.end(), {option, value});
      const Outcome outcome = run_program(with);
      EXPECT_EQ(outcome.code, 2) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(option));
    }
  }
}

}  // namespace
}  // namespace vernier::test
