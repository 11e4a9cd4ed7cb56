// Signals: temporary files go, the program dies by the signal, a file that is truncated while it is
// mapped is named. Contract: docs/commands.md "Exit codes", docs/security.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path().filename());
  return found;
}

// A command that writes for a second or more, interrupted in the middle of two files.
class Writing : public testing::Test {
 protected:
  static std::vector<std::string> command(const std::string& folder) {
    return {"make-model", "bert-base", "-o", folder + "/big.onnx", "--layers", "4", "--external"};
  }
  // Ended by `signal` while it writes; what is in its folder then.
  static std::vector<std::string> left_by(int signal, const std::string& folder) {
    Running running(command(folder));
    EXPECT_TRUE(wait_until(running, [&] { return names(folder).size() == 2; })) << running.err();
    running.send(signal);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.code, 128 + signal) << outcome.err;
    return names(folder);
  }
};

TEST_F(Writing, ASignalLeavesNothingAndIsHowItEnds) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const TemporaryFolder folder;
    EXPECT_EQ(left_by(signal, folder / ""), std::vector<std::string>{}) << signal;
  }
}

TEST_F(Writing, WhatAKilledOneLeavesIsSweptByTheNext) {
  const TemporaryFolder folder;
  EXPECT_EQ(left_by(SIGKILL, folder / "").size(), 2u);
  const Outcome again = run_program(
      {"make-model", "minilm", "-o", folder / "big.onnx", "--layers", "1", "--external"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(names(folder / ""), testing::UnorderedElementsAre("big.onnx", "big.onnx.data"));
}

class Signals : public WithEngine {
 protected:
  static bool maps(const Running& running, const std::string& path) {
    const std::string name = fs::path(path).filename();
    std::ifstream file("/proc/" + std::to_string(running.process()) + "/maps");
    for (std::string line; std::getline(file, line);)
      if (line.find(name) != std::string::npos) return true;
    return false;
  }
  // Mapped, and a tenth of a second of computing later: opening takes less.
  static bool has_opened(const Running& running, const std::string& path) {
    if (!maps(running, path)) return false;
    std::ifstream file("/proc/" + std::to_string(running.process()) + "/stat");
    std::string field;
    long ticks = 0;
    constexpr int kUserTime = 14;  // proc(5)
    for (int i = 1; i <= kUserTime && file >> field; ++i)
      if (i == kUserTime) ticks = std::stol(field);
    return ticks * 10 >= sysconf(_SC_CLK_TCK);
  }
  static std::string copy_of_engine() {
    const std::string path = file("copy.vn");
    fs::copy_file(engine(), path, fs::copy_options::overwrite_existing);
    return path;
  }
};

TEST_F(Signals, CtrlCEndsWorkBetweenItsSteps) {
  Running running({"verify", engine(), "--model", kModel, "--thorough"});
  // Its first word is after a second of work.
  ASSERT_TRUE(wait_until(running, [&] { return !running.err().empty(); })) << running.err();
  running.send(SIGINT);
  const Outcome outcome = running.wait();
  EXPECT_EQ(outcome.code, 128 + SIGINT);
  EXPECT_THAT(outcome.err, HasSubstr("vernier: error: stopped while "));
  EXPECT_EQ(outcome.out, "");
}

TEST_F(Signals, AnEngineThatIsCutShortIsNamed) {
  const std::string path = copy_of_engine();
  Running running({"bench", path, "--seconds", "3600"});
  ASSERT_TRUE(wait_until(running, [&] { return has_opened(running, path); })) << running.err();
  fs::resize_file(path, 4096);
  const Outcome outcome = running.wait();
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("vernier: error: '" + path + "' was truncated"),
                                 HasSubstr("--read-into-memory")));
}

TEST_F(Signals, BuildingOverAnEngineInUseReplacesItsNameOnly) {
  const std::string path = copy_of_engine();
  Running running({"bench", path, "--seconds", "3600"});
  ASSERT_TRUE(wait_until(running, [&] { return maps(running, path); })) << running.err();
  const Outcome built = run_program({"build", kModel, "-o", path, "--bf16"});
  EXPECT_EQ(built.code, 0) << built.err;
  EXPECT_TRUE(maps(running, path + " (deleted)"));
  EXPECT_TRUE(running.runs());
  running.send(SIGTERM);
  EXPECT_EQ(running.wait().code, 128 + SIGTERM);
}

}  // namespace
}  // namespace vernier::test
