// Questions about values, nodes and shapes: see analysis/facts.h.
#include "analysis/facts.h"

#include <gmock/gmock.h>

#include "analysis/small_graph.h"

namespace vernier::analysis {
namespace {

using ::testing::ElementsAre;
using testing::graph_of;
using ::testing::Optional;
using testing::output;

TEST(Facts, UniformIsAConstantWithEqualElementsAlsoBroadcast) {
  const auto graph = graph_of(R"(
graph g(%x: f32[b, 3]) {
  %e = Expand(f32[1, 3]{2, 2, 2}) {shape=(b, 3), has_shape=true} %ee = Expand(%e) {shape=(4, b, 3), has_shape=true}
  %m = Add(f32[2]{1, 2}, f32{0}) %y = Add(%x, %ee)
  return %y as "y", %m as "m" })");
  EXPECT_THAT(uniform(*graph, output(*graph, "Expand")), Optional(2.0));
  EXPECT_THAT(uniform(*graph, graph->producer(graph->outputs[0])->inputs[1]), Optional(2.0));
  EXPECT_FALSE(uniform(*graph, graph->producer(graph->outputs[1])->inputs[0]));
  EXPECT_FALSE(uniform(*graph, graph->inputs[0]));
  EXPECT_FALSE(uniform(*graph, kNoValue));
}

TEST(Facts, IntegersAreOfConstantsAndOfSizesThatAreNumbers) {
  const auto graph = graph_of(R"(
graph g(%x: f32[b, 3]) {
  %s = Shape(%x) %n = Gather(%s, i64[1]{1}) %y = Neg(%n)
  return %y as "y" })");
  EXPECT_THAT(integers_of(*graph, output(*graph, "Gather")), Optional(ElementsAre(3)));
  EXPECT_FALSE(integers_of(*graph, output(*graph, "Shape")));  // b is no number
  EXPECT_FALSE(integers_of(*graph, graph->inputs[0]));
  EXPECT_FALSE(integers_of(*graph, kNoValue));
}

TEST(Facts, ANodeThatStaysApartIsNobodysPart) {
  const auto graph =
      graph_of("graph g(%x: f32[b]) { %a = Relu(%x) %y = Tanh(%a) return %y as \"y\" }");
  const ir::ValueId relu = output(*graph, "Relu");
  EXPECT_NE(producer_of(*graph, relu, OpKind::kRelu), nullptr);
  EXPECT_EQ(producer_of(*graph, relu, OpKind::kTanh), nullptr);
  EXPECT_EQ(producer_of(*graph, kNoValue, OpKind::kRelu), nullptr);
  EXPECT_EQ(graph->node(sole_user(*graph, relu)).op, OpKind::kTanh);
  EXPECT_EQ(sole_user(*graph, graph->outputs[0]), ir::kNoNode);
  for (ir::NodeId id : graph->order()) graph->node(id).apart = true;
  EXPECT_EQ(producer_of(*graph, relu, OpKind::kRelu), nullptr);
  EXPECT_EQ(sole_user(*graph, relu), ir::kNoNode);
}

TEST(Facts, ShapesAreComparedProvably) {
  const Dim b = Dim::symbol("b"), s = Dim::symbol("s");
  EXPECT_TRUE(same_shape({b, 3}, {b, 3}));
  EXPECT_FALSE(same_shape({b, 3}, {s, 3}));
  EXPECT_FALSE(same_shape({b, 3}, {b}));
  const std::vector<SymShape> fit{{b, 1}, {1, s}}, unclear{{b}, {s}};
  EXPECT_THAT(broadcast_shape(fit), Optional(ElementsAre(b, s)));
  EXPECT_FALSE(broadcast_shape(unclear));
  EXPECT_TRUE(differ_by_unit_axes({b, 1, 3}, {1, b, 3}));
  EXPECT_FALSE(differ_by_unit_axes({b, 3}, {3, b}));
}

TEST(Facts, AReshapeIsTakenApartIntoGroupsOfAxes) {
  const Dim b = Dim::symbol("b");
  const auto groups = reshape_groups({b, 6, 4}, {b, 2, 3, 4});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[1].in_begin, 1u);
  EXPECT_EQ(groups[1].in_end, 2u);
  EXPECT_EQ(groups[1].out_begin, 1u);
  EXPECT_EQ(groups[1].out_end, 3u);
  EXPECT_TRUE(reshape_groups({b, 0}, {0, b}).empty());
}

TEST(Facts, NearlyIsWhatRoundingExplains) {
  EXPECT_TRUE(nearly(1 + 0x1p-10, 1, DType::kF16));
  EXPECT_FALSE(nearly(1 + 0x1p-10, 1, DType::kF32));
  EXPECT_TRUE(nearly(1 + 0x1p-8, 1, DType::kBF16));
}

TEST(Facts, AClampHasALowerBoundOnly) {
  const auto graph = graph_of(R"(
graph g(%x: f32[b]) {
  %a = Clip(%x, f32{0.5}) %b = Clip(%x, f32{0.5}, f32{1}) %c = Max(%x, f32{0.25}) %d = Clip(%x, f32{-1})
  return %a as "a", %b as "b", %c as "c", %d as "d" })");
  ir::ValueId inner = kNoValue;
  double least = 0;
  EXPECT_TRUE(is_clamped(*graph, graph->outputs[0], inner, least));
  EXPECT_EQ(inner, graph->inputs[0]);
  EXPECT_EQ(least, 0.5);
  EXPECT_FALSE(is_clamped(*graph, graph->outputs[1], inner, least));
  EXPECT_TRUE(is_clamped(*graph, graph->outputs[2], inner, least));
  EXPECT_EQ(least, 0.25);
  EXPECT_FALSE(is_clamped(*graph, graph->outputs[3], inner, least));
}

}  // namespace
}  // namespace vernier::analysis
