// Long chains and values that are read many times over, between the passes and the plan. The
// bounds of the passes themselves: tests/passes/bounds_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu.h"
#include "compile/side_outputs.h"
#include "core/attrs.h"
#include "ops/infer.h"
#include "plan/planner.h"
#include "precision/requests.h"

namespace vernier::test {
namespace {

int64_t count(const ir::Graph& graph, OpKind op) {
  return std::ranges::count_if(graph.order(),
                               [&](ir::NodeId id) { return graph.node(id).op == op; });
}

TEST(Bounds, ASideOutputBehindALongChainNeedsNoDeepStack) {
  constexpr int kLong = 100'000;
  ir::Graph fused, raised;
  const ir::ValueId x = fused.add_input("x", DType::kF32, {4});
  fused.outputs = {ops::emit(fused, OpKind::kNeg, {x}, NoAttrs{}, {})};
  fused.output_names = {"y"};
  ir::ValueId value = raised.add_input("x", DType::kF32, {4});
  for (int i = 0; i < kLong; ++i) value = ops::emit(raised, OpKind::kSin, {value}, NoAttrs{}, {});
  value = ops::emit(raised, OpKind::kAdd, {value, value}, NoAttrs{}, {});
  raised.outputs = {value};
  raised.output_names = {"wanted"};
  compiler::add_side_outputs(fused, raised, {"wanted"});
  EXPECT_EQ(fused.output_names, (std::vector<std::string>{"y", "wanted"}));
  EXPECT_EQ(count(fused, OpKind::kSin), kLong);
  EXPECT_EQ(count(fused, OpKind::kAdd), 1) << "an operand that is read twice is made once";
  ir::check(fused, "test");
}

TEST(Bounds, AViewThatOneNodeReadsManyTimesIsPlannedAtOnce) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", DType::kF32, {4});
  const ir::ValueId made = ops::emit(graph, OpKind::kAbs, {x}, NoAttrs{}, {});
  const ir::ValueId view = ops::emit(graph, OpKind::kReshape, {made},
                                     ShapeAttrs{.shape = {2, 2}, .has_shape = true}, {});
  graph.outputs = {
      ops::emit(graph, OpKind::kConcat, std::vector<ir::ValueId>(300'000, view), AxisAttrs{0}, {})};
  graph.output_names = {"y"};
  precision::ask_mode(graph, precision::Mode::kFp32);
  precision::join_requests(graph);
  const plan::Plan plan = plan::make_plan(graph, backend::cpu_backend(), {.shapes = ""});
  EXPECT_EQ(std::ranges::count(plan.steps, OpKind::kConcat, &plan::Step::op), 1);
  EXPECT_EQ(std::ranges::count(plan.steps, OpKind::kReshape, &plan::Step::op), 0);
}

}  // namespace
}  // namespace vernier::test
