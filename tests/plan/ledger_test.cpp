// One row per ONNX node, whatever became of it. Contract: plan/ledger.h.
#include "plan/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu.h"
#include "passes/pass.h"
#include "plan/graphs.h"
#include "precision/requests.h"

namespace vernier::test {
namespace {

const plan::LedgerRow& row_of(const plan::Plan& plan, const std::string& key) {
  const auto it = std::ranges::find(plan.ledger, key, &plan::LedgerRow::key);
  if (it == plan.ledger.end()) throw std::runtime_error("no row " + key);
  return *it;
}

TEST(Ledger, ANodeOfItsOwnIsAStep) {
  const plan::Plan plan =
      toy_plan("graph g(%x: f32[b]) { %y = Abs(%x) from \"#4|/enc/Abs|Abs|\" return %y as \"y\" }");
  const plan::LedgerRow& row = row_of(plan, "#4");
  EXPECT_EQ(row.node, "/enc/Abs");
  EXPECT_EQ(row.op, "Abs");
  EXPECT_EQ(row.composite, "");
  EXPECT_EQ(row.state, LedgerState::kStep);
  EXPECT_EQ(row.step, 0);
  EXPECT_EQ(row.kernel, "toy.abs.dense");
  EXPECT_EQ(row.asked.by, "mode fp32");
  EXPECT_EQ(row.asked.compute.type, DType::kF32);
  EXPECT_EQ(row.got_compute, DType::kF32);
  EXPECT_EQ(row.why, "satisfies");
}

TEST(Ledger, EveryNodeOfACompositeSaysWhichItIsPartOf) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, 16]) { %y = Linear(%x, f32[16, 2] fill(1)) from \"#1|mm|MatMul|\", "
      "\"#2|bias|Add|\" return %y as \"y\" }");
  for (const char* key : {"#1", "#2"}) {
    EXPECT_EQ(row_of(plan, key).composite, "Linear") << key;
    EXPECT_EQ(row_of(plan, key).state, LedgerState::kComposite) << key;
    EXPECT_EQ(row_of(plan, key).step, 0) << key;
  }
}

// A fusion that computes new weights: both nodes are told by the one convolution.
TEST(Ledger, ANormFoldedIntoAConvolutionHasItsRow) {
  const auto graph = graph_of(
      "graph g(%x: f32[b, 1, 8]) { %c = Conv(%x, f32[2, 1, 3] fill(0.5)) from \"#0|/conv|Conv|\" "
      "%y = BatchNormalization(%c, f32[2]{1, 2}, f32[2]{0, 1}, f32[2]{0, 0}, f32[2]{1, 4}) from "
      "\"#1|/norm|BatchNormalization|\" return %y as \"y\" }");
  for (const bool fused : {true, false}) {
    passes::PassOptions options;
    if (!fused) options.off = {"conv_batch_norm"};
    const auto typed = graph->clone();
    precision::ask_mode(*typed, precision::Mode::kFp32);
    precision::join_requests(*typed);
    passes::run_passes(*typed, passes::Phase::kFuse, options);
    const plan::Plan plan = plan::make_plan(*typed, backend::cpu_backend(), {});
    ASSERT_EQ(plan.ledger.size(), 2u);
    for (const plan::LedgerRow& row : plan.ledger) {
      EXPECT_EQ(row.state, fused ? LedgerState::kComposite : LedgerState::kStep) << row.node;
      EXPECT_EQ(row.composite, fused ? "Conv" : "") << row.node;
      EXPECT_EQ(row.step, fused || row.op == "Conv" ? 0 : 1) << row.node;
      EXPECT_EQ(row.asked.by, "mode fp32") << row.node;
      EXPECT_EQ(row.got_compute, DType::kF32) << row.node;
      EXPECT_EQ(row.why, "satisfies") << row.node;
    }
  }
}

// A product, its residual sum and their norm: three ONNX nodes, one step.
TEST(Ledger, AProductWithItsNormSaysWhatStaysInRegisters) {
  const auto graph = graph_of(
      "graph g(%x: f32[b, 2], %r: f32[b, 2], %g: f32[2]) { "
      "%p = Linear(%x, f32[2, 2]{1, 2, 3, 4}) from \"#1|mm|MatMul|\" "
      "%s = Add(%p, %r) from \"#2|add|Add|\" "
      "%y = LayerNorm(%s, %g) from \"#3|norm|LayerNormalization|\" return %y as \"y\" }");
  precision::ask_mode(*graph, precision::Mode::kFp32);
  precision::join_requests(*graph);
  passes::PassOptions options;
  options.takes = [](const ir::Graph&, const ir::Node&) { return true; };
  passes::run_passes(*graph, passes::Phase::kFuse, options);
  const plan::Plan plan = plan::make_plan(*graph, backend::cpu_backend(), {});
  ASSERT_EQ(plan.steps.size(), 1u);
  ASSERT_EQ(plan.ledger.size(), 3u);
  for (const plan::LedgerRow& row : plan.ledger) {
    EXPECT_EQ(row.state, LedgerState::kComposite) << row.node;
    EXPECT_EQ(row.composite, "LinearAddLayerNorm") << row.node;
    EXPECT_EQ(row.step, 0) << row.node;
    EXPECT_EQ(row.asked.by, "mode fp32") << row.node;
    EXPECT_EQ(row.in_register, row.key != "#3") << row.node;
  }
}

TEST(Ledger, AViewIsMergedIntoTheStepThatMadeItsElements) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b, 4]) { %a = Abs(%x) from \"#0|a|Abs|\" %r = Reshape(%a) {shape=(4*b), "
      "has_shape=true} from \"#1|r|Reshape|\" %y = Neg(%r) from \"#2|n|Neg|\" return %y as \"y\" "
      "}");
  EXPECT_EQ(row_of(plan, "#1").state, LedgerState::kMerged);
  EXPECT_EQ(row_of(plan, "#1").step, 0);
  EXPECT_EQ(row_of(plan, "#1").why, "a view of its input: no work");
  EXPECT_EQ(row_of(plan, "#1").got_compute, DType::kUndefined) << "a view computes nothing";
}

TEST(Ledger, RetiredNodesKeepTheirRowsInFileOrder) {
  auto graph = graph_of(
      "graph g(%x: f32[b]) { %y = Abs(%x) from \"/f/2#10|y|Abs|\" %z = Neg(%y) from "
      "\"#9|z|Neg|\" return %z as \"z\" }");
  graph->retire({{.key = "#2", .name = "c", .op_type = "Shape", .part = ""}}, LedgerState::kFolded,
                "constant");
  graph->retire({{.key = "/f/2#9", .name = "d", .op_type = "Mul", .part = ""}}, LedgerState::kDead,
                "unused");
  precision::ask_mode(*graph, precision::Mode::kFp32);
  precision::join_requests(*graph);
  const plan::Plan plan = plan::make_plan(*graph, toy_backend(), {});
  std::vector<std::string> keys;
  for (const plan::LedgerRow& row : plan.ledger) keys.push_back(row.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"#2", "#9", "/f/2#9", "/f/2#10"}));
  EXPECT_EQ(row_of(plan, "#2").state, LedgerState::kFolded);
  EXPECT_EQ(row_of(plan, "#2").why, "constant");
  EXPECT_EQ(row_of(plan, "/f/2#9").state, LedgerState::kDead);
}

TEST(Ledger, ANodeWhoseWorkWasSplitHasOneRow) {
  const plan::Plan plan = toy_plan(
      "graph g(%x: f32[b]) { %p = Abs(%x) from \"#0|a|Celu|\" %q = Neg(%p) from \"#0|a|Celu|\" "
      "return %q as \"q\" }");
  EXPECT_EQ(plan.ledger.size(), 1u);
  EXPECT_EQ(plan.ledger[0].composite, "Abs");
}

TEST(Ledger, IntegersAreAskedForNothing) {
  const plan::Plan plan =
      toy_plan("graph g(%x: i64[b]) { %y = Abs(%x) from \"#0|a|Abs|\" return %y as \"y\" }");
  EXPECT_EQ(plan.ledger[0].asked.compute.type, DType::kUndefined);
  EXPECT_EQ(plan.ledger[0].asked.by, "");
  EXPECT_EQ(plan.ledger[0].got_compute, DType::kUndefined);
}

}  // namespace
}  // namespace vernier::test
