// How large values can be, from weights alone: at least as large as they get, and no larger than
// the formula says.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "passes/bounds.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

// Of the value that the node with this operator, the last of its kind, gives.
std::optional<double> bound_of(const ir::Graph& graph, OpKind op) {
  std::optional<double> found;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.op == op) found = magnitude_bound(graph, node.outputs[0]);
  }
  return found;
}

constexpr const char* kInputs = "%x: f32[b, 2]";
const std::string kNorm = "%n = LayerNorm(%x, f32[2]{1, 1}, f32[2]{0, 0}) {axis=-1} ";
const std::string kWeight = "f32[2, 2]{3, 1, -4, 1}";

TEST(MagnitudeBound, IsThatOfCauchyAndSchwarz) {
  const auto graph =
      graph_of(graph_text(kInputs, kNorm + "%y = Linear(%n, " + kWeight + ", f32[2]{-1, 0.5})"));
  const auto bound = bound_of(*graph, OpKind::kLinear);
  ASSERT_TRUE(bound);
  EXPECT_NEAR(*bound, std::sqrt(2.0) * 5 + 1, 1e-12);
}

TEST(MagnitudeBound, TakesTheNormsScaleAndBias) {
  const auto graph = graph_of(graph_text(
      kInputs, "%n = LayerNorm(%x, f32[2]{2, 0.5}, f32[2]{1, -1}) {axis=-1} %y = Linear(%n, " +
                   kWeight + ")"));
  const auto bound = bound_of(*graph, OpKind::kLinear);
  ASSERT_TRUE(bound);
  EXPECT_NEAR(*bound, std::sqrt(2.0) * std::sqrt(36.0 + 4) + 7, 1e-12);
}

TEST(MagnitudeBound, TurnsAWeightThatLiesTransposed) {
  const auto graph =
      graph_of(graph_text(kInputs, kNorm + "%y = Linear(%n, f32[1, 2]{3, -4}) {trans_w=true}"));
  const auto bound = bound_of(*graph, OpKind::kLinear);
  ASSERT_TRUE(bound);
  EXPECT_NEAR(*bound, std::sqrt(2.0) * 5, 1e-12);
}

// Rows whose normalized form points along a column of the weight come near the bound; none passes.
TEST(MagnitudeBound, HoldsForEveryRow) {
  constexpr int kWidth = 16;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> w(kWidth);
  double mean = 0, squares = 0;
  for (double& v : w) {
    v = normal(random);
    mean += v / kWidth;
  }
  for (double& v : w) {
    v -= mean;
    squares += v * v;
  }
  const double bound = std::sqrt(kWidth * squares);
  double most = 0;
  for (int draw = 0; draw < 1000; ++draw) {
    const double noise = draw == 0 ? 0 : 0.3 * draw;
    std::vector<double> x(w);
    double of_x = 0, square = 0, sum = 0;
    for (double& v : x) {
      v += noise * normal(random);
      of_x += v / kWidth;
    }
    for (double& v : x) {
      v -= of_x;
      square += v * v / kWidth;
    }
    for (int k = 0; k < kWidth; ++k) sum += x[k] / std::sqrt(square) * w[k];
    most = std::max(most, std::abs(sum));
    EXPECT_LE(std::abs(sum), bound * (1 + 1e-12));
  }
  EXPECT_GT(most, 0.999 * bound);
}

TEST(MagnitudeBound, FollowsActivationsViewsAndAttention) {
  const double linear = std::sqrt(2.0) * 5;
  const std::string product = kNorm + "%l = Linear(%n, " + kWeight + ") ";
  const auto gelu = graph_of(graph_text(kInputs, product + "%y = Gelu(%l)"));
  const auto of_gelu = bound_of(*gelu, OpKind::kGelu);
  ASSERT_TRUE(of_gelu);
  EXPECT_NEAR(*of_gelu, linear, 1e-12);
  const auto attention = graph_of(graph_text(
      "%x: f32[b, s, 2], %q: f32[b, s, 1, 2]",
      "%n = LayerNorm(%x, f32[2]{1, 1}, f32[2]{0, 0}) {axis=-1} %l = Linear(%n, " + kWeight +
          ") %v = Reshape(%l, i64[4]{0, 0, 1, 2}) %y = Attention(%q, %q, %v)"));
  const auto of_attention = bound_of(*attention, OpKind::kAttention);
  ASSERT_TRUE(of_attention);
  EXPECT_NEAR(*of_attention, linear, 1e-12);
}

TEST(NormalizedChannels, AreThoseOfTheNorm) {
  const auto graph = graph_of(
      graph_text("%x: f32[b, 3, 2]",
                 "%n = LayerNorm(%x, f32[2]{3, -0.5}, f32[2]{-4, 0}) {axis=-1} %v = Reshape(%n, "
                 "i64[2]{-1, 2}) %y = Gelu(%v)"));
  for (const ir::NodeId id : graph->order()) {
    const ir::Node& node = graph->node(id);
    const auto channels = normalized_channels(*graph, node.outputs[0]);
    ASSERT_EQ(channels.has_value(), node.op != OpKind::kGelu) << node.outputs[0];
    if (!channels) continue;
    ASSERT_EQ(channels->most.size(), 2u);
    EXPECT_NEAR(channels->most[0], 3 * std::sqrt(2.0) + 4, 1e-12);
    EXPECT_NEAR(channels->most[1], 0.5 * std::sqrt(2.0), 1e-12);
    EXPECT_NEAR(channels->typical[0], 5, 1e-12);
    EXPECT_NEAR(channels->typical[1], 0.5, 1e-12);
  }
}

struct Unbounded {
  const char* name;
  std::string lines;
  OpKind op = OpKind::kLinear;
  const char* inputs = kInputs;
};
void PrintTo(const Unbounded& row, std::ostream* out) { *out << row.name; }
class NoMagnitudeBound : public ::testing::TestWithParam<Unbounded> {};

TEST_P(NoMagnitudeBound, WhereTheWeightsGiveNone) {
  const auto graph = graph_of(graph_text(GetParam().inputs, GetParam().lines));
  EXPECT_FALSE(bound_of(*graph, GetParam().op));
}

const Unbounded kUnbounded[] = {
    {"no norm", "%y = Linear(%x, " + kWeight + ")"},
    {"a residual", kNorm + "%y = Linear(%n, " + kWeight + ", f32[2]{0, 0}, %x)"},
    {"a weight that is an input", kNorm + "%y = Linear(%n, %w)", OpKind::kLinear,
     "%x: f32[b, 2], %w: f32[2, 2]"},
    {"a bias that is an input", kNorm + "%y = Linear(%n, " + kWeight + ", %c)", OpKind::kLinear,
     "%x: f32[b, 2], %c: f32[2]"},
    {"the norm itself", kNorm + "%y = Gelu(%n)", OpKind::kGelu},
    {"a sum", kNorm + "%s = Add(%n, %x) %y = Linear(%s, " + kWeight + ")"},
    {"a scale that is an input",
     "%n = LayerNorm(%x, %c) {axis=-1} %y = Linear(%n, " + kWeight + ")", OpKind::kLinear,
     "%x: f32[b, 2], %c: f32[2]"},
    {"channels that change places",
     "%n = LayerNorm(%x, f32[2]{1, 2}) {axis=-1} %t = Transpose(%n) {perm=[1, 0]} %y = "
     "Linear(%t, " +
         kWeight + ")",
     OpKind::kLinear, "%x: f32[2, 2]"},
    {"a weight with infinity", kNorm + "%y = Linear(%n, f32[2, 1]{inf, 1})"}};
INSTANTIATE_TEST_SUITE_P(Rows, NoMagnitudeBound, ::testing::ValuesIn(kUnbounded));

}  // namespace
}  // namespace vernier::passes::testing
