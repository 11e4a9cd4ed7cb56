// The range audit of a build, and what verify reports of the same points.
#include "evaluate/range_audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compile/pipeline.h"
#include "evaluate/plan_work.h"
#include "evaluate/range_bounds.h"
#include "evaluate/rows.h"
#include "evaluate/samples.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "runtime/engine_impl.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

// One meaning: a build's audit and a report of the engine on the audit's sizes see the same points.
TEST(RangeAudit, OfABuildAreThoseOfTheReport) {
  const test::ExampleModel example = test::example_model("bert_embedder_ts17");
  const auto model = onnx::import_model(example.path);
  CompileOptions options;
  options.mode = "fp16";
  const plan::Plan plan = compiler::plan_of(*model, options, plan::PlanOptions::Constants::kExact);
  Request request;
  request.batches = {2};
  request.lengths = {48};
  request.threads = 2;
  request.localise = true;
  const auto engine = Engine::from_bytes(compile_to_bytes(example.path.string(), options));
  const Report report = verify_engine(engine, *model, request);
  ASSERT_TRUE(report.localisation);
  const std::shared_ptr<ir::Graph> raised = model->clone();
  passes::run_passes(*raised, passes::Phase::kRaise, {});
  const Domains domains = infer_domains(*raised);
  size_t compared = 0;
  for (const RangeRow& row : audit_ranges(plan, *engine->impl().backend, domains, 1)) {
    if (row.point == "weight") continue;
    const auto same = std::ranges::find_if(report.localisation->ranges, [&](const RangeRow& other) {
      return other.step == row.step && other.point == row.point;
    });
    ASSERT_NE(same, report.localisation->ranges.end()) << row.name << " " << row.point;
    EXPECT_EQ(same->type, row.type) << row.name << " " << row.point;
    EXPECT_EQ(same->limit, row.limit);
    EXPECT_LT(same->peak, 10 * row.peak) << row.name << " " << row.point;
    ++compared;
  }
  EXPECT_GT(compared, 20U);
}

struct Audited {
  plan::Plan plan;
  Domains domains;
};
Audited audited(const std::string& name, const std::string& mode) {
  const auto model = onnx::import_model(test::example_model(name).path);
  CompileOptions options;
  options.mode = mode;
  return {compiler::plan_of(*model, options, plan::PlanOptions::Constants::kExact),
          compiler::domains_of(*model)};
}

// Bounds that lie below what an evaluation shows would hide an overflow.
TEST(RangeAudit, NothingPassesItsBound) {
  size_t compared = 0;
  for (const char* name : {"bert_embedder_ts17", "bge_reranker_ts17", "demo_reranker", "gpt2_ts17",
                           "tracker_filter_predictor_ts17", "vit_ts17"}) {
    for (const char* mode : {"fp16", "int8"}) {
      const auto [plan, domains] = audited(name, mode);
      EXPECT_TRUE(fits_by_bounds(plan, domains)) << name << " " << mode;
      const std::vector<RangeRow> bounds = range_bounds(plan, domains);
      for (const RangeRow& row : audit_ranges(plan, compiler::backend_named("cpu"), domains, 1)) {
        if (row.point == "weight" || row.type == DType::kQ8) continue;
        const auto bound = std::ranges::find_if(bounds, [&](const RangeRow& other) {
          return other.step == row.step && other.point == row.point;
        });
        ASSERT_NE(bound, bounds.end()) << name << " " << mode << " " << row.name << row.point;
        EXPECT_GE(bound->peak, row.peak) << name << " " << mode << " " << row.name << row.point;
        EXPECT_TRUE(row.fits);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 400U);
}

// A larger weight may overflow, and one that is not finite has no bound.
TEST(RangeAudit, BoundsFollowTheWeights) {
  for (const double factor : {1.0, 1e5, HUGE_VAL}) {
    auto [plan, domains] = audited("bert_embedder_ts17", "fp16");
    const auto linear = std::ranges::find(plan.steps, OpKind::kLinear, &plan::Step::op);
    ASSERT_NE(linear, plan.steps.end());
    Tensor& weight = plan.blob(plan.value(linear->inputs[1]).constant).bytes;
    EvalTensor scaled = EvalTensor::from(weight);
    for (double& element : scaled.f) element *= factor;
    weight = scaled.to_tensor();
    EXPECT_EQ(fits_by_bounds(plan, domains), factor == 1) << factor;
  }
}

// What decides whether a model is too large for the audit: its two rows, not as many as tokens.
TEST(RangeAudit, WorkIsThatOfTwoRows) {
  const auto model = onnx::import_model(test::example_model("bert_embedder_ts17").path);
  CompileOptions options;
  options.mode = "fp16";
  const plan::Plan plan = compiler::plan_of(*model, options, plan::PlanOptions::Constants::kExact);
  const std::string batch = batch_candidates(plan).at(0);
  const double row = work_of(plan, sizes_of_row(plan, batch, 48));
  EXPECT_NEAR(range_audit_work(plan) / row, 2, 0.05);
}

// A softmax in f8 makes NaN; the mask beside it, -3.4e38 in f16, is not to blame.
TEST(RangeAudit, AMaskIsNotBlamedForTheNaNOfAnotherNode) {
  const test::ExampleModel example = test::example_model("bert_embedder_ts17");
  CompileOptions options;
  options.mode = "fp16";
  options.rules = {"op:Softmax compute==f8e4m3"};
  const auto engine = Engine::from_bytes(compile_to_bytes(example.path.string(), options));
  Request request;
  request.batches = {4};
  request.lengths = {16};
  request.threads = 2;
  const Report report = verify_engine(engine, *onnx::import_model(example.path), request);
  EXPECT_NE(report.verdict, "pass");
  EXPECT_EQ(report.explanation.find("e+38"), std::string::npos) << report.explanation;
}

}  // namespace
}  // namespace vernier::verify
