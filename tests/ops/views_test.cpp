// Layouts of views where sizes are not known or written in two ways: ops/views.h. Others are in
// tests/plan/views_test.cpp.
#include "ops/views.h"

#include <gtest/gtest.h>

#include "core/attrs.h"
#include "ops/infer.h"

namespace vernier::ops {
namespace {

std::optional<Layout> layout_of(const ir::Graph& graph, ir::ValueId view) {
  const ir::Node& node = *graph.producer(view);
  const SymShape& shape = graph.value(node.inputs[0]).shape;
  return view_layout(graph, node, 0, {node.inputs[0], 0, shape, dense_strides(shape)});
}

TEST(Views, NoneHasSizesThatOnlyTheDataSays) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {2, 6});
  const auto sizes = graph.add_input("sizes", DType::kI64, {2});
  const auto reshaped = emit(graph, OpKind::kReshape, {x, sizes}, ShapeAttrs{}, {});
  const auto expanded = emit(graph, OpKind::kExpand, {x, sizes}, ShapeAttrs{}, {});
  const auto sliced = emit(graph, OpKind::kSlice, {x, sizes, sizes}, SliceAttrs{}, {});
  const auto part = emit(graph, OpKind::kSplit, {x, sizes}, encode(SplitAttrs{}), {}, 2);
  for (ir::ValueId view : {reshaped, expanded, sliced, part}) EXPECT_FALSE(layout_of(graph, view));
  graph.value(sizes).values = std::vector<Dim>{3, 4};
  infer_node(graph, graph.value(reshaped).producer);
  EXPECT_TRUE(layout_of(graph, reshaped));
}

TEST(Views, AnExpandOfAnEqualSizeRepeatsNothing) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {Dim::symbol("a"), 1});
  const auto found = emit(graph, OpKind::kNonZero, {x}, NoAttrs{}, {});  // [2, n]
  const auto y = emit(graph, OpKind::kExpand, {found},
                      ShapeAttrs{.shape = {2, Dim::symbol("a")}, .has_shape = true}, {});
  EXPECT_EQ(str(graph.value(y).shape), "[2, a]");  // a guard says that n is a
  const auto layout = layout_of(graph, y);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->strides[1], Dim(1));
}

}  // namespace
}  // namespace vernier::ops
