// Localise: the step with a planted defect stands out, shares are shares, ranges and NaN are seen.
#include "verify/localise.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "verify/tolerance.h"
#include "verify/verify.h"
#include "vernier/compile.h"

namespace vernier::verify {
namespace {

constexpr const char* kModel = "bge_reranker_ts17";

// Localised on a stored case with ragged masks, with a plant in place of its kernel where one is
// named.
struct Localised {
  std::shared_ptr<const Engine> engine;
  Localisation found;

  explicit Localised(const test::Plant* plant = nullptr) {
    const test::ExampleModel model = test::example_model(kModel);
    const auto file = std::filesystem::temp_directory_path() /
                      ("vernier_localise_" + std::to_string(getpid()) + ".vn");
    CompileOptions options;
    // Of a right mask that only ends early, as this case's, tokens alone do not show a shifted one.
    if (plant != nullptr && !plant->packed) options.passes_off = {"unpad"};
    compile(model.path.string(), file.string(), options);
    engine = Engine::open(file.string(), test::planted_backend(plant));
    std::filesystem::remove(file);
    Runner runner(engine, {.threads = 2});
    PlanEvaluator f(engine->impl().plan, *engine->impl().backend);
    found = follow(*engine, f, runner, model.cases().at(1).inputs);
  }
};

double sum_of_shares(const Localisation& found) {
  double sum = 0;
  for (const StepError& step : found.steps) sum += step.share;
  return sum;
}

TEST(Localise, FollowsEveryStepOfARightEngine) {
  const Localised right;
  const Localisation& found = right.found;
  ASSERT_EQ(found.steps.size(), right.engine->impl().plan.steps.size());
  EXPECT_NEAR(sum_of_shares(found), 1, 1e-9);
  EXPECT_EQ(found.first_non_finite, -1);
  bool carried = false;
  for (const StepError& step : found.steps) {
    EXPECT_EQ(step.non_finite, 0) << step.name;
    EXPECT_LE(step.local_rms, 1e-5 * step.reference_rms) << step.name;
    EXPECT_EQ(step.weights_rms, 0) << step.name;
    // The parts of an error are its whole, up to the triangle inequality.
    EXPECT_LE(step.total_rms, (step.local_rms + step.carried_rms) * (1 + 1e-9)) << step.name;
    EXPECT_GE(step.total_rms, std::abs(step.local_rms - step.carried_rms) * (1 - 1e-9));
    EXPECT_LT(step.amplification, 1e3) << step.name;
    carried = carried || step.carried_rms > 0;
  }
  EXPECT_TRUE(carried);
  EXPECT_GT(found.steps.back().total_rms, 0);
}

TEST(Localise, NamesThePlantedStep) {
  for (const test::Plant& plant : test::plants()) {
    if (plant.model != kModel || !plant.names_step || plant.verdict != "bug" ||
        plant.mode != "fp32" || plant.default_sizes)  // this run is small
      continue;
    const Localised planted(&plant);
    // Its kernel may stand in several steps: together they make most of the error.
    double share = 0;
    for (const StepError& step : planted.found.steps)
      share += step.kernel.starts_with(plant.kernel) ? step.share : 0;
    EXPECT_GT(share, 0.5) << plant.name << "\n" << to_text(planted.found);
    EXPECT_NE(to_text(planted.found).find("what adds most"), std::string::npos);
    EXPECT_NEAR(sum_of_shares(planted.found), 1, 1e-9);
  }
}

TEST(Localise, SeesTheRangesOfRoundingPoints) {
  const Localised right;
  bool scores = false;
  for (const RangeRow& row : right.found.ranges) {
    EXPECT_GT(row.peak, 0);
    EXPECT_GE(row.limit, largest_finite(DType::kF32)) << row.point;
    EXPECT_LT(row.peak, 1e4) << row.name << " " << row.point;
    scores = scores || row.point == "scores";
  }
  EXPECT_TRUE(scores);
}

TEST(Localise, JsonHasWhatTheTableShows) {
  const Localised right;
  const auto json = nlohmann::json::parse(to_json(right.found));
  ASSERT_EQ(json["steps"].size(), right.found.steps.size());
  for (const char* key :
       {"step", "node", "kernel", "store", "local_rms", "total_rms", "share", "amplification"})
    EXPECT_TRUE(json["steps"][0].contains(key)) << key;
  EXPECT_TRUE(json["first_non_finite"].is_null());
  EXPECT_EQ(json["ranges"].size(), right.found.ranges.size());
}

TEST(Localise, SaysWhereNanBegins) {
  Localisation found;
  found.steps.resize(2);
  found.steps[1] = {.step = 1, .name = "/exp", .kernel = "k", .share = 0};
  found.steps[1].own_non_finite = found.steps[1].non_finite = 7;
  found.first_non_finite = 1;
  EXPECT_NE(to_text(found).find("NaN or infinity begins in step 1 (k, '/exp'): 7 elements"),
            std::string::npos)
      << to_text(found);
  // The error of the elements that are left says nothing, nor do shares of it.
  found.steps[0].total_rms = found.steps[1].total_rms = 3.64e-05;
  found.steps[0].share = 1;
  const auto json = nlohmann::json::parse(to_json(found));
  EXPECT_EQ(json["steps"][0]["total_rms"], 3.64e-05);
  for (const char* key : {"local_rms", "weights_rms", "total_rms", "carried_rms", "amplification"})
    EXPECT_TRUE(json["steps"][1][key].is_null()) << key;
  EXPECT_TRUE(json["steps"][0]["share"].is_null());
  EXPECT_TRUE(json["by_share"].empty());
  const std::string row = to_text(found).substr(to_text(found).find("   1  k"));
  EXPECT_EQ(row.find("3.64e-05"), std::string::npos) << row;
  EXPECT_EQ(to_text(found).find("what adds most"), std::string::npos);
}

TEST(Localise, IsPartOfAReportThatAsksForIt) {
  const test::ExampleModel model = test::example_model(kModel);
  const auto engine = Engine::from_bytes(compile_to_bytes(model.path.string()));
  Request request;
  request.batches = {1, 2};
  request.lengths = {5};
  request.threads = 2;
  request.localise = true;
  const Report report = verify_engine(engine, *onnx::import_model(model.path), request);
  ASSERT_TRUE(report.localisation);
  EXPECT_EQ(report.localisation->steps.size(), report.steps.size());
  const auto worst = std::ranges::max_element(report.cells, {}, &CellResult::worst);
  EXPECT_EQ(report.localisation->inputs, worst->label);
  for (const CellResult& cell : report.cells) {
    EXPECT_GT(cell.share_of_limit, 0);
    EXPECT_LE(cell.share_of_limit, 1);
  }
}

TEST(LargestFinite, IsThatOfTheType) {
  EXPECT_EQ(largest_finite(DType::kF16), 65504);
  EXPECT_EQ(largest_finite(DType::kF32), std::numeric_limits<float>::max());
  EXPECT_EQ(largest_finite(DType::kF64), std::numeric_limits<double>::max());
  EXPECT_EQ(largest_finite(DType::kF8E4M3), 448);
  EXPECT_EQ(largest_finite(DType::kF8E5M2), 57344);
  EXPECT_EQ(largest_finite(DType::kBF16), 0x1.FEp127);
}

TEST(ShareOfLimit, IsAboveOneWhereThereIsAComplaint) {
  Distance d;
  d.worst = 2e-5;
  d.max_abs = 3e-5;
  d.cosine = 0.999;
  d.rms = 2e-6;
  d.rms_reference = 1;
  struct Row {
    const char* tolerance;
    double noise;
  };
  for (const Row& row : {Row{"", 0},
                         {"", 2e-5},
                         {"", 4e-5},
                         {"worst=1e-4", 0},
                         {"max=1e-5", 0},
                         {"max=1e-4", 0},
                         {"cos=0.9999", 0},
                         {"cos=0.99", 0},
                         {"worst=0", 0}}) {
    const Tolerance limit = parse_tolerance(row.tolerance);
    EXPECT_EQ(share_of_limit(d, limit, row.noise) > 1, !complaint(d, limit, row.noise).empty())
        << row.tolerance << " " << row.noise;
  }
  EXPECT_NEAR(share_of_limit(d, parse_tolerance("rms=1e-5")), 0.2, 1e-12);
  d.wrong_non_finite = 1;
  EXPECT_TRUE(std::isinf(share_of_limit(d, {})));
}

}  // namespace
}  // namespace vernier::verify
