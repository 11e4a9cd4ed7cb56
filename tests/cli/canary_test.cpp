// Canaries as a user meets them: recorded by build, shown by inspect, held against the engine by
// run --canary. Contract: docs/certificates.md "Canary".
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
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WithCanary : public WithEngine {
 protected:
  static Outcome run_it(const std::string& path) {
    return run_program({"run", path, "--inputs", inputs(), "-o", file("canary.npz"), "--canary"});
  }
  // The engine with another plan or another canary.
  template <class Change>
  static std::string changed(const Change& change) {
    const auto read = engine::read_engine(engine());
    plan::Plan plan = read->plan;
    engine::Records records = read->records;
    change(plan, records);
    const std::string path = file("changed.vn");
    engine::write_engine(path, plan, Watch(), [&](const auto&) { return records; });
    return path;
  }
};

TEST_F(WithCanary, AnEngineAnswersItsCanary) {
  const Outcome outcome = run_it(engine());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(file("canary.npz")));
  const json shown = json::parse(run_program({"inspect", engine(), "--json"}).out);
  ASSERT_EQ(shown.at("canary").at("runs").size(), 3u) << shown.at("canary");
  EXPECT_TRUE(shown.at("canary").at("versions").contains("target"));
  EXPECT_THAT(run_program({"inspect", engine()}).out,
              HasSubstr("canary      3 runs, recorded with"));
}

// A weight that is not the one of the build: no checksum is wrong, since the file was written so.
TEST_F(WithCanary, OtherBitsAreRefused) {
  const std::string path = changed([](plan::Plan& plan, engine::Records&) {
    for (plan::Blob& blob : plan.blobs) {
      if (blob.dtype != DType::kF32 || !blob.layout.empty() || blob.bytes.elems() < 8) continue;
      EvalTensor values = EvalTensor::from(blob.bytes);
      for (double& value : values.f) value *= 1.25;
      blob.bytes = values.to_tensor();
    }
  });
  std::filesystem::remove(file("canary.npz"));
  const Outcome outcome = run_it(path);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--canary: engine '"),
                                 HasSubstr("answers its canary with other bits than when it was "
                                           "built (inputs "),
                                 HasSubstr("nothing that is recorded has changed since")));
  EXPECT_FALSE(std::filesystem::exists(file("canary.npz")));
}

TEST_F(WithCanary, WhatHasChangedSinceIsNamed) {
  const std::string path = changed([](plan::Plan&, engine::Records& records) {
    records.canary->versions[0].number = "0.0.1";
    records.canary->versions.push_back({"gpu", "another chip"});
    records.canary->runs[1].outputs_hash = std::string(32, '0');
  });
  const Outcome outcome = run_it(path);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("changed since: vernier '0.0.1' then and '"),
                                 HasSubstr("gpu 'another chip' then and none now"),
                                 HasSubstr("'vernier verify' says whether")));
}

// Equal bits with other versions are no finding.
TEST_F(WithCanary, OtherVersionsWithEqualBitsAreTaken) {
  const std::string path = changed(
      [](plan::Plan&, engine::Records& records) { records.canary->versions[0].number = "0.0.1"; });
  EXPECT_EQ(run_it(path).code, 0);
}

TEST_F(WithCanary, AnEngineWithoutOneIsRefused) {
  const std::string path = file("none.vn");
  ASSERT_EQ(run_program({"build", kModel, "-o", path, "--no-canary"}).code, 0);
  EXPECT_THAT(run_program({"inspect", path}).out, HasSubstr("canary      none"));
  const Outcome outcome = run_it(path);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("has no canary; build it again"));
  EXPECT_EQ(run_program({"run", path, "--inputs", inputs(), "-o", file("plain.npz")}).code, 0);
}

}  // namespace
}  // namespace vernier::test
