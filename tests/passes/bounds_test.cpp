// Long chains and shared values of hostile models: every walk of a pass has a bound, and what it
// leaves means the same. A walk without one would overflow the stack or not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ops/infer.h"
#include "passes/match.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes::testing {
namespace {

constexpr int kLong = 20'000;

std::string s(int i) { return std::to_string(i); }

TEST(Bounds, PathsThroughSharedPositionsDoNotMultiply) {
  // Each level is (v + v) - v: three paths, so 3^24 of them.
  std::string lines = "%v0 = Range(i64{0}, %len, i64{1}) ";
  for (int i = 0; i < 24; ++i) {
    lines += "%a" + s(i) + " = Add(%v" + s(i) + ", %v" + s(i) + ") ";
    lines += "%v" + s(i + 1) + " = Sub(%a" + s(i) + ", %v" + s(i) + ") ";
  }
  const std::string text = graph_text(
      "%x: f32[n]", "%t = Shape(%x) %len = Gather(%t, i64{0}) " + lines +
                        "%less = Less(%v24, %len) %c = Cast(%less) {to=f32} %y = Mul(%x, %c) ");
  const auto before = graph_of(text), after = graph_of(text);
  canonicalise(*after);
  expect_same_results(*before, *after, 0);
}

TEST(Bounds, NumbersThatLeave64BitsAreNoErrorOfTheModel) {
  // A hash: integers wrap, size expressions do not.
  std::string lines = "%v0 = Range(i64{0}, %len, i64{1}) ";
  for (int i = 0; i < 4; ++i)
    lines += "%v" + s(i + 1) + " = Mul(%v" + s(i) + ", i64{1099511628211}) ";
  const std::string text = graph_text(
      "%x: f32[n]", "%t = Shape(%x) %len = Gather(%t, i64{0}) " + lines +
                        "%less = Less(%v4, %len) %c = Cast(%less) {to=f32} %y = Mul(%x, %c) ");
  const auto before = graph_of(text), after = graph_of(text);
  canonicalise(*after);
  expect_same_results(*before, *after, 0);
}

std::string attention(const std::string& mask_lines, const std::string& masked) {
  return graph_text(
      "%q: f32[b, 2, s, 4], %k: f32[b, 2, 4, s], %v: f32[b, 2, s, 4], %n: i64[b, 1, s, s]",
      mask_lines + "%scores = MatMul(%q, %k) " + masked +
          "%p = Softmax(%masked) {axis=-1} %y = MatMul(%p, %v) ");
}

TEST(Bounds, AMaskOfManyConditionsIsTakenApartSoFar) {
  std::string lines = "%c0 = Equal(%n, i64{1}) ";
  for (int i = 1; i < kLong; ++i) {
    lines += "%e" + s(i) + " = Equal(%n, i64{" + s(i + 10) + "}) %d" + s(i) + " = Not(%e" + s(i) +
             ") %c" + s(i) + " = And(%c" + s(i - 1) + ", %d" + s(i) + ") ";
  }
  const auto graph =
      graph_of(attention(lines, "%masked = Where(%c" + s(kLong - 1) + ", %scores, f32{-1e38}) "));
  raise_attention(*graph);
  EXPECT_EQ(count(*graph, "Attention"), 1);
}

TEST(Bounds, AMaskOfManySumsIsTakenApartSoFar) {
  std::string lines =
      "%c = Equal(%n, i64{1}) %f = Cast(%n) {to=f32} "
      "%b0 = Where(%c, f32{0}, f32{-1e38}) ";
  for (int i = 1; i < kLong; ++i) {
    lines += "%w" + s(i) + " = Where(%c, f32{0}, f32{-1e38}) ";
    lines += "%b" + s(i) + " = Add(%b" + s(i - 1) + ", %w" + s(i) + ") ";
  }
  const auto graph = graph_of(attention(lines, "%masked = Add(%scores, %b" + s(kLong - 1) + ") "));
  raise_attention(*graph);
  EXPECT_LE(count(*graph, "Attention"), 1);
}

TEST(Bounds, ACausalMaskUnderManyViewsIsNotLookedFor) {
  std::string lines =
      "%t = Shape(%q) %len = Gather(%t, i64{2}) %r = Range(i64{0}, %len, i64{1}) "
      "%row = Unsqueeze(%r) {axes=[1]} %m0 = LessOrEqual(%r, %row) ";
  for (int i = 1; i < kLong; ++i) {
    lines += "%i" + s(i) + " = Cast(%m" + s(i - 1) + ") {to=i32} ";
    lines += "%m" + s(i) + " = Equal(%i" + s(i) + ", i32{0}) ";
  }
  const auto graph =
      graph_of(attention(lines, "%masked = Where(%m" + s(kLong - 1) + ", %scores, f32{-1e38}) "));
  raise_attention(*graph);
  EXPECT_EQ(count(*graph, "Attention"), 1);
}

TEST(Bounds, AScoreUnderManyFactorsIsNotLookedFor) {
  std::string factors = "%s0 = Mul(%scores, f32{2}) ";
  for (int i = 1; i <= 5 * kLong; ++i)
    factors += "%s" + s(i) + " = Mul(%s" + s(i - 1) + ", f32{0.5}) ";
  const auto graph =
      graph_of(attention("", factors + "%masked = Mul(%s" + s(5 * kLong) + ", f32{2}) "));
  raise_attention(*graph);
  EXPECT_EQ(count(*graph, "Attention"), 0);
}

TEST(Bounds, PathsThroughSharedScoresDoNotMultiply) {
  // 14 sums of a value with itself: 2^14 ways up, each through all factors.
  std::string lines = "%f = Cast(%n) {to=f32} %f0 = Mul(%f, f32[1, 2, 1, 1]{1, 2}) ";
  for (int i = 1; i <= kLong; ++i) lines += "%f" + s(i) + " = Mul(%f" + s(i - 1) + ", f32{0.5}) ";
  lines += "%a0 = Mul(%f" + s(kLong) + ", f32{3}) ";
  for (int i = 1; i <= 14; ++i)
    lines += "%a" + s(i) + " = Add(%a" + s(i - 1) + ", %a" + s(i - 1) + ") ";
  const auto graph = graph_of(attention(lines, "%masked = Add(%scores, %a14) "));
  raise_attention(*graph);
  EXPECT_EQ(count(*graph, "Attention"), 1) << "the scores are the first operand";
  const auto swapped = graph_of(attention(lines, "%masked = Add(%a14, %scores) "));
  raise_attention(*swapped);
  EXPECT_LE(count(*swapped, "Attention"), 1);
}

TEST(Bounds, CastsAreLookedThroughSoFar) {
  ir::Graph graph;
  std::vector<ir::ValueId> casts{graph.add_input("x", DType::kF32, {4})};
  for (int i = 0; i < 40; ++i) {
    const CastAttrs to{.to = i % 2 == 0 ? DType::kF16 : DType::kF32};
    casts.push_back(ops::emit(graph, OpKind::kCast, {casts.back()}, to, {}));
  }
  EXPECT_EQ(under_casts(graph, casts[16]), casts[0]);
  EXPECT_EQ(under_casts(graph, casts[40]), casts[24]);
}

// `count` slices of one row each, of x [rows, 4], joined again.
ir::Graph rows_of(int64_t rows, int count) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", DType::kF32, {rows, 4});
  std::vector<ir::ValueId> parts;
  for (int i = 0; i < count; ++i) {
    SliceAttrs attrs;
    attrs.inline_starts = true;
    attrs.starts = {i};
    attrs.axes = {0};
    attrs.steps = {1};
    attrs.sizes = {Dim(1)};
    parts.push_back(ops::emit(graph, OpKind::kSlice, {x}, attrs, {{"#" + s(i), "", "Slice", ""}}));
  }
  graph.outputs = {ops::emit(graph, OpKind::kConcat, std::move(parts), AxisAttrs{0}, {})};
  graph.output_names = {"y"};
  return graph;
}

TEST(Bounds, ManySlicesOfOneValueAreLookedAtOnce) {
  ir::Graph all = rows_of(2 * kLong, 2 * kLong), some = rows_of(2 * kLong + 1, 2 * kLong);
  canonicalise(all);
  EXPECT_EQ(count(all, "Split"), 1);
  EXPECT_EQ(count(all, "Slice"), 0);
  canonicalise(some);
  EXPECT_EQ(count(some, "Split"), 0);
}

TEST(Bounds, ALongSumBeforeANormIsNoEmbedding) {
  for (const auto& [terms, fused] : {std::pair(3, 1), std::pair(kLong, 0)}) {
    std::string lines = "%s0 = Gather(f32[3, 2]{1, 2, 3, 4, 5, 6}, %i) {axis=0} ";
    for (int k = 1; k <= terms; ++k)
      lines += "%s" + s(k) + " = Add(%s" + s(k - 1) + ", f32[2]{1, 2}) ";
    const auto graph = graph_of(
        graph_text("%i: i64[n]", lines + "%y = LayerNorm(%s" + s(terms) +
                                     ", f32[2]{1, 1}, f32[2]{0, 0}) {axis=-1, epsilon=1e-5} "));
    fuse_embed_norm(*graph);
    EXPECT_EQ(count(*graph, "EmbedNorm"), fused) << terms;
  }
}

// Every ONNX node of a long chain has one place afterwards: at a node, or in the list of the rest.
TEST(Bounds, AChainOfViewsBecomesNodesOfBoundedOrigins) {
  ir::Graph graph;
  ir::ValueId value = graph.add_input("x", DType::kF32, {Dim::symbol("n"), 2, 3});
  constexpr int kViews = 3000;
  for (int i = 0; i < kViews; ++i) {
    const std::string key = "#" + s(i);
    value = ops::emit(graph, OpKind::kTranspose, {value}, TransposeAttrs{{1, 2, 0}},
                      {{key, "t" + s(i), "Transpose", ""}});
  }
  graph.outputs = {value};
  graph.output_names = {"y"};
  const auto before = graph.clone();
  canonicalise(graph);
  std::set<std::string> keys;
  for (ir::NodeId id : graph.order()) {
    EXPECT_LE(graph.node(id).origins.size(), kMaxOrigins);
    for (const ir::Origin& origin : graph.node(id).origins) keys.insert(origin.key);
  }
  for (const ir::Retired& row : graph.retired) keys.insert(row.origin.key);
  EXPECT_EQ(keys.size(), static_cast<size_t>(kViews));
  EXPECT_LT(graph.order().size(), 2 * kViews / kMaxOrigins + 2);
  ir::check(graph, "test");
  expect_same_results(*before, graph, 0, {{"n", 4}});
}

}  // namespace
}  // namespace vernier::passes::testing
