// The pass manager: options, reports, invariants; fold; and the report of what was raised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "passes/pass.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"
#include "passes/report.h"

namespace vernier::passes::testing {
namespace {

using ::testing::HasSubstr;

TEST(Pipeline, NamesEachPassOnce) {
  std::set<std::string_view> names;
  for (const Pass& pass : pipeline()) EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
  // A rule may name what an exporter wrote, so raising is not optional.
  for (const Pass& pass : pipeline()) EXPECT_EQ(pass.optional, pass.phase == Phase::kFuse);
}

TEST(Pipeline, UnknownPassNamesTheOptionalOnes) {
  const auto graph = graph_of("graph g(%x: f32[n]) { %y = Abs(%x) return %y as \"y\" }");
  PassOptions options;
  options.off = {"add_layer_nrom"};
  try {
    run_passes(*graph, Phase::kFuse, options);
    FAIL() << "accepted an unknown pass";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInput);
    EXPECT_THAT(e.what(), HasSubstr("there is no pass 'add_layer_nrom' that can be switched off; "
                                    "did you mean 'add_layer_norm'?"));
  }
  options.off = {"xyz"};
  try {
    run_passes(*graph, Phase::kFuse, options);
    FAIL() << "accepted an unknown pass";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("embed_norm, add_layer_norm, qkv_merge"));
  }
}

TEST(Pipeline, RaisingCannotBeSwitchedOff) {
  const auto graph = graph_of("graph g(%x: f32[n]) { %y = Abs(%x) return %y as \"y\" }");
  PassOptions options;
  options.off = {"raise_attention"};
  EXPECT_THROW(run_passes(*graph, Phase::kRaise, options), Error);
}

TEST(Pipeline, SwitchedOffPassesDoNotRun) {
  const auto graph = graph_of(
      "graph g(%x: f32[n, 4], %w: f32[4, 4]) { %p = Linear(%x, %w) %y = Relu(%p) "
      "return %y as \"y\" }");
  PassOptions options;
  options.off = {"linear_activation"};
  std::vector<std::string> changed;
  options.after = [&](std::string_view pass, const ir::Graph&) { changed.emplace_back(pass); };
  for (const PassReport& report : run_passes(*graph, Phase::kFuse, options)) {
    EXPECT_NE(report.pass, "linear_activation");
    EXPECT_EQ(report.changes, 0);
  }
  EXPECT_TRUE(changed.empty());
  EXPECT_EQ(count(*graph, "Relu"), 1);
}

TEST(Pipeline, WhatNeedsAKernelIsFusedWhereTheDeviceHasOne) {
  const char* text =
      "graph g(%x: f32[n, 2], %r: f32[n, 2], %g: f32[2]) { "
      "%p = Linear(%x, f32[2, 2]{1, 2, 3, 4}) %s = Add(%p, %r) %y = LayerNorm(%s, %g) "
      "return %y as \"y\" }";
  const auto fused = [&](const PassOptions& options) {
    const auto graph = graph_of(text);
    run_passes(*graph, Phase::kFuse, options);
    return count(*graph, "LinearAddLayerNorm");
  };
  PassOptions options;
  EXPECT_EQ(fused(options), 0) << "nobody says that there is a kernel";
  options.takes = [](const ir::Graph&, const ir::Node&) { return false; };
  EXPECT_EQ(fused(options), 0);
  options.takes = [](const ir::Graph&, const ir::Node&) { return true; };
  EXPECT_EQ(fused(options), 1);
  options.off = {"linear_add_layer_norm"};
  EXPECT_EQ(fused(options), 0);
}

// R does not round between nodes: a weight that is cast to f16 keeps its numbers until it is
// stored.
TEST(Fold, AConstantThatF16CannotHoldKeepsItsValue) {
  const char* text =
      "graph g(%x: f16[batch, 2]) { %h = Cast(f32[2]{0.1, 1000.3}) {to=f16} "
      "%y = Add(%x, %h) return %y as \"y\" }";
  const auto graph = graph_of(text);
  EXPECT_GT(fold(*graph), 0);
  graph->remove_dead();
  EXPECT_EQ(count(*graph, "Cast"), 0) << structure(*graph);
  const ir::Value& held = graph->value(graph->node(graph->order()[0]).inputs[1]);
  EXPECT_EQ(held.dtype, DType::kF16);
  EXPECT_EQ(held.constant.dtype(), DType::kF32);
  EXPECT_EQ(held.constant.float_at(0), double{0.1F});
  expect_same_results(*graph_of(text), *graph, 1e-12);
}

TEST(Fold, AConstantThatF16HoldsIsStoredInIt) {
  const auto graph = graph_of(
      "graph g(%x: f16[batch, 2]) { %h = Cast(f32[2]{0.5, 1000}) {to=f16} "
      "%y = Add(%x, %h) return %y as \"y\" }");
  EXPECT_GT(fold(*graph), 0);
  const ir::Value& held = graph->value(graph->node(graph->order().back()).inputs[1]);
  EXPECT_EQ(held.dtype, DType::kF16);
  EXPECT_EQ(held.constant.dtype(), DType::kF16);
}

// Once types are decided a value is what its type holds.
TEST(Fold, ATypedGraphRounds) {
  const auto graph = graph_of(
      "graph g(%x: f16[batch, 2]) { %h = Cast(f32[2]{0.1, 1000.3}) {to=f16} "
      "%y = Add(%x, %h) return %y as \"y\" }");
  graph->typed = true;
  EXPECT_GT(fold(*graph), 0);
  const ir::Value& held = graph->value(graph->node(graph->order().back()).inputs[1]);
  EXPECT_EQ(held.dtype, DType::kF16);
  EXPECT_EQ(held.constant.dtype(), DType::kF16);
}

TEST(Fold, ConstantsAreEvaluatedAndMerged) {
  expect_rewrite({&fold,
                  "graph g(%x: f32[2]) { %a = Mul(f32[2]{1, 2}, f32{3}) %b = Add(f32[2]{0, 3}, "
                  "f32{3}) %c = Mul(%x, %a) %y = Mul(%c, %b) return %y as \"y\" }",
                  "graph g(%x: f32[2]) { %c = Mul(%x, f32[2]{3, 6}) %y = Mul(%c, f32[2]{3, 6}) "
                  "return %y as \"y\" }"});
}

TEST(Fold, KnownSizesBecomeConstants) {
  expect_rewrite({&fold,
                  "graph g(%x: f32[b, 6]) { %t = Shape(%x) %d = Gather(%t, i64{1}) %f = Cast(%d) "
                  "%y = Div(%x, %f) return %y as \"y\" }",
                  "graph g(%x: f32[b, 6]) { %y = Div(%x, f32{6}) return %y as \"y\" }"});
}

TEST(Fold, LargeResultsOfSmallConstantsStay) {
  const char* text =
      "graph g(%x: f32[100, 100]) { %a = Expand(f32{2}) {shape=(100, 100), has_shape=true} "
      "%y = Mul(%x, %a) return %y as \"y\" }";
  expect_rewrite({&fold, text, text});
}

TEST(Fold, ProductsOfWeightsUpToABound) {
  const auto left = [](const std::string& rows) {
    const auto graph = graph_of("graph g(%x: f32[" + rows + ", 300]) { %a = const f32[" + rows +
                                ", 300] normal(seed=3) %b = const f32[300, 300] normal(seed=4) "
                                "%c = MatMul(%a, %b) %y = Add(%x, %c) return %y as \"y\" }");
    fold(*graph);
    graph->remove_dead();
    return count(*graph, "MatMul");
  };
  EXPECT_EQ(left("400"), 0);
  EXPECT_EQ(left("6000"), 1);
}

TEST(Fold, EqualLargeConstantsAreOne) {
  const auto graph = graph_of(
      "graph g(%x: f32[200, 2]) { %a = const f32[200, 2] normal(seed=3) "
      "%b = const f32[200, 2] normal(seed=3) %c = const f32[200, 2] normal(seed=4) "
      "%d = Mul(%x, %a) %e = Mul(%d, %b) %y = Mul(%e, %c) return %y as \"y\" }");
  fold(*graph);
  const auto operand = [&](size_t node) { return graph->node(graph->order()[node]).inputs[1]; };
  EXPECT_EQ(operand(0), operand(1));
  EXPECT_NE(operand(0), operand(2));
}

// ---- the raise report

constexpr const char* kTwoLayers = R"(
graph g(%x: f32[b, s, 4], %w: f32[4, 4], %g: f32[4]) {
  %q1 = Linear(%x, %w) %q2 = Reshape(%q1) {shape=(b, s, 2, 2), has_shape=true}
  %a1 = Attention(%q2, %q2, %q2) %a2 = Reshape(%a1) {shape=(b, s, 4), has_shape=true}
  %o1 = Linear(%a2, %w) %r1 = Add(%o1, %x) %n1 = LayerNorm(%r1, %g)
  %f1 = Linear(%n1, %w) %e1 = Gelu(%f1) %h1 = Linear(%e1, %w) %r2 = Add(%h1, %n1)
  %n2 = LayerNorm(%r2, %g)
  %q3 = Linear(%n2, %w) %q4 = Reshape(%q3) {shape=(b, s, 2, 2), has_shape=true}
  %a3 = Attention(%q4, %q4, %q4) %a4 = Reshape(%a3) {shape=(b, s, 4), has_shape=true}
  %o2 = Linear(%a4, %w) %r3 = Add(%o2, %n2) %n3 = LayerNorm(%r3, %g)
  %f2 = Linear(%n3, %w) %e2 = Gelu(%f2) %h2 = Linear(%e2, %w) %r4 = Add(%h2, %n3)
  %n4 = LayerNorm(%r4, %g) %y = Linear(%n4, %w)
  return %y as "y"
})";

TEST(RaiseReport, CountsLayersAndTheHeadApart) {
  const RaiseReport report = raise_report(*graph_of(kTwoLayers));
  ASSERT_EQ(report.layers.size(), 2u);
  EXPECT_EQ(report.layers[0], (LayerParts{1, 2, 4, 1}));
  EXPECT_EQ(report.layers[1], report.layers[0]);
  EXPECT_EQ(report.outside, (LayerParts{0, 0, 1, 0}));
  EXPECT_TRUE(report.leftovers.empty());
  EXPECT_THAT(to_text(report),
              HasSubstr("layers 0..1, each: 1 attention, 2 norms, 4 linears, 1 activation"));
}

// One layer, then a head: nothing tells the head apart but where it stands.
TEST(RaiseReport, CountsTheHeadOfASingleLayerApart) {
  const RaiseReport report = raise_report(*graph_of(R"(
graph g(%x: f32[b, s, 4], %w: f32[4, 4], %g: f32[4]) {
  %q1 = Linear(%x, %w) %q2 = Reshape(%q1) {shape=(b, s, 2, 2), has_shape=true}
  %a1 = Attention(%q2, %q2, %q2) %a2 = Reshape(%a1) {shape=(b, s, 4), has_shape=true}
  %o1 = Linear(%a2, %w) %r1 = Add(%o1, %x) %n1 = LayerNorm(%r1, %g)
  %f1 = Linear(%n1, %w) %e1 = Gelu(%f1) %h1 = Linear(%e1, %w) %r2 = Add(%h1, %n1)
  %n2 = LayerNorm(%r2, %g) %h = Linear(%n2, %w) %t = Relu(%h) %y = Linear(%t, %w)
  return %y as "y"
})"));
  ASSERT_EQ(report.layers.size(), 1u);
  EXPECT_EQ(report.layers[0], (LayerParts{1, 2, 4, 1}));
  EXPECT_EQ(report.outside, (LayerParts{0, 0, 2, 1}));
}

std::string report_of(const char* text) {
  const auto graph = graph_of(text);
  run_passes(*graph, Phase::kRaise, {});
  return to_text(raise_report(*graph));
}

TEST(RaiseReport, NamesTheNodeThatStoppedAnAttention) {
  EXPECT_THAT(
      report_of("graph g(%q: f32[b, 2, s, 4], %k: f32[b, 2, 4, s], %v: f32[b, 2, s, 4]) { "
                "%m = MatMul(%q, %k) from \"0|/mm|MatMul|\" %c = Cos(%m) from \"1|/cos|Cos|\" "
                "%p = Softmax(%c) {axis=-1} from \"2|/soft|Softmax|\" "
                "%y = MatMul(%p, %v) from \"3|/out|MatMul|\" return %y as \"y\" }"),
      HasSubstr("Softmax '/soft (2)' is not part of Attention: stopped at Cos '/cos' (1), expected "
                "MatMul, Add, Mul, Div or Where on the way to the scores"));
}

TEST(RaiseReport, NamesTheNodeThatStoppedANorm) {
  EXPECT_THAT(
      report_of("graph g(%x: f32[b, 4]) { %m = ReduceMean(%x) {axes=[1]} from \"0|/mean|R|\" "
                "%d = Sub(%x, %m) from \"1|/sub|Sub|\" %s = Exp(%d) from \"2|/exp|Exp|\" "
                "%v = ReduceMean(%s) {axes=[1]} from \"3|/var|R|\" "
                "%e = Add(%v, f32{0.5}) from \"4|/add|Add|\" %r = Sqrt(%e) from \"5|/sqrt|Sqrt|\" "
                "%y = Div(%d, %r) from \"6|/div|Div|\" return %y as \"y\" }"),
      HasSubstr("Sqrt '/sqrt (5)' is not part of LayerNorm or RMSNorm: stopped at Exp '/exp' (2)"));
}

TEST(RaiseReport, NamesTheNodeThatStoppedAGelu) {
  EXPECT_THAT(
      report_of("graph g(%x: f32[b, 4]) { %a = Div(%x, f32{1.5}) from \"0|/div|Div|\" "
                "%e = Erf(%a) from \"1|/erf|Erf|\" %p = Add(%e, f32{1}) from \"2|/add|Add|\" "
                "%m = Mul(%x, %p) from \"3|/mul|Mul|\" %y = Mul(%m, f32{0.5}) from \"4|/m2|Mul|\" "
                "return %y as \"y\" }"),
      HasSubstr("Erf '/erf (1)' is not part of Gelu: stopped at Div '/div' (0), expected x / "
                "sqrt(2)"));
}

}  // namespace
}  // namespace vernier::passes::testing
