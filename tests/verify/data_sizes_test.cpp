// Verify on models whose sizes follow from data: verdicts, ties that change how many there are, and
// localise on the engine's path. Contract: docs/verification_checks.md "Decisions".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/graphs.h"
#include "runtime/engine_impl.h"
#include "scenarios/build.h"
#include "verify/localise.h"

namespace vernier::verify {
namespace {

using testing::HasSubstr;

// Rows whose mean passes a threshold, multiplied: in 16 bits some means change sides.
constexpr std::string_view kSelected =
    R"(graph selected(%x: f32[batch, 400, 64]) {
  %w = const f32[64, 64] normal(seed=3, mean=0, std=0.125)
  %h = MatMul(%x, %w)
  %s = ReduceMean(%h) {axes=[2], keepdims=false}
  %g = Greater(%s, f32{0.1})
  %where = NonZero(%g)
  %at = Transpose(%where) {perm=[1, 0]}
  %rows = GatherND(%h, %at)
  %v = const f32[64, 8] normal(seed=4, mean=0, std=1)
  %y = MatMul(%rows, %v)
  return %y as "y", %at as "places"
})";

// Boxes and scores by products, the best of each class, and their boxes.
constexpr std::string_view kBoxes =
    R"(graph boxes(%x: f32[batch, 150, 32]) {
  %wb = const f32[32, 4] normal(seed=5, mean=0, std=0.5)
  %ws = const f32[32, 3] normal(seed=6, mean=0, std=0.2)
  %b = MatMul(%x, %wb)
  %boxes = Sigmoid(%b)
  %c = MatMul(%x, %ws)
  %p = Sigmoid(%c)
  %scores = Transpose(%p) {perm=[0, 2, 1]}
  %picked = NonMaxSuppression(%boxes, %scores, i64{20}, f32{0.5}, f32{0.55}) {center_point_box=true}
  %at = Gather(%picked, i64[2]{0, 2}) {axis=1}
  %y = GatherND(%boxes, %at)
  return %y as "y", %picked as "picked"
})";

Tensor normal_values(Shape shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(num_elems(shape)));
  std::ranges::generate(values, [&] { return normal(random); });
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
}

Report verified(std::string_view text, const std::string& mode) {
  Request request;
  request.batches = {1, 3};
  return field::verify_policy(*test::graph_of(text), {.mode = mode}, request);
}

TEST(DataSizes, Pass) {
  for (const std::string_view text : {kSelected, kBoxes}) {
    const Report report = verified(text, "fp32");
    EXPECT_EQ(report.verdict, "pass") << to_text(report);
  }
}

// In bf16 the engine finds other rows than FP64; it is judged on its own.
TEST(DataSizesInBf16, OtherCountsAreTies) {
  const Report report = verified(kSelected, "bf16");
  EXPECT_THAT(to_text(report), HasSubstr("decisions were ties"));
  for (const OutputResult& output : report.outputs)
    EXPECT_EQ(output.verdict, "pass") << output.name;
}

TEST(DataSizesInBf16, LocaliseGoesOnWithTheEnginesArrays) {
  const auto model = test::graph_of(kSelected);
  const auto engine = field::engine_of(field::plan_of(*model, {.mode = "bf16"}));
  Runner runner(engine, {.threads = 1});
  PlanEvaluator f(engine->impl().plan, *engine->impl().backend);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Localisation found =
        follow(*engine, f, runner, {{"x", normal_values({3, 400, 64}, seed)}});
    EXPECT_EQ(found.steps.size(), engine->impl().plan.steps.size());
  }
}

}  // namespace
}  // namespace vernier::verify
