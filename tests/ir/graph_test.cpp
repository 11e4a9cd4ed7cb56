// Uses, outputs and dead nodes of a graph: whatever the order of changes, the lists say what the
// nodes say. Contract: src/ir/graph.h.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/attrs.h"

namespace vernier::ir {
namespace {

// How often each node reads the value, counted at the nodes.
std::vector<NodeId> readers(const Graph& graph, ValueId value) {
  std::vector<NodeId> found;
  for (NodeId id : graph.order()) {
    for (ValueId in : graph.node(id).inputs) {
      if (in == value) found.push_back(id);
    }
  }
  return found;
}

void expect_true_lists(const Graph& graph) {
  for (size_t v = 0; v < graph.num_values(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const UserList& list = graph.value(id).users;
    std::vector<NodeId> users(list.begin(), list.end());
    EXPECT_EQ(users.size(), list.size());
    EXPECT_EQ(users.empty(), list.empty());
    std::sort(users.begin(), users.end());
    std::vector<NodeId> expected = readers(graph, id);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(users, expected) << "value " << v;
    const auto& outputs = graph.outputs.ids();
    EXPECT_EQ(graph.is_output(id), std::find(outputs.begin(), outputs.end(), id) != outputs.end());
  }
}

TEST(Node, AnOperandIsPresentIfItIsListedAndNotLeftOut) {
  Node node;
  node.inputs = {3, kNoValue};
  node.outputs = {kNoValue, 0};
  EXPECT_TRUE(node.has_input(0));
  EXPECT_FALSE(node.has_input(1));
  EXPECT_FALSE(node.has_input(2));
  EXPECT_FALSE(node.has_output(0));
  EXPECT_TRUE(node.has_output(1));
  EXPECT_FALSE(node.has_output(2));
}

TEST(Graph, UsersAreTrueAfterAnyChanges) {
  std::mt19937_64 random(1);
  Graph graph;
  std::vector<ValueId> values;
  for (int i = 0; i < 4; ++i) {
    values.push_back(graph.add_input("x" + std::to_string(i), DType::kF32, {Dim(1)}));
  }
  const auto any = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < 60; ++i) {
    std::vector<ValueId> inputs(1 + random() % 5);
    std::generate(inputs.begin(), inputs.end(), any);  // some twice
    const NodeId id = graph.add_node(OpKind::kConcat, inputs, encode(AxisAttrs{0}));
    values.push_back(graph.node(id).outputs[0]);
  }
  for (int i = 0; i < 5; ++i) {
    graph.outputs.push_back(values[values.size() - 1 - static_cast<size_t>(i % 3)]);
    graph.output_names.push_back(std::to_string(i));
  }
  for (int round = 0; round < 300; ++round) {
    // Values keep the order of their making, so that no cycle comes about.
    const size_t at = 4 + random() % 60;
    const NodeId node = graph.value(values[at]).producer;
    const ValueId earlier = values[random() % at];
    if (round % 3 == 0) {
      graph.set_input(node, random() % graph.node(node).inputs.size(), earlier);
    } else if (round % 3 == 1) {
      graph.replace_uses(values[at], earlier);
    } else {
      graph.set_inputs(node, {earlier, earlier, values[random() % at]});
    }
    expect_true_lists(graph);
    if (::testing::Test::HasFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(graph.remove_dead(), 0);
  expect_true_lists(graph);
  check(graph, "test");
}

TEST(Graph, UsersStandInTheOrderTheyCameIn) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::kF32, {Dim(1)});
  const ValueId y = graph.add_input("y", DType::kF32, {Dim(1)});
  std::vector<NodeId> nodes;
  for (int i = 0; i < 40; ++i) nodes.push_back(graph.add_node(OpKind::kNeg, {x}, {}));
  for (size_t i = 0; i < nodes.size(); i += 2) graph.set_input(nodes[i], 0, y);
  graph.set_input(nodes[0], 0, x);  // comes back last
  std::vector<NodeId> expected;
  for (size_t i = 1; i < nodes.size(); i += 2) expected.push_back(nodes[i]);
  expected.push_back(nodes[0]);
  const UserList& users = graph.value(x).users;
  EXPECT_EQ(std::vector<NodeId>(users.begin(), users.end()), expected);
  EXPECT_EQ(users.front(), nodes[1]);
}

// x -> a -> b -> c, and d beside c. Returns c's and d's values.
TEST(Graph, DroppingTakesWhatOnlyTheDroppedUsed) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::kF32, {Dim(1)});
  const auto neg = [&](ValueId in, const std::string& key) {
    const NodeId id = graph.add_node(OpKind::kNeg, {in}, {});
    graph.node(id).origins.push_back({key, key, "Neg", ""});
    return id;
  };
  const NodeId a = neg(x, "#0");
  const NodeId b = neg(graph.node(a).outputs[0], "#1");
  const NodeId c = neg(graph.node(b).outputs[0], "#2");
  const NodeId d = neg(graph.node(a).outputs[0], "#3");
  graph.outputs = {graph.node(d).outputs[0]};
  graph.output_names = {"y"};
  graph.drop_dead(d);
  EXPECT_FALSE(graph.node(d).removed) << "it is used";
  graph.drop_dead(c);
  EXPECT_TRUE(graph.node(c).removed && graph.node(b).removed);
  EXPECT_FALSE(graph.node(a).removed);
  EXPECT_TRUE(graph.retired.empty()) << "by the next remove_dead()";
  EXPECT_EQ(graph.remove_dead(), 2);
  EXPECT_EQ(graph.order(), (std::vector<NodeId>{a, d}));
  ASSERT_EQ(graph.retired.size(), 2U);
  EXPECT_EQ(graph.retired[0].origin.key, "#1");
  EXPECT_EQ(graph.retired[1].state, LedgerState::kDead);
  check(graph, "test");
}

TEST(Graph, SortingKeepsAnOrderThatIsRight) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::kF32, {Dim(1)});
  const NodeId late = graph.add_node(OpKind::kNeg, {x}, {});
  const NodeId early = graph.add_node(OpKind::kAbs, {x}, {});
  const NodeId last = graph.add_node(OpKind::kNeg, {graph.node(late).outputs[0]}, {});
  const uint64_t before = graph.changes();
  graph.sort();
  EXPECT_EQ(graph.order(), (std::vector<NodeId>{late, early, last}));
  EXPECT_EQ(graph.changes(), before);
  graph.set_input(late, 0, graph.node(early).outputs[0]);
  graph.sort();
  EXPECT_EQ(graph.order(), (std::vector<NodeId>{early, late, last}));
  EXPECT_NE(graph.changes(), before);
}

TEST(Origins, AreMergedOnceEachHoweverManyThereAre) {
  const auto list = [](int begin, int end) {
    std::vector<Origin> origins;
    for (int i = begin; i < end; ++i) origins.push_back({"#" + std::to_string(i), "n", "Neg", ""});
    return origins;
  };
  for (int size : {3, 16, 17, 500}) {
    std::vector<Origin> to = list(0, size);
    std::vector<Origin> from = list(size / 2, size + size);
    from.push_back(from.back());
    merge_origins(to, from);
    ASSERT_EQ(to.size(), static_cast<size_t>(2 * size));
    for (int i = 0; i < 2 * size; ++i)
      EXPECT_EQ(to[static_cast<size_t>(i)].key, "#" + std::to_string(i));
  }
}

}  // namespace
}  // namespace vernier::ir
