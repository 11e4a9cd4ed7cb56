// The check of runs after other inputs finds kernels that only it can find: right when watched,
// right in the first runs, and wrong when the same shape comes again. Contract:
// docs/verification_checks.md "Rows".
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

constexpr std::string_view kName = "runs after other inputs";

Report verified(const test::Plant* plant, std::vector<int64_t> batches) {
  const std::filesystem::path model = test::example_model("bge_reranker_ts17").path;
  Request request;
  request.batches = std::move(batches);
  request.lengths = {4};
  request.threads = 2;
  const plan::Plan plan = compiler::run(model.string(), {}).plan;
  return verify_engine(Engine::from_bytes(engine::engine_bytes(plan), test::planted_backend(plant)),
                       *onnx::import_model(model), request);
}

class AfterOthers : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Plants, AfterOthers,
                         ::testing::Values("third-replay", "stale-replay", "third-change"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(AfterOthers, FindsAStaleRecordingThatNoOtherCheckFinds) {
  const auto plant = std::ranges::find(test::plants(), GetParam(), &test::Plant::name);
  ASSERT_NE(plant, test::plants().end());
  const Report report = verified(&*plant, {1, 2});
  EXPECT_EQ(report.verdict, "bug (race)") << to_text(report);
  for (const CheckResult& check : report.checks)
    EXPECT_EQ(check.failed > 0, check.name == kName) << check.name << "\n" << to_text(report);
}

TEST(AfterOthers, RightKernelsPassInEveryCell) {
  for (const auto& batches : std::vector<std::vector<int64_t>>{{1}, {1, 2}}) {
    const Report report = verified(nullptr, batches);
    EXPECT_EQ(report.verdict, "pass") << to_text(report);
    const auto check = std::ranges::find(report.checks, kName, &CheckResult::name);
    ASSERT_NE(check, report.checks.end());
    EXPECT_EQ(check->done, static_cast<int64_t>(report.cells.size())) << to_text(report);
  }
}

}  // namespace
}  // namespace vernier::verify
