// LinearAddLayerNorm: what the pass takes, what keeps two steps, and that a refusal changes
// nothing.
#include <gtest/gtest.h>

#include "core/attrs.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

int fuse_always(ir::Graph& graph) {
  return fuse_linear_add_layer_norm(
      graph, {.takes = [](const ir::Graph&, const ir::Node&) { return true; }});
}
int fuse_never(ir::Graph& graph) {
  return fuse_linear_add_layer_norm(
      graph, {.takes = [](const ir::Graph&, const ir::Node&) { return false; }});
}

constexpr const char* kInputs =
    "%x: f32[b, s, 3], %r: f32[b, s, 4], %c: f32[4], %g: f32[4], %h: f32[4]";
constexpr const char* kProduct = "%p = Linear(%x, f32[3, 4]{1, 2, 3, 4, 0, -1, 5, 2, 1, 1, 0, 3}";
const std::string kTaken = graph_text(
    kInputs, kProduct + std::string(", %c) %y = AddLayerNorm(%p, %r, %g, %h) {epsilon=0.5}"));

TEST(LinearAddLayerNorm, TakesTheProductAsEitherAddend) {
  const std::string after =
      graph_text(kInputs,
                 "%y = LinearAddLayerNorm(%x, f32[3, 4]{1, 2, 3, 4, 0, -1, 5, 2, 1, 1, 0, 3}, %c, "
                 "%r, %g, %h) {epsilon=0.5}");
  expect_rewrite({&fuse_always, kTaken, after});
  expect_rewrite(
      {&fuse_always,
       graph_text(kInputs, kProduct + std::string(", %c) %y = AddLayerNorm(%r, %p, %g, %h) "
                                                  "{axis=2, epsilon=0.5}")),
       after});
}

TEST(LinearAddLayerNorm, TakesProductsWithoutBiasAndNormsWithoutBias) {
  expect_rewrite({&fuse_always,
                  graph_text(kInputs,
                             "%p = Linear(%x, f32[4, 3]{1, 0, 1, 2, -1, 1, 3, 5, 0, 4, 2, 3}) "
                             "{trans_w=true} %y = AddLayerNorm(%p, %r, %g)"),
                  graph_text(kInputs,
                             "%y = LinearAddLayerNorm(%x, f32[4, 3]{1, 0, 1, 2, -1, 1, 3, 5, 0, 4, "
                             "2, 3}, _, %r, %g) {trans_w=true}")});
}

TEST(LinearAddLayerNorm, TakesTheFirstOfTwoProducts) {
  const std::string weights = "f32[3, 4]{1, 2, 3, 4, 0, -1, 5, 2, 1, 1, 0, 3}";
  const std::string second = "%q = Linear(%x, " + weights + ", %h) ";
  expect_rewrite(
      {&fuse_always, graph_text(kInputs, second + kProduct + ", %c) %y = AddLayerNorm(%p, %q, %g)"),
       graph_text(kInputs, second + "%y = LinearAddLayerNorm(%x, " + weights + ", %c, %q, %g)")});
}

TEST(LinearAddLayerNorm, ARefusalLeavesTheGraphAsItWas) {
  expect_rewrite({&fuse_never, kTaken, kTaken});
  const auto graph = graph_of(kTaken);
  const size_t nodes = graph->num_nodes(), values = graph->num_values();
  EXPECT_EQ(fuse_never(*graph), 0);
  EXPECT_EQ(graph->num_nodes(), nodes);
  EXPECT_EQ(graph->num_values(), values);
}

TEST(LinearAddLayerNorm, ShowsTheDeviceTheWholeNode) {
  const auto graph = graph_of(kTaken);
  for (ir::NodeId id : graph->order())
    graph->node(id).request = {.compute = {DType::kF16, false},
                               .accumulate = {},
                               .store = {DType::kF32, false},
                               .by = "mode fp16"};
  int asked = 0;
  PassOptions options;
  options.takes = [&](const ir::Graph& all, const ir::Node& node) {
    ++asked;
    EXPECT_EQ(node.op, OpKind::kLinearAddLayerNorm);
    EXPECT_EQ(node.inputs.size(), 6u);
    EXPECT_EQ(str(all.value(node.outputs.at(0)).shape), "[b, s, 4]");
    EXPECT_EQ(node.request.compute.type, DType::kF16);
    EXPECT_EQ(node.request.inner.type, DType::kF16);
    EXPECT_EQ(node.request.store.type, DType::kF32);
    EXPECT_EQ(node.attrs_as<LinearNormAttrs>().epsilon, 0.5);
    return true;
  };
  fuse_linear_add_layer_norm(*graph, options);
  EXPECT_EQ(asked, 1);
  graph->remove_dead();
  EXPECT_EQ(count(*graph, "LinearAddLayerNorm"), 1);
}

TEST(LinearAddLayerNorm, CarriesTheOriginsOfBoth) {
  const auto graph = graph_of(
      "graph g(%x: f32[b, 2], %r: f32[b, 2], %g: f32[2]) { "
      "%p = Linear(%x, f32[2, 2]{1, 2, 3, 4}) from \"#1|mm|MatMul|\" "
      "%y = AddLayerNorm(%p, %r, %g) from \"#2|add|Add|sum\", "
      "\"#3|norm|LayerNormalization|\" return %y as \"y\" }");
  EXPECT_EQ(fuse_always(*graph), 1);
  const ir::Node& node = *graph->producer(graph->outputs[0]);
  std::string keys;
  for (const ir::Origin& origin : node.origins) keys += origin.key + origin.part + " ";
  EXPECT_EQ(keys, "#1 #2sum #3 ");
}

struct Apart {
  const char* name;
  std::string inputs, lines;
};
void PrintTo(const Apart& row, std::ostream* out) { *out << row.name; }
class LeftApart : public ::testing::TestWithParam<Apart> {};

TEST_P(LeftApart, TheGraphStays) {
  const std::string text = graph_text(GetParam().inputs, GetParam().lines);
  expect_rewrite({&fuse_always, text, text});
}

const std::string kStart = kProduct;
const Apart kApart[] = {
    {"a_sum_that_is_kept", kInputs,
     kStart + ", %c) %n, %t = AddLayerNorm(%p, %r, %g, %h) %y = Mul(%n, %t)"},
    {"a_product_used_twice", kInputs,
     kStart + ", %c) %n = AddLayerNorm(%p, %r, %g, %h) %y = Mul(%n, %p)"},
    {"a_product_added_to_itself", kInputs, kStart + ", %c) %y = AddLayerNorm(%p, %p, %g, %h)"},
    {"an_activation", kInputs, kStart + ", %c) {activation=3} %y = AddLayerNorm(%p, %r, %g, %h)"},
    {"a_residual", kInputs, kStart + ", %c, %r) %y = AddLayerNorm(%p, %r, %g, %h)"},
    {"a_residual_that_broadcasts", "%x: f32[b, s, 3], %r: f32[1, s, 4], %g: f32[4]",
     kStart + ") %y = AddLayerNorm(%p, %r, %g)"},
    {"a_product_that_broadcasts", "%x: f32[1, s, 3], %r: f32[b, s, 4], %g: f32[4]",
     kStart + ") %y = AddLayerNorm(%p, %r, %g)"},
    {"a_computed_weight", "%x: f32[b, 4], %w: f32[4, 4], %r: f32[b, 4], %g: f32[4]",
     "%p = Linear(%x, %w) %y = AddLayerNorm(%p, %r, %g)"},
    {"two_axes", "%x: f32[b, 2, 3], %r: f32[b, 2, 4], %g: f32[2, 4]",
     kStart + ") %y = AddLayerNorm(%p, %r, %g) {axis=1}"},
    {"one_scale_for_all_columns", "%x: f32[b, 3], %r: f32[b, 4], %g: f32[1]",
     kStart + ") %y = AddLayerNorm(%p, %r, %g)"},
};
INSTANTIATE_TEST_SUITE_P(LinearAddLayerNorm, LeftApart, ::testing::ValuesIn(kApart),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(LinearAddLayerNorm, LeavesWhatARuleKeepsApart) {
  for (const OpKind op : {OpKind::kLinear, OpKind::kAddLayerNorm}) {
    const auto graph = graph_of(kTaken);
    for (ir::NodeId id : graph->order()) graph->node(id).apart = graph->node(id).op == op;
    EXPECT_EQ(fuse_always(*graph), 0) << name(op);
    EXPECT_EQ(structure(*graph), structure(*graph_of(kTaken))) << name(op);
  }
}

}  // namespace
}  // namespace vernier::passes::testing
