// Sweeps of models with two lengths: they take different sizes, unless the model asks for equal
// ones; what does not count rows is not taken for them. Contract: docs/verification_inputs.md
// "Inputs".
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "plan/graphs.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

// The mean of a target's positions, added to every position of the source.
constexpr std::string_view kTwoLengths =
    R"(graph g(%a: f32[batch, src, 4], %b: f32[batch, tgt, 4]) {
  %sum = ReduceSum(%b) {axes=[1], keepdims=true}
  %count = ShapeValues() {values=(tgt), scalar=true}
  %number = Cast(%count) {to=f32}
  %mean = Div(%sum, %number)
  %y = Add(%a, %mean)
  return %y as "y"
})";

std::string with(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

Report verified(std::string_view model, std::string_view engine, std::vector<int64_t> lengths) {
  Request request;
  if (model.find("batch") != std::string_view::npos) request.batches = {1, 2};
  request.lengths = std::move(lengths);
  request.threads = 1;
  const plan::Plan plan = compiler::plan_of(*test::graph_of(engine), {});
  return verify_engine(Engine::from_bytes(engine::engine_bytes(plan)), *test::graph_of(model),
                       request);
}

TEST(TwoLengths, DifferInTheDefaultSweepAndTheReportSaysHow) {
  const Report report = verified(kTwoLengths, kTwoLengths, {});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  ASSERT_EQ(report.cells.size(), 6u);
  EXPECT_EQ(report.cells[0].label, "batch 1, src 4, tgt 16");
  EXPECT_EQ(report.cells[2].sizes, "src 16, tgt 48");
  EXPECT_EQ(report.cells[4].sizes, "src 48, tgt 4");
  EXPECT_NE(to_text(report).find("src 48, tgt 4"), std::string::npos) << to_text(report);
  EXPECT_NE(to_json(report).find(", src 48, tgt 4\""), std::string::npos);
}

TEST(TwoLengths, ADefectThatEqualLengthsHideIsFound) {
  const std::string wrong = with(std::string(kTwoLengths), "(tgt)", "(src)");
  EXPECT_EQ(verified(kTwoLengths, wrong, {4}).verdict, "pass") << "one length: both are equal";
  const Report report = verified(kTwoLengths, wrong, {});
  EXPECT_EQ(report.verdict, "bug (rewrite)") << to_text(report);
}

TEST(TwoLengths, ThatTheModelWantsEqualAreSweptEqual) {
  const std::string equal =
      with(std::string(kTwoLengths), "  return", "  guard src == tgt \"both\"\n  return");
  const Report report = verified(equal, equal, {});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_EQ(report.cells[0].sizes, "length 4");
  EXPECT_TRUE(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note.find("src 4, tgt 16 is not run: ") != std::string::npos &&
           note.find("at node 'both' src = 4 must equal tgt = 16") != std::string::npos;
  })) << to_text(report);
}

TEST(RowAxis, ASizeOfTwoAxesCountsNoRows) {
  constexpr std::string_view kSquare =
      "graph g(%x: f32[n, n]) { %y = MatMul(%x, %x) return %y as \"y\" }";
  const Report report = verified(kSquare, kSquare, {4, 16});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_EQ(report.cells.size(), 2u);
}

TEST(RowAxis, ASizeThatCannotBeOneCountsNoRows) {
  constexpr std::string_view kSecond =
      "graph g(%x: f32[n, m]) { %y = Gather(%x, i64[1]{1}) {axis=0} return %y as \"y\" }";
  const Report report = verified(kSecond, kSecond, {4, 16});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
}

TEST(IntegerInputs, ThatDivideAreNotZero) {
  constexpr std::string_view kDivides =
      "graph g(%x: i64[n], %by: i64[n]) { %y = Div(%x, %by) return %y as \"y\" }";
  const Report report = verified(kDivides, kDivides, {});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
}

// The length is the second axis of the features, the last one of the mask.
TEST(OwnLength, CutsEveryInputAlongItsOwnAxis) {
  constexpr std::string_view kMasked =
      "graph g(%x: f32[batch, seq, 4], %mask: i64[batch, seq]) {\n  %m = Cast(%mask) {to=f32}\n"
      "  %w = Unsqueeze(%m) {axes=[2]}\n  %p = Mul(%x, %w)\n"
      "  %y = ReduceSum(%p) {axes=[1], keepdims=false}\n  return %y as \"y\"\n}";
  const Report report = verified(kMasked, kMasked, {8});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  const auto own =
      std::ranges::find(report.checks, "rows without their padding", &CheckResult::name);
  ASSERT_NE(own, report.checks.end());
  EXPECT_GT(own->done, 0) << to_text(report);
}

// A mean over all rows is the same in any order: only other rows beside it show that it mixes them.
TEST(FixedBatch, RowsThatTheModelMixesInAnyOrderAreTheModels) {
  constexpr std::string_view kCentred =
      "graph g(%x: f32[3, 4]) {\n  %mean = ReduceMean(%x) {axes=[0], keepdims=true}\n"
      "  %y = Sub(%x, %mean)\n  return %y as \"y\"\n}";
  const Report report = verified(kCentred, kCentred, {});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
  EXPECT_TRUE(report.outputs.at(0).mixed_by_model);
}

TEST(ViewsAsOutputs, StayReadableToTheirEnd) {
  constexpr std::string_view kView =
      "graph g(%x: f32[n, 6]) {\n  %e = Exp(%x)\n"
      "  %y = Reshape(%e) {shape=(n, 2, 3), has_shape=true}\n  %z = Neg(%e)\n"
      "  %w = Exp(%z)\n  return %y as \"y\", %w as \"w\"\n}";
  const Report report = verified(kView, kView, {});
  EXPECT_EQ(report.verdict, "pass") << to_text(report);
}

}  // namespace
}  // namespace vernier::verify
