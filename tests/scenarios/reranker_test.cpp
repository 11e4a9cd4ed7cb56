// Field case 1: the reranker that is wrong at batch 4. FP32: every batch and length, rows alone,
// in other company and at a static shape, on three exports of one model; and the planted defect.
// Contract: docs/verification_fitting.md "Field cases".
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "verify/verify.h"
#include "vernier/compile.h"

namespace vernier::verify {
namespace {

class Reranker : public ::testing::TestWithParam<const char*> {};

Report verify_model(const std::string& name, const CompileOptions& options,
                    const Request& request) {
  const auto path = test::example_model(name).path;
  const plan::Plan plan = compiler::run(path.string(), options).plan;
  return verify_engine(Engine::from_bytes(engine::engine_bytes(plan)), *onnx::import_model(path),
                       request);
}

TEST_P(Reranker, EveryBatchAndLengthGivesEachRowItsOwnBits) {
  Request request;
  request.depth = Depth::kThorough;
  request.threads = 2;
  const Report report = verify_model(GetParam(), test::options_here(), request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_EQ(std::ranges::count(report.cells, false, &CellResult::far), 8 * 5);
  EXPECT_GE(std::ranges::count(report.cells, true, &CellResult::far), 1) << "beyond the grid";
  for (const CellResult& cell : report.cells) EXPECT_EQ(cell.verdict, "pass") << cell.label;
  for (const CheckResult& check : report.checks) EXPECT_GT(check.done, 0) << check.name;
  const OutputResult& logits = report.outputs.at(0);
  EXPECT_GT(logits.rankings, 0) << "the rows of a batch are ranked";
  EXPECT_EQ(logits.top1_changes, 0);
  EXPECT_EQ(logits.top5_changes, 0);
  EXPECT_EQ(logits.least_correlation, 1);
}

TEST_P(Reranker, TheStaticShapePassesToo) {
  const auto path = test::example_model(GetParam()).path;
  const plan::Plan dynamic = compiler::run(path.string(), test::options_here()).plan;
  CompileOptions options = test::options_here();
  for (const plan::Symbol& symbol : dynamic.symbols)
    options.shapes += (options.shapes.empty() ? "" : ",") + symbol.name + "=4";
  Request request;
  request.threads = 2;
  const Report report = verify_model(GetParam(), options, request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  ASSERT_EQ(report.cells.size(), 2U);
  EXPECT_EQ(report.cells[0].label, "batch 4, length 4");
  EXPECT_EQ(report.cells[1].label, "batch 4, length 4, no padding");
  for (const CheckResult& check : report.checks) {
    const bool placed = check.name == "one row copied over the batch" ||
                        check.name == "rows in reverse order" ||
                        check.name == "rows that share a batch with NaN";
    if (placed) {
      EXPECT_GT(check.done, 0) << check.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exports, Reranker,
                         ::testing::Values("bge_reranker_ts17", "bge_reranker_dynamo"),
                         [](const auto& one) { return std::string(one.param); });

// Every cell on one export, the usual ones on the others.
using Export = std::tuple<const char*, const char*>;
class RerankerInSixteenBits : public ::testing::TestWithParam<Export> {};

TEST_P(RerankerInSixteenBits, GivesEachRowItsOwnBitsWithinTwiceTheNoise) {
  const auto [name, mode] = GetParam();
  CompileOptions options = test::options_here();
  options.mode = mode;
  Request request;
  request.threads = 2;
  if (std::string_view(name) == "bge_reranker_ts17") request.depth = Depth::kThorough;
  const Report report = verify_model(name, options, request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  for (const CellResult& cell : report.cells) EXPECT_EQ(cell.verdict, "pass") << cell.label;
  for (const CheckResult& check : report.checks) EXPECT_GT(check.done, 0) << check.name;
  const OutputResult& logits = report.outputs.at(0);
  EXPECT_LE(logits.all_rms, 2 * logits.noise_rms);
  EXPECT_GT(logits.rankings, 0);
  EXPECT_EQ(logits.top1_changes, 0);
  std::printf(
      "%s %s: rms error %.3g, noise %.3g, %lld cells, %lld rankings, least correlation %g\n", name,
      mode, logits.all_rms, logits.noise_rms, static_cast<long long>(report.cells.size()),
      static_cast<long long>(logits.rankings), logits.least_correlation);
}

TEST_P(RerankerInSixteenBits, TheStaticShapePassesToo) {
  const auto [name, mode] = GetParam();
  CompileOptions options = test::options_here();
  options.mode = mode;
  const auto path = test::example_model(name).path;
  for (const plan::Symbol& symbol : compiler::run(path.string(), options).plan.symbols)
    options.shapes += (options.shapes.empty() ? "" : ",") + symbol.name + "=4";
  Request request;
  request.threads = 2;
  const Report report = verify_model(name, options, request);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_EQ(report.cells.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Exports, RerankerInSixteenBits,
                         ::testing::Combine(::testing::Values("bge_reranker_ts17",
                                                              "bge_reranker_dynamo"),
                                            ::testing::Values("fp16", "bf16")),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_" +
                                  std::get<1>(one.param);
                         });

TEST(RerankerPlanted, AKernelThatReadsPastItsRowIsFoundAndNamed) {
  const auto path = test::example_model("bge_reranker_ts17").path;
  const std::string file =
      testing::TempDir() + "reads_past_row_" + std::to_string(getpid()) + ".vn";
  CompileOptions options = test::options_here();
  options.mode = "fp16";
  const std::string device = options.device;
  if (device == "cpu") options.mode = "fp32";
  compile(path.string(), file, options);
  const test::Plant* plant = nullptr;
  for (const test::Plant& one : test::plants(device)) {
    if (one.name == "reads-past-row") plant = &one;
  }
  ASSERT_NE(plant, nullptr);
  Request request;
  request.lengths = {16};
  const Report report = verify_engine(Engine::open(file, test::planted_backend(plant, device)),
                                      *onnx::import_model(path), request);
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.explanation.find(plant->kernel), std::string::npos) << report.explanation;
  for (const CellResult& cell : report.cells) {
    // On a GPU it is so at batch 4 only.
    if (device == "cpu" ? cell.batch > 1 : cell.batch == 4) {
      EXPECT_NE(cell.verdict, "pass") << cell.label;
    }
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace vernier::verify
