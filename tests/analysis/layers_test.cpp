// Layers of small graphs: see analysis/layers.h. Those of exporters: precision/roles_test.cpp.
#include "analysis/layers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "analysis/small_graph.h"

namespace vernier::analysis {
namespace {

using testing::graph_of;

int count(const Graph& graph, const NodeSet& set) {
  return static_cast<int>(std::ranges::count_if(
      graph.order(), [&](NodeId id) { return set[static_cast<size_t>(id)]; }));
}
int residuals(const Graph& graph, const Layers& layers) {
  return static_cast<int>(
      std::ranges::count_if(graph.order(), [&](NodeId id) { return layers.is_residual(id); }));
}
// A head is no part of the last layer, also where there is one layer only and nothing to compare
// it with.
TEST(Layers, TheHeadIsBehindThem) {
  const auto graph = graph_of(R"(
graph g(%x: f32[b, s, 4], %w: f32[4, 4], %g: f32[4]) {
  %q1 = Linear(%x, %w) %q2 = Reshape(%q1) {shape=(b, s, 2, 2), has_shape=true}
  %a1 = Attention(%q2, %q2, %q2) %a2 = Reshape(%a1) {shape=(b, s, 4), has_shape=true}
  %o1 = Linear(%a2, %w) %r1 = Add(%o1, %x) %n1 = LayerNorm(%r1, %g)
  %f1 = Linear(%n1, %w) %e1 = Gelu(%f1) %h1 = Linear(%e1, %w) %r2 = Add(%h1, %n1)
  %n2 = LayerNorm(%r2, %g) %h = Linear(%n2, %w) %t = Tanh(%h) %y = Linear(%t, %w)
  return %y as "y"
})");
  const Layers layers = layers_of(*graph);
  EXPECT_EQ(layers.count, 1);
  EXPECT_EQ(std::ranges::count(layers.of, 0), 12);
  EXPECT_EQ(count(*graph, layers.behind), 3);
  EXPECT_EQ(count(*graph, layers.ffn_up), 1);
  EXPECT_EQ(count(*graph, layers.ffn_down), 1);
  EXPECT_EQ(residuals(*graph, layers), 2);
}

TEST(Layers, SelfAndCrossAttentionShareOne) {
  const auto graph = graph_of(R"(
graph g(%x: f32[b, s, 2, 2], %z: f32[b, t, 2, 2], %w: f32[2, 2]) {
  %q = Linear(%x, %w) %a = Attention(%q, %q, %q) %r = Add(%a, %x)
  %p = Linear(%r, %w) %c = Attention(%p, %z, %z) %s = Add(%c, %r)
  %u = Linear(%s, %w) %g = Gelu(%u) %d = Linear(%g, %w) %t = Add(%d, %s)
  %o = Linear(%t, %w) %e = Attention(%o, %o, %o) %y = Add(%e, %t)
  return %y as "y"
})");
  const Layers layers = layers_of(*graph);
  EXPECT_EQ(layers.count, 2);
  EXPECT_EQ(std::ranges::count(layers.of, 0), 10);
  EXPECT_EQ(std::ranges::count(layers.of, 1), 3);
}

TEST(Layers, PatternsThatAreNoResidualStayWithout) {
  // x + 0.04 x³ has no product of matrices on its branch; the two operands of the other sum have
  // nothing to do with each other.
  const auto graph = graph_of(R"(
graph g(%x: f32[b, 4], %w: f32[b, 4]) {
  %c = Mul(%x, %x) %p = Add(%x, %c)
  %l = Linear(%x, f32[4, 4] fill(1)) %m = Linear(%w, f32[4, 4] fill(1)) %q = Add(%l, %m)
  %r = Linear(%p, f32[4, 4] fill(1)) %s = Add(%p, %r)
  %y = Add(%q, %s)
  return %y as "y" })");
  const Layers layers = layers_of(*graph);
  EXPECT_EQ(residuals(*graph, layers), 1);
  EXPECT_EQ(layers.count, 0);
}

// GPT-J: attention and feed-forward side by side, x + (a + f) and (x + a) + f.
TEST(Layers, ParallelBranchesAreOneLayerEach) {
  const std::string square = "f32[4, 4] normal(seed=1, mean=0, std=1)";
  const auto block = [&](const std::string& x, const std::string& y, const std::string& sums) {
    std::string text = R"(
  %Xn = LayerNorm(%X, f32[4] fill(1), f32[4] fill(0))
  %Xq = Linear(%Xn, W) %Xq4 = Reshape(%Xq) {shape=(b, s, 2, 2), has_shape=true}
  %Xk = Linear(%Xn, W) %Xk4 = Reshape(%Xk) {shape=(b, s, 2, 2), has_shape=true}
  %Xv = Linear(%Xn, W) %Xv4 = Reshape(%Xv) {shape=(b, s, 2, 2), has_shape=true}
  %Xa4 = Attention(%Xq4, %Xk4, %Xv4) {scale=0.5}
  %Xa3 = Reshape(%Xa4) {shape=(b, s, 4), has_shape=true} %Xa = Linear(%Xa3, W)
  %Xu = Linear(%Xn, W) %Xg = Gelu(%Xu) %Xf = Linear(%Xg, W)
)" + sums;
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"W", square}, {"Y", y}, {"X", x}}) {
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    }
    return text;
  };
  const auto graph = graph_of(
      "graph g(%x: f32[b, s, 4]) {" + block("x", "y", "  %Xt = Add(%Xa, %Xf) %Y = Add(%X, %Xt)") +
      block("y", "z", "  %Xt = Add(%X, %Xa) %Y = Add(%Xt, %Xf)") + " return %z as \"z\" }");
  const Layers layers = layers_of(*graph);
  EXPECT_EQ(layers.count, 2);
  EXPECT_EQ(count(*graph, layers.ffn_up), 2);
  EXPECT_EQ(count(*graph, layers.ffn_down), 2);
  EXPECT_EQ(residuals(*graph, layers), 3);
  EXPECT_EQ(count(*graph, layers.behind), 0);
}

}  // namespace
}  // namespace vernier::analysis
