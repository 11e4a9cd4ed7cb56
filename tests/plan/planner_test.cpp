// Choice of kernels, constants, lifetimes, outputs and errors. Contract: plan/planner.h.
#include "plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/validate.h"
#include "engine/writer.h"
#include "plan/graphs.h"
#include "precision/requests.h"

namespace vernier::test {
namespace {

using plan::PlanValue;
using testing::HasSubstr;

// ---- kernels -----------------------------------------------------------------------------------

TEST(Kernels, TheFirstRowThatSupportsTheNodeIsUsed) {
  EXPECT_EQ(toy_plan(linear_text(32, 4, 1)).steps[0].kernel, "toy.linear.packed");
}

TEST(Kernels, ARefusedRowLeavesItsReasonInTheLedger) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, 5]) { %y = Linear(%x, f32[5, 2] fill(1)) from \"#0|lin|MatMul|\" return "
      "%y as \"y\" }");
  EXPECT_EQ(plan.steps[0].kernel, "toy.linear.plain");
  EXPECT_EQ(plan.ledger.at(0).why,
            "satisfies; not used: toy.linear.packed K is not a multiple of 16");
}

TEST(Kernels, ARowThatIsTooImpreciseIsNotUsed) {
  const plan::Plan plan =
      toy_plan("graph g(%x: f32[b]) { %y = Exp(%x) from \"#0|e|Exp|\" return %y as \"y\" }");
  EXPECT_EQ(plan.steps[0].kernel, "toy.exp.f32");
  EXPECT_THAT(plan.ledger.at(0).why, HasSubstr("toy.exp.half computes in f16"));
}

TEST(Kernels, ARequestThatNobodyHonoursIsAnErrorThatNamesNodeRequestAndReason) {
  const std::string error = error_of([] {
    toy_plan("graph g(%x: f32[b]) { %y = Sqrt(%x) named \"/root/Sqrt\" return %y as \"y\" }");
  });
  EXPECT_THAT(error, HasSubstr("node '/root/Sqrt' (Sqrt)"));
  EXPECT_THAT(error, HasSubstr("compute >= f32"));
  EXPECT_THAT(error, HasSubstr("nearest: toy.sqrt.half computes in f16"));
}

TEST(Kernels, AnOperatorWithoutKernelIsAnErrorThatSaysSo) {
  const std::string error =
      error_of([] { toy_plan("graph g(%x: f32[b]) { %y = Tanh(%x) return %y as \"y\" }"); });
  EXPECT_THAT(error, HasSubstr("(Tanh): no toy kernel"));
  EXPECT_THAT(error, HasSubstr("the backend has no kernel for this operator"));
}

TEST(Kernels, SizesNeedNoKernel) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, s]) { %v = ShapeValues() {values=(b*s, 2), dtype=i64} %y = Abs(%x) "
      "return %y as \"y\", %v as \"sizes\" }");
  EXPECT_EQ(outline(plan), "Abs");
  const PlanValue& sizes = plan.values[static_cast<size_t>(plan.outputs[1])];
  EXPECT_EQ(sizes.kind, PlanValue::Kind::kShapeValues);
  ASSERT_EQ(sizes.values.size(), 2u);
  EXPECT_EQ(sizes.values[0].str(), (Dim::symbol("b") * Dim::symbol("s")).str());
}

TEST(Kernels, ANodeThatLostItsRequestIsABugOfOurs) {
  const auto graph = graph_of(
      "graph g(%x: f32[b]) { %p = Abs(%x) %q = Exp(%p) named \"forgotten\" return %q as \"q\" }");
  precision::ask_mode(*graph, precision::Mode::kFp32);
  precision::join_requests(*graph);
  graph->producer(graph->outputs[0])->request = {};
  const std::string error =
      error_of([&] { plan::make_plan(*graph, toy_backend(), {}); }, ErrorCode::kInternal);
  EXPECT_THAT(error, HasSubstr("'forgotten' (Exp) lost its request"));
}

// ---- constants ---------------------------------------------------------------------------------

TEST(Constants, APackedWeightReplacesThePlainOne) {
  const plan::Plan plan = toy_plan(linear_text(16, 3, 1));
  ASSERT_EQ(plan.blobs.size(), 1u);
  EXPECT_EQ(plan.blobs[0].layout, "reversed");
  EXPECT_EQ(plan.blobs[0].shape, (Shape{16, 3}));
  EXPECT_EQ(plan.blobs[0].bytes.bytes(), 16u * 3 * 4);
  ASSERT_EQ(plan.steps[0].packed.size(), 1u);
  EXPECT_EQ(plan.steps[0].packed[0].input, 1);
  EXPECT_EQ(plan.steps[0].inputs[1], plan::kNone);
  const bool any = std::ranges::any_of(
      plan.values, [](const PlanValue& v) { return v.kind == PlanValue::Kind::kConstant; });
  EXPECT_FALSE(any) << "the plain weight is still a value";
}

TEST(Constants, APlainWeightThatAnotherStepReadsStays) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, 16]) { %w = const f32[16, 16] normal(seed=1, mean=0, std=1) %y = "
      "Linear(%x, %w) %z = Neg(%w) return %y as \"y\", %z as \"z\" }");
  ASSERT_EQ(plan.blobs.size(), 2u);
  EXPECT_NE(plan.blobs[0].layout.empty(), plan.blobs[1].layout.empty());
}

TEST(Constants, EqualOnesAreStoredOnce) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, 3]) { %p = Add(%x, f32[3]{1, 2, 3}) %q = Add(%p, f32[3]{1, 2, 3}) %r = "
      "Add(%q, f32[3]{1, 2, 4}) %s = Add(%r, f32[1, 3]{1, 2, 3}) return %s as \"s\" }");
  EXPECT_EQ(plan.blobs.size(), 3u) << "{1,2,3}, {1,2,4} and {1,2,3} of another shape";
}

TEST(Constants, EqualPackedOnesAreStoredOnce) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, 16]) { %v = const f32[16, 16] normal(seed=1, mean=0, std=1) %w = const "
      "f32[16, 16] normal(seed=1, mean=0, std=1) %p = Linear(%x, %v) %q = Linear(%p, %w) return "
      "%q as \"q\" }");
  EXPECT_EQ(plan.blobs.size(), 1u);
  EXPECT_EQ(plan.steps[0].packed[0].blob, plan.steps[1].packed[0].blob);
}

TEST(Constants, AConstantMayBeAnOutput) {
  const plan::Plan plan =
      toy_plan("graph g(%x: f32[b]) { %y = Abs(%x) return %y as \"y\", i64[2]{3, 4} as \"two\" }");
  EXPECT_EQ(plan.values[static_cast<size_t>(plan.outputs[1])].kind, PlanValue::Kind::kConstant);
}

TEST(Constants, AGraphThatNobodyNeedsLetsGoOfThem) {
  const auto graph = graph_of(
      "graph g(%x: f32[b, 16]) { %v = const f32[16, 16] normal(seed=1, mean=0, std=1) %w = const "
      "f32[16, 3] normal(seed=2, mean=0, std=1) %p = Linear(%x, %v) %n = Neg(%v) %q = "
      "Linear(%p, %w) return %q as \"q\", %n as \"n\", i64[2]{3, 4} as \"two\" }");
  precision::ask_mode(*graph, precision::Mode::kFp32);
  precision::join_requests(*graph);
  const plan::Plan kept = plan::make_plan(*graph, toy_backend(), {});
  const auto constants = [&] {
    size_t count = 0;
    for (size_t v = 0; v < graph->num_values(); ++v)
      count += graph->value(static_cast<ir::ValueId>(v)).is_constant();
    return count;
  };
  EXPECT_EQ(constants(), 3u);
  const plan::Plan plan = plan::make_plan(std::move(*graph), toy_backend(), {});
  EXPECT_EQ(constants(), 1u) << "the output";
  EXPECT_EQ(engine::engine_bytes(plan), engine::engine_bytes(kept));
}

// What makes two plans of one model share a constant.
plan::Plan plan_keeping(plan::KeptConstants& kept, int64_t n, int seed) {
  const auto graph = graph_of(linear_text(16, n, seed));
  precision::ask_mode(*graph, precision::Mode::kFp32);
  precision::join_requests(*graph);
  return plan::make_plan(*graph, toy_backend(), {.shapes = "", .kept = &kept});
}

TEST(KeptConstants, AreMadeOnceForAllPlans) {
  plan::KeptConstants kept;
  const plan::Plan first = plan_keeping(kept, 3, 1), second = plan_keeping(kept, 3, 1);
  EXPECT_EQ(kept.made(), 1);
  EXPECT_EQ(first.blobs.at(0).bytes.data(), second.blobs.at(0).bytes.data());
  EXPECT_EQ(engine::engine_bytes(second), engine::engine_bytes(toy_plan(linear_text(16, 3, 1))));
}

TEST(KeptConstants, AreToldApartByContentsAndShape) {
  plan::KeptConstants kept;
  for (const auto& [n, seed] : {std::pair(3, 1), {3, 2}, {4, 1}}) {
    const plan::Plan plan = plan_keeping(kept, n, seed);
    EXPECT_EQ(engine::engine_bytes(plan), engine::engine_bytes(toy_plan(linear_text(16, n, seed))));
  }
  EXPECT_EQ(kept.made(), 3);
}

TEST(KeptConstants, AreToldApartByTheTypeTheyAreStoredIn) {
  plan::KeptConstants kept;
  const Tensor contents = Tensor::from(DType::kF32, {2}, std::vector<double>{1, 2});
  EXPECT_EQ(kept.stored(contents, DType::kF32).data(), contents.data());
  const Tensor half = kept.stored(contents, DType::kF16);
  EXPECT_EQ(half.dtype(), DType::kF16);
  EXPECT_EQ(kept.stored(contents, DType::kBF16).dtype(), DType::kBF16);
  EXPECT_EQ(kept.stored(contents, DType::kF16).data(), half.data());
  EXPECT_EQ(kept.made(), 2);
}

TEST(KeptConstants, AreAlignedOnce) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(5000, std::byte{1});
  const std::byte* odd = bytes->data();
  while (reinterpret_cast<uintptr_t>(odd) % 64 != 4) ++odd;
  const Tensor contents(DType::kF32, {1100}, bytes, odd);
  ir::Graph graph;
  graph.add_constant(contents);
  plan::KeptConstants kept;
  kept.expect(graph);
  const Tensor aligned = kept.stored(contents, DType::kF32);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned.data()) % 64, 0U);
  EXPECT_TRUE(std::ranges::equal(aligned.byte_span(), contents.byte_span()));
  EXPECT_EQ(kept.stored(contents, DType::kF32).data(), aligned.data());
  const Tensor prefix(DType::kF32, {1099}, bytes, odd);
  EXPECT_EQ(kept.stored(prefix, DType::kF32).elems(), 1099) << "the same address, other contents";
  EXPECT_EQ(kept.made(), 0);
}

// ---- lifetimes ---------------------------------------------------------------------------------

std::pair<int, int> lifetime(const plan::Plan& plan, const std::string& name) {
  for (const PlanValue& v : plan.values) {
    if (v.name == name) return {v.first_step, v.last_step};
  }
  return {-2, -2};
}

TEST(Lifetimes, LastFromTheMakerToTheLastReader) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b]) { %p = Abs(%x) %q = Neg(%p) %r = Add(%q, %p) %s = Abs(%r) return %s as "
      "\"s\" }");
  EXPECT_EQ(lifetime(plan, "p"), std::pair(0, 2));
  EXPECT_EQ(lifetime(plan, "q"), std::pair(1, 2));
  EXPECT_EQ(lifetime(plan, "r"), std::pair(2, 3));
  EXPECT_EQ(lifetime(plan, "s"), std::pair(3, 3));
}

TEST(Lifetimes, AReadThroughAViewCounts) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, 4]) { %p = Abs(%x) %q = Neg(%x) %v = Reshape(%p) {shape=(4*b), "
      "has_shape=true} %r = Abs(%q) %s = Abs(%v) return %r as \"r\", %s as \"s\" }");
  EXPECT_EQ(lifetime(plan, "p"), std::pair(0, 3));
}

TEST(Lifetimes, OutputsLastToTheEnd) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b]) { %p = Abs(%x) %q = Neg(%p) %r = Abs(%q) return %p as \"p\", %r as "
      "\"r\" }");
  EXPECT_EQ(lifetime(plan, "p"), std::pair(0, 2));
}

TEST(Lifetimes, AResultThatNothingReadsLastsForItsStep) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, 6]) { %p, %q = Split(%x) {axis=1, num_outputs=2} %n = Neg(%q) return %p "
      "as \"p\", %n as \"n\" }");
  EXPECT_EQ(outline(plan), "Split Neg");
  EXPECT_EQ(lifetime(plan, "p"), std::pair(0, 1));
}

// ---- whole plans -------------------------------------------------------------------------------

constexpr std::string_view kTwoInputs =
    "graph g(%x: f32[b, 16], %m: f32[b, 16]) { %w = const f32[16, 16] normal(seed=3, mean=0, "
    "std=1) %h = Linear(%x, %w) %s = Add(%h, %m) %y = Exp(%s) guard b == 4*floordiv(b, 4) \"pool\" "
    "return %y as \"y\", %s as \"s\" }";

TEST(Plans, KeepTheRulesOfThePlan) {
  const plan::Plan plan = toy_plan(kTwoInputs);
  EXPECT_NO_THROW(engine::check_plan(plan));
  EXPECT_EQ(plan.device, "toy");
  EXPECT_EQ(plan.target, "toy machine");
  EXPECT_EQ(plan.input_names, (std::vector<std::string>{"x", "m"}));
  EXPECT_EQ(plan.output_names, (std::vector<std::string>{"y", "s"}));
  ASSERT_EQ(plan.guards.size(), 1u);
  EXPECT_EQ(plan.guards[0].where, "pool");
  ASSERT_EQ(plan.segments.size(), 1u);
  EXPECT_EQ(plan.segments[0].end_step, 3);
}

TEST(Plans, AreTheSameBytesEachTime) {
  EXPECT_EQ(engine::engine_bytes(toy_plan(kTwoInputs)), engine::engine_bytes(toy_plan(kTwoInputs)));
}

TEST(Plans, TheSameOutputTwiceIsOneValue) {
  const plan::Plan plan =
      toy_plan("graph g(%x: f32[b]) { %y = Abs(%x) return %y as \"y\", %y as \"again\" }");
  EXPECT_EQ(plan.outputs[0], plan.outputs[1]);
}

// ---- errors ------------------------------------------------------------------------------------

TEST(Errors, ASizeThatNoInputGivesPlainlyIsNamed) {
  const std::string error =
      error_of([] { toy_plan("graph g(%x: f32[2*n, 4]) { %y = Abs(%x) return %y as \"y\" }"); });
  EXPECT_THAT(error, HasSubstr("input 'x' has size 2*n"));
  EXPECT_THAT(error, HasSubstr("no input has exactly the size 'n'"));
}

TEST(Errors, TooManyDimensionsNameTheNode) {
  const std::string error = error_of([] {
    toy_plan(
        "graph g(%x: f32[b, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]) { %y = Abs(%x) named \"deep\" return %y "
        "as "
        "\"y\" }");
  });
  EXPECT_THAT(error, HasSubstr("node 'deep' (Abs)"));
  EXPECT_THAT(error, HasSubstr("has 11 dimensions; at most 10"));
}

}  // namespace
}  // namespace vernier::test
