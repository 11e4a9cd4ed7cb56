// Affine forms, bounds and causal masks: see analysis/index.h.
#include "analysis/index.h"

#include <gmock/gmock.h>

#include <string>

#include "analysis/small_graph.h"

namespace vernier::analysis {
namespace {

using ::testing::ElementsAre;
using testing::graph_of;
using testing::output;

const Dim n = Dim::symbol("n");

// `lines` after %len, the size of x, as a scalar.
std::shared_ptr<ir::Graph> positions(const std::string& lines) {
  return graph_of(
      "graph g(%x: f32[n]) { %t = Shape(%x) %len = Gather(%t, i64{0}) %r = Range(i64{0}, %len, "
      "i64{1}) " +
      lines + " return %y as \"y\" }");
}

TEST(Index, PositionsAreAffine) {
  const auto graph = positions("%m = Mul(%r, i64{3}) %y = Add(%m, i64{2})");
  const auto form = affine(*graph, graph->outputs[0]);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->offset, Dim(2));
  EXPECT_THAT(form->coefficients, ElementsAre(Dim(3)));
  EXPECT_FALSE(is_row_major_index(*form, {n}));
  EXPECT_TRUE(is_row_major_index(*affine(*graph, output(*graph, "Range")), {n}));
  EXPECT_FALSE(affine(*graph, graph->inputs[0]));
}

TEST(Index, BoundsFollowMovesAndSums) {
  const auto graph = positions(
      "%u = Unsqueeze(%r) {axes=[1]} %g = Gather(%u, i64[3]{0, 2, 1}) %y = Add(%g, i64{5})");
  const Bounds of_range = bounds(*graph, output(*graph, "Range"));
  EXPECT_EQ(of_range.low, Dim(0));
  EXPECT_EQ(of_range.high, n - Dim(1));
  const Bounds of_sum = bounds(*graph, graph->outputs[0]);
  EXPECT_EQ(of_sum.low, Dim(5));
  EXPECT_EQ(of_sum.high, n + Dim(4));
}

TEST(Index, CausalMasksAreProven) {
  const auto seen = positions(
      "%i = Unsqueeze(%r) {axes=[1]} %j = Unsqueeze(%r) {axes=[0]} %y = LessOrEqual(%j, %i)");
  EXPECT_EQ(causal_kind(*seen, seen->outputs[0]), CausalKind::kSeen);
  const auto hidden =
      positions("%i = Unsqueeze(%r) {axes=[1]} %j = Unsqueeze(%r) {axes=[0]} %y = Greater(%j, %i)");
  EXPECT_EQ(causal_kind(*hidden, hidden->outputs[0]), CausalKind::kHidden);
  const auto strict =
      positions("%i = Unsqueeze(%r) {axes=[1]} %j = Unsqueeze(%r) {axes=[0]} %y = Less(%j, %i)");
  EXPECT_EQ(causal_kind(*strict, strict->outputs[0]), CausalKind::kNotCausal);
}

TEST(Index, PathsThroughSharedPositionsDoNotMultiply) {
  // Each level is (v + v) - v: three paths, so 3^24 of them.
  std::string lines = "%v0 = Add(%r, i64{0}) ";
  for (int i = 0; i < 24; ++i) {
    const std::string v = std::to_string(i);
    lines += "%a" + v + " = Add(%v" + v + ", %v" + v + ") ";
    lines += "%v" + std::to_string(i + 1) + " = Sub(%a" + v + ", %v" + v + ") ";
  }
  const auto graph = positions(lines + "%y = Neg(%v24)");
  EXPECT_FALSE(affine(*graph, graph->producer(graph->outputs[0])->inputs[0]));
}

TEST(Index, NumbersThatLeave64BitsHaveNoForm) {
  std::string lines = "%v0 = Add(%r, i64{0}) ";
  for (int i = 0; i < 4; ++i)
    lines +=
        "%v" + std::to_string(i + 1) + " = Mul(%v" + std::to_string(i) + ", i64{1099511628211}) ";
  const auto graph = positions(lines + "%y = Neg(%v4)");
  EXPECT_FALSE(affine(*graph, graph->producer(graph->outputs[0])->inputs[0]));
}

}  // namespace
}  // namespace vernier::analysis
