// Certificates as a user meets them: run --require-certificate, run --check and inspect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"
#include "engine/reader.h"
#include "engine/writer.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Certified : public WithEngine {
 protected:
  // A copy of the engine, stamped with this verdict.
  static std::string stamped(const std::string& verdict) {
    const std::string path = file(verdict + ".vn");
    std::filesystem::copy_file(engine(), path, std::filesystem::copy_options::overwrite_existing);
    engine::stamp_certificate(path, {.verdict = verdict,
                                     .engine_hash = engine::read_engine(path)->content_hash,
                                     .model_hash = std::string(32, 'a'),
                                     .data_hash = std::string(32, 'b'),
                                     .batches = {1, 8},
                                     .lengths = {4, 16},
                                     .tolerances = {{"rms", 0.001}},
                                     .versions = {{"vernier", "0.1.0"}}});
    return path;
  }
  static Outcome run_certified(const std::string& path, const std::string& option) {
    return run_program({"run", path, "--inputs", inputs(), "-o", file("certified.npz"), option});
  }
};

TEST_F(Certified, AnEngineThatPassedRunsAndGivesTheSameBits) {
  ASSERT_EQ(run_program({"run", engine(), "--inputs", inputs(), "-o", file("plain.npz")}).code, 0);
  const Outcome outcome = run_certified(stamped("pass"), "--require-certificate");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_file(file("certified.npz")), read_file(file("plain.npz")));
  std::filesystem::remove(file("certified.npz"));
}

TEST_F(Certified, AnEngineThatNobodyVerifiedIsRefused) {
  const Outcome outcome = run_certified(engine(), "--require-certificate");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("vernier: error: --require-certificate: engine '" + engine() +
                                     "' has no certificate; 'vernier verify " + engine() +
                                     " --model MODEL.onnx --stamp' makes one"));
  EXPECT_FALSE(std::filesystem::exists(file("certified.npz")));
}

TEST_F(Certified, AnEngineThatFailedIsRefusedWithItsVerdict) {
  const Outcome outcome = run_certified(stamped("precision"), "--require-certificate");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("has the verdict 'precision', not 'pass'"));
  EXPECT_FALSE(std::filesystem::exists(file("certified.npz")));
}

TEST_F(Certified, TheWeightsAreReadToo) {
  const std::string path = stamped("pass");
  std::string bytes = read_file(path);
  const auto weights_at = engine::read_engine(path)->weights_offset;
  bytes[weights_at + 100] = static_cast<char>(bytes[weights_at + 100] ^ 1);
  write_file(file("flipped.vn"), bytes);
  for (const char* option : {"--require-certificate", "--check"}) {
    const Outcome outcome = run_certified(file("flipped.vn"), option);
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_THAT(outcome.err, HasSubstr("its weights are corrupt between offsets"));
    EXPECT_FALSE(std::filesystem::exists(file("certified.npz")));
  }
  EXPECT_EQ(run_certified(path, "--check").code, 0);
}

TEST_F(Certified, InspectShowsIt) {
  const std::string path = stamped("precision");
  const Outcome text = run_program({"inspect", path});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const std::string& part :
       {std::string("certificate precision\n"), "model     " + std::string(32, 'a') + "\n",
        "data      " + std::string(32, 'b') + "\n", std::string("batches   1, 8\n"),
        std::string("lengths   4, 16\n"), std::string("limits    rms 0.001\n"),
        std::string("versions  vernier 0.1.0\n")}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const json summary = json::parse(run_program({"inspect", path, "--json"}).out);
  const json expected{{"verdict", "precision"},
                      {"engine_hash", summary.at("engine_hash")},
                      {"model_hash", std::string(32, 'a')},
                      {"data_hash", std::string(32, 'b')},
                      {"batches", {1, 8}},
                      {"lengths", {4, 16}},
                      {"tolerance", {{"rms", 0.001}}},
                      {"versions", {{"vernier", "0.1.0"}}}};
  EXPECT_EQ(summary.at("certificate"), expected);
  EXPECT_THAT(run_program({"inspect", engine()}).out, HasSubstr("certificate none: not verified"));
  EXPECT_TRUE(
      json::parse(run_program({"inspect", engine(), "--json"}).out).at("certificate").is_null());
}

}  // namespace
}  // namespace vernier::test
