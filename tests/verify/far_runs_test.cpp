// Cells beyond the grid run again in few runs: each fault that a run is for is found there and
// named as in the grid, and right kernels pass. Contract: docs/verification_checks.md "Rows".
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "compile/pipeline.h"
#include "core/threads.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "verify/replay.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

using backend::KernelDef;
using backend::LaunchCall;

// The grid has up to 8 rows of up to 48 positions.
bool is_far(const LaunchCall& call) {
  return call.out[0].dim(0) > 8 || call.out[0].dim(0) * call.out[0].dim(-2) > 8 * 48;
}
float* row(const LaunchCall& call, int64_t r) {
  return call.out[0].as<float>() + r * call.out[0].dim(-2) * call.out[0].dim(-1);
}

// As few as one part of a step on several threads.
void depends_on_threads(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  if (is_far(call) && call.execution.threads && call.execution.threads->size() == 1)
    row(call, 0)[0] *= 1 + 0x1p-20F;
}
// An element takes in what the memory held where it stands.
void reads_old_memory(const KernelDef& right, const LaunchCall& call) {
  const float before = *row(call, 0);
  right.launch(call);
  if (is_far(call) && std::abs(before) > 1) row(call, 0)[0] *= 1 + 0x1p-20F;
}
// The first element of the row below is added, too small for any limit.
void reads_the_next_row(const KernelDef& right, const LaunchCall& call) {
  right.launch(call);
  if (!is_far(call)) return;
  for (int64_t r = 0; r + 1 < call.out[0].dim(0); ++r)
    row(call, r)[0] += 0x1p-23F * row(call, r + 1)[0];
}
// Nobody watches where the output does not hold a fill of verify's.
bool is_watched(const LaunchCall& call) {
  const uint32_t word = *call.out[0].as<uint32_t>();
  return word == kSignallingNan || word == kOtherNumber;
}
void differs_unwatched(const KernelDef& right, const LaunchCall& call) {
  const bool watched = is_watched(call);
  right.launch(call);
  if (is_far(call) && !watched) row(call, 0)[0] *= 1 + 0x1p-20F;
}
// What the first run of a shape gave comes again where nobody watches.
void keeps_its_first_answer(const KernelDef& right, const LaunchCall& call) {
  static std::map<const backend::ShapeState*, std::vector<float>> answers;
  static std::mutex mutex;  // sessions run beside each other
  const bool watched = is_watched(call);
  right.launch(call);
  if (!is_far(call)) return;
  const std::lock_guard lock(mutex);
  std::vector<float>& answer = answers[call.shape_state];
  float* y = row(call, 0);
  if (std::ssize(answer) != call.out[0].elems())
    answer.assign(y, y + call.out[0].elems());
  else if (!watched)
    std::ranges::copy(answer, y);
}
size_t one_word(const backend::PrepareCall&) { return sizeof(uint32_t); }  // for a state per shape

struct Case {
  std::string name, verdict;
  test::PlantedLaunch launch;
  size_t (*scratch)(const backend::PrepareCall&) = nullptr;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

Report verified(const test::Plant* plant) {
  const std::filesystem::path model = test::example_model("bge_reranker_ts17").path;
  Request request;
  request.threads = 2;
  CompileOptions options;
  options.passes_off = {"unpad"};  // runs of one shape, whatever their masks
  const plan::Plan plan = compiler::run(model.string(), options).plan;
  return verify_engine(Engine::from_bytes(engine::engine_bytes(plan), test::planted_backend(plant)),
                       *onnx::import_model(model), request);
}

class FarRuns : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Faults, FarRuns,
    ::testing::Values(Case{"threads", "bug (race)", &depends_on_threads},
                      Case{"memory", "bug (uninitialised read)", &reads_old_memory},
                      Case{"neighbors", "neighbours", &reads_the_next_row},
                      Case{"unwatched", "bug (race)", &differs_unwatched},
                      Case{"stale", "bug (race)", &keeps_its_first_answer, &one_word}),
    [](const auto& one) { return one.param.name; });

TEST_P(FarRuns, FindsAndNamesTheFault) {
  const test::Plant plant{.name = "far",
                          .defect = "a fault beyond the grid",
                          .model = "bge_reranker_ts17",
                          .kernel = "cpu.add_layer_norm.rows",
                          .verdict = GetParam().verdict,
                          .names_step = false,
                          .launch = GetParam().launch,
                          .scratch = GetParam().scratch};
  const Report report = verified(&plant);
  EXPECT_EQ(report.verdict, GetParam().verdict) << to_text(report);
  for (const CellResult& cell : report.cells)
    EXPECT_TRUE(cell.far || cell.verdict == Verdict::kPass) << cell.label;
}

TEST(FarRuns, RightKernelsPassAndEveryCellIsAsked) {
  const Report report = verified(nullptr);
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  const auto far = std::ranges::count_if(report.cells, &CellResult::far);
  EXPECT_GE(far, 5);
  for (const std::string_view name :
       {"repeated, and on one thread", "plain runs (steps not inspected)",
        "runs after other inputs", "memory that held other values"}) {
    const auto check = std::ranges::find(report.checks, name, &CheckResult::name);
    ASSERT_NE(check, report.checks.end());
    EXPECT_EQ(check->done, std::ssize(report.cells)) << name << "\n" << to_text(report);
  }
}

}  // namespace
}  // namespace vernier::verify
