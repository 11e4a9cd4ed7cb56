// Fusions, what they keep for other users, and what they leave alone.
#include <gtest/gtest.h>

#include "ops/infer.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

constexpr const char* kNorm =
    "%x: f32[b, s, 4], %r: f32[b, s, 4], %g: f32[4], %h: f32[4], %row: f32[4]";

TEST(AddLayerNorm, TakesTheSum) {
  expect_rewrite({&fuse_add_layer_norm,
                  graph_text(kNorm, "%t = Add(%x, %r) %y = LayerNorm(%t, %g, %h) {epsilon=0.5}"),
                  graph_text(kNorm, "%y = AddLayerNorm(%x, %r, %g, %h) {epsilon=0.5}")});
}

TEST(AddLayerNorm, KeepsASumThatIsUsedElsewhere) {
  expect_rewrite({&fuse_add_layer_norm,
                  graph_text(kNorm, "%t = Add(%x, %r) %n = LayerNorm(%t, %g, %h) %y = Mul(%n, %t)"),
                  graph_text(kNorm, "%n, %t = AddLayerNorm(%x, %r, %g, %h) %y = Mul(%n, %t)")});
}

TEST(AddLayerNorm, LeavesBroadcastSums) {
  expect_no(&fuse_add_layer_norm, "AddLayerNorm",
            graph_text(kNorm, "%t = Add(%x, %row) %y = LayerNorm(%t, %g, %h)"));
}

constexpr const char* kLinear = "%x: f32[b, s, 4], %w: f32[4, 4], %c: f32[4], %r: f32[b, s, 4]";

TEST(LinearActivation, TakesGeluReluAndTanh) {
  for (const auto& [op, number] : {std::pair{"Gelu(%p)", "1"}, std::pair{"Gelu(%p) {kind=1}", "2"},
                                   std::pair{"Relu(%p)", "3"}, std::pair{"Tanh(%p)", "4"}}) {
    expect_rewrite(
        {&fuse_linear_activation,
         graph_text(kLinear, "%p = Linear(%x, %w, %c) %y = " + std::string(op)),
         graph_text(kLinear, "%y = Linear(%x, %w, %c) {activation=" + std::string(number) + "}")});
  }
}

TEST(LinearActivation, LeavesASharedProduct) {
  const auto text = graph_text(kLinear, "%p = Linear(%x, %w, %c) %a = Relu(%p) %y = Add(%a, %p)");
  expect_rewrite({&fuse_linear_activation, text, text});
}

TEST(LinearResidual, TakesTheSum) {
  expect_rewrite({&fuse_linear_residual,
                  graph_text(kLinear, "%p = Linear(%x, %w) {activation=3} %y = Add(%r, %p)"),
                  graph_text(kLinear, "%y = Linear(%x, %w, _, %r) {activation=3}")});
}

TEST(LinearResidual, LeavesABroadcast) {
  const auto text = graph_text("%x: f32[b, s, 4], %w: f32[4, 4], %r: f32[1, s, 4]",
                               "%p = Linear(%x, %w) %y = Add(%p, %r)");
  expect_rewrite({&fuse_linear_residual, text, text});
}

constexpr const char* kFirst = " {inline_starts=true, starts=[0], axes=[1], steps=[1], sizes=(1)} ";
constexpr const char* kBlock =
    "%x: f32[b, s, 4], %r: f32[b, s, 4], %w: f32[4, 4], %c: f32[4], %g: f32[4], %h: f32[4]";

TEST(SliceEarly, PassesProductsNormsAndElementwise) {
  const std::string first = kFirst;
  expect_rewrite(
      {&slice_early,
       graph_text(kBlock,
                  "%n = AddLayerNorm(%x, %r, %g, %h) %u = Linear(%n, %w, %c) {activation=1} "
                  "%d = Linear(%u, %w, %c, %n) %e = Mul(%d, %c) %y = Slice(%e)" +
                      first),
       graph_text(kBlock,
                  "%x0 = Slice(%x)" + first + "%r0 = Slice(%r)" + first +
                      "%n = AddLayerNorm(%x0, %r0, %g, %h) %u = Linear(%n, %w, %c) {activation=1} "
                      "%d = Linear(%u, %w, %c, %n) %y = Mul(%d, %c)")});
}

TEST(SliceEarly, PassesAProductWithItsNorm) {
  const std::string first = kFirst;
  expect_rewrite({&slice_early,
                  graph_text(kBlock,
                             "%n = LinearAddLayerNorm(%x, %w, %c, %r, %g, %h) %y = "
                             "Slice(%n)" +
                                 first),
                  graph_text(kBlock, "%x0 = Slice(%x)" + first + "%r0 = Slice(%r)" + first +
                                         "%y = LinearAddLayerNorm(%x0, %w, %c, %r0, %g, %h)")});
}

TEST(SliceEarly, PassesL2Norm) {
  const std::string first = kFirst;
  expect_rewrite({&slice_early, graph_text(kBlock, "%n = L2Norm(%x) %y = Slice(%n)" + first),
                  graph_text(kBlock, "%x0 = Slice(%x)" + first + "%y = L2Norm(%x0)")});
}

TEST(SliceEarly, PassesProductsOfOtherWidths) {
  const std::string first = kFirst;
  const char* inputs = "%x: f32[b, s, 4], %w: f32[4, 6], %v: f32[6, 4], %m: f32[b, s, 1]";
  expect_rewrite(
      {&slice_early,
       graph_text(inputs,
                  "%u = Linear(%x, %w) %d = Linear(%u, %v, _, %x) %e = Mul(%d, %m) %y = Slice(%e)" +
                      first),
       graph_text(inputs, "%m0 = Slice(%m)" + first + "%x0 = Slice(%x)" + first +
                              "%x1 = Slice(%x)" + first +
                              "%u = Linear(%x1, %w) %d = Linear(%u, %v, _, %x0) "
                              "%y = Mul(%d, %m0)")});
}

TEST(SliceEarly, TakesTheSameOperandOnce) {
  const std::string first = kFirst;
  expect_rewrite({&slice_early, graph_text(kBlock, "%e = Mul(%x, %x) %y = Slice(%e)" + first),
                  graph_text(kBlock, "%x0 = Slice(%x)" + first + "%y = Mul(%x0, %x0)")});
}

TEST(SliceEarly, StaysWhereOtherRowsAreRead) {
  const std::string first = kFirst;
  const std::string last = " {inline_starts=true, starts=[1], axes=[1], steps=[1], sizes=(1)} ";
  for (const std::string& lines :
       {"%p = Linear(%x, %w) %a = Slice(%p)" + first + "%y = Add(%a, %p)",  // whole
        "%p = Linear(%x, %w) %a = Slice(%p)" + first + "%b = Slice(%p)" + last +
            "%y = Add(%a, %b)"}) {
    const auto text = graph_text(kBlock, lines);
    expect_rewrite({.pass = &slice_early, .before = text, .after = text, .sizes = {{"s", 5}}});
  }
}

TEST(SliceEarly, StaysBeforeChannelsThatAreSummed) {
  const std::string half = " {inline_starts=true, starts=[0], axes=[2], steps=[1], sizes=(2)} ";
  for (const char* op :
       {"Linear(%x, %w)", "LayerNorm(%x, %g, %h)", "AddLayerNorm(%x, %r, %g, %h)", "L2Norm(%x)"}) {
    const auto text = graph_text(kBlock, "%p = " + std::string(op) + " %y = Slice(%p)" + half);
    expect_rewrite({&slice_early, text, text});
  }
}

TEST(SliceEarly, StaysBehindAnOutputOfTheModel) {
  const std::string text = "graph g(" + std::string(kBlock) +
                           ") { %p = Linear(%x, %w) %y = Slice(%p)" + kFirst +
                           R"(return %p as "p", %y as "y" })";
  expect_rewrite({&slice_early, text, text});
}

TEST(QkvMerge, JoinsWeightsThatFeedAnAttention) {
  const char* inputs = "%x: f32[b, s, 2]";
  const char* heads =
      "%q4 = Reshape(%q) {shape=(b, s, 1, 2), has_shape=true} "
      "%k4 = Reshape(%k) {shape=(b, s, 1, 2), has_shape=true} "
      "%v4 = Reshape(%v) {shape=(b, s, 1, 3), has_shape=true} %y = Attention(%q4, %k4, %v4)";
  expect_rewrite(
      {&fuse_qkv,
       graph_text(inputs,
                  "%q = Linear(%x, f32[2, 2]{1, 2, 3, 4}, f32[2]{5, 6}) "
                  "%k = Linear(%x, f32[2, 2]{7, 8, 9, 10}) "
                  "%v = Linear(%x, f32[2, 3]{11, 12, 13, 14, 15, 16}, f32[3]{17, 18, 19}) " +
                      std::string(heads)),
       graph_text(inputs,
                  "%w = const f32[2, 7]{1, 2, 7, 8, 11, 12, 13, 3, 4, 9, 10, 14, 15, 16} "
                  "%c = const f32[7]{5, 6, 0, 0, 17, 18, 19} %a = Linear(%x, %w, %c) "
                  "%q, %k, %v = Split(%a) {axis=2, sizes=[2, 2, 3]} " +
                      std::string(heads))});
}

TEST(QkvMerge, TransposedWeightsStackUp) {
  const char* inputs = "%x: f32[b, s, 2]";
  const char* heads =
      "%q4 = Reshape(%q) {shape=(b, s, 1, 1), has_shape=true} "
      "%k4 = Reshape(%k) {shape=(b, s, 1, 1), has_shape=true} %y = Attention(%q4, %k4, %k4)";
  expect_rewrite({&fuse_qkv,
                  graph_text(inputs,
                             "%q = Linear(%x, f32[1, 2]{1, 2}) {trans_w=true} "
                             "%k = Linear(%x, f32[1, 2]{3, 4}) {trans_w=true} " +
                                 std::string(heads)),
                  graph_text(inputs,
                             "%a = Linear(%x, f32[2, 2]{1, 2, 3, 4}) {trans_w=true} "
                             "%q, %k = Split(%a) {axis=2, sizes=[1, 1]} " +
                                 std::string(heads))});
}

// Scores by relative position of q4 [b, s, 1, 2] and k4 of the same shape.
const std::string kBuckets =
    "%n = ShapeValues() {values=(2*s), scalar=true} %r = Range(i64{0}, %n, i64{1}) "
    "%buckets = Mul(%r, i64{0}) ";
const std::string kPlainHeads =
    "%q4 = Reshape(%q) {shape=(b, s, 1, 2), has_shape=true} "
    "%k4 = Reshape(%k) {shape=(b, s, 1, 2), has_shape=true} "
    "%v4 = Reshape(%v) {shape=(b, s, 1, 1), has_shape=true} ";
const std::string kOfQueries =
    "%qh = Transpose(%q4) {perm=[0, 2, 1, 3]} "
    "%m = MatMul(%qh, f32[1, 1, 2, 3]{1, 2, 3, 4, 5, 6}) %c = Transpose(%m) {perm=[0, 2, 1, 3]} ";
const std::string kOfKeys =
    "%kh = Transpose(%k4) {perm=[0, 2, 1, 3]} "
    "%o = MatMul(%kh, f32[1, 1, 2, 3]{7, 8, 9, 1, 2, 3}) %d = Transpose(%o) {perm=[0, 2, 1, 3]} ";
const std::string kThreeLayers =
    "%q = Linear(%x, f32[2, 2]{1, 2, 3, 4}) %k = Linear(%x, f32[2, 2]{5, 6, 7, 8}) "
    "%v = Linear(%x, f32[2, 1]{9, 10}) ";
const std::string kOneLayer =
    "%a = Linear(%x, f32[2, 5]{1, 2, 5, 6, 9, 3, 4, 7, 8, 10}) "
    "%q, %k, %v = Split(%a) {axis=2, sizes=[2, 2, 1]} ";

TEST(QkvMerge, JoinsWeightsThatAlsoFeedScoresByRelativePosition) {
  const std::string rest = kPlainHeads + kOfQueries +
                           "%y = Attention(%q4, %k4, %v4, _, _, _, _, _, _, _, %c, _, %buckets)";
  expect_rewrite({&fuse_qkv, graph_text("%x: f32[b, s, 2]", kBuckets + kThreeLayers + rest),
                  graph_text("%x: f32[b, s, 2]", kBuckets + kOneLayer + rest)});
}

TEST(QkvMerge, JoinsTheProductsOfQueriesAndKeysWithTheirPositions) {
  const std::string attention =
      "%y = Attention(%q4, %k4, %v4, _, _, _, _, _, _, _, %c, %d, %buckets, %buckets)";
  expect_rewrite(
      {&fuse_qkv,
       graph_text("%x: f32[b, s, 2]",
                  kBuckets + kThreeLayers + kPlainHeads + kOfQueries + kOfKeys + attention),
       graph_text("%x: f32[b, s, 2]",
                  kBuckets + kOneLayer + kPlainHeads +
                      "%both, %rest = Split(%a) {axis=2, sizes=[4, 1]} "
                      "%b4 = Reshape(%both) {shape=(b, s, 2, 2), has_shape=true} "
                      "%bh = Transpose(%b4) {perm=[0, 2, 1, 3]} "
                      "%m = MatMul(%bh, f32[1, 2, 2, 3]{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}) "
                      "%p = Transpose(%m) {perm=[0, 2, 1, 3]} "
                      "%c, %d = Split(%p) {axis=2, sizes=[1, 1]} " +
                      attention)});
}

TEST(QkvMerge, LeavesProductsOfPositionsWhereKeysLieBeforeQueries) {
  const std::string rest =
      kPlainHeads + kOfQueries + kOfKeys +
      "%y = Attention(%q4, %k4, %v4, _, _, _, _, _, _, _, %c, %d, %buckets, %buckets)";
  expect_rewrite({&fuse_qkv,
                  graph_text("%x: f32[b, s, 2]", kBuckets +
                                                     "%k = Linear(%x, f32[2, 2]{1, 2, 3, 4}) "
                                                     "%q = Linear(%x, f32[2, 2]{5, 6, 7, 8}) "
                                                     "%v = Linear(%x, f32[2, 1]{9, 10}) " +
                                                     rest),
                  graph_text("%x: f32[b, s, 2]",
                             kBuckets +
                                 "%a = Linear(%x, f32[2, 5]{1, 2, 5, 6, 9, 3, 4, 7, 8, 10}) "
                                 "%k, %q, %v = Split(%a) {axis=2, sizes=[2, 2, 1]} " +
                                 rest)});
}

TEST(QkvMerge, LeavesOtherLinearLayers) {
  const auto text = graph_text("%x: f32[b, s, 2]",
                               "%p = Linear(%x, f32[2, 2]{1, 2, 3, 4}) "
                               "%q = Linear(%x, f32[2, 2]{5, 6, 7, 8}) %y = Mul(%p, %q)");
  expect_rewrite({&fuse_qkv, text, text});
}

constexpr const char* kIds = "%ids: i64[b, s], %pos: i64[1, s], %g: f32[2], %h: f32[2]";
constexpr const char* kTables =
    "%t1 = const f32[3, 2]{1, 2, 3, 4, 5, 7} %t2 = const f32[3, 2]{6, 5, 4, 3, 2, 0} ";

TEST(EmbedNorm, TakesLookupsAndConstantRows) {
  expect_rewrite(
      {&fuse_embed_norm,
       graph_text(kIds,
                  kTables + std::string("%a = Gather(%t1, %ids) %c = Add(%a, f32[1, 1, 2]{9, 8}) "
                                        "%b = Gather(%t2, %pos) %t = Add(%c, %b) "
                                        "%y = LayerNorm(%t, %g, %h) {epsilon=0.5}")),
       graph_text(kIds, kTables + std::string("%y = EmbedNorm(%ids, %t1, %pos, %t2, "
                                              "i64[1, 1]{0}, f32[1, 2]{9, 8}, %g, %h) "
                                              "{tables=3, epsilon=0.5}"))});
}

TEST(EmbedNorm, LeavesASumThatIsUsedElsewhere) {
  const auto text = graph_text(
      kIds, kTables + std::string("%a = Gather(%t1, %ids) %b = Gather(%t2, %pos) %t = Add(%a, %b) "
                                  "%n = LayerNorm(%t, %g, %h) %y = Mul(%n, %t)"));
  expect_rewrite({&fuse_embed_norm, text, text});
}

constexpr const char* kChain =
    "%a: f32[b, s], %c: f32[1, s], %m: bool[b, s], %i: i64[b, s], %j: i64[1, s]";

TEST(ElementwiseChain, RunsAsOneLoop) {
  expect_rewrite({&fuse_elementwise,
                  graph_text(kChain,
                             "%1 = Mul(%a, %c) %2 = Where(%m, %1, f32{-5}) %3 = Gelu(%2) {kind=1} "
                             "%4 = Greater(%i, %j) %5 = Cast(%4) %y = Add(%3, %5)"),
                  graph_text(kChain,
                             "%y = FusedElementwise(%a, %c, %m, f32{-5}, %i, %j) "
                             "{program=\"Mul(%0,%1);"
                             "Where(%2,%6,%3);Gelu{kind=1}(%7);Greater(%4,%5);"
                             "Cast{to=f32, saturate=true}(%9);Add(%8,%10)\"}")});
}

TEST(ElementwiseChain, IsAskedToStoreItsLastResultOnly) {
  const auto graph =
      graph_of(graph_text("%x: f32[b, 4]", "%m = Mul(%x, %x) %y = Cast(%m) {to=f16}"));
  for (const ir::NodeId id : graph->order()) {
    ir::Node& node = graph->node(id);
    node.request = {.compute = {DType::kF32, false},
                    .accumulate = {},
                    .store = {graph->value(node.outputs[0]).dtype, false},
                    .by = "test"};
  }
  ASSERT_EQ(fuse_elementwise(*graph), 1);
  const Request request = graph->node(graph->order()[0]).request;
  EXPECT_EQ(request.store.type, DType::kF16);
  EXPECT_EQ(request.compute.type, DType::kF32);
}

TEST(ElementwiseChain, KeepsValuesThatAreUsedTwice) {
  // %1 leaves the chain through the sum: it is computed once, by itself.
  expect_rewrite({&fuse_elementwise,
                  graph_text(kChain,
                             "%1 = Mul(%a, %c) %2 = ReduceSum(%1) {axes=[1]} %3 = Exp(%1) "
                             "%4 = Sqrt(%3) %y = Mul(%4, %2)"),
                  graph_text(kChain,
                             "%1 = Mul(%a, %c) %2 = ReduceSum(%1) {axes=[1]} "
                             "%y = FusedElementwise(%1, %2) "
                             "{program=\"Exp(%0);Sqrt(%2);Mul(%3,%1)\"}")});
}

// … and what leads to a decision, and follows from it, are chains of their own.
TEST(ElementwiseChain, LeavesDecisionsAboutFloatsAlone) {
  for (const char* decision : {"%2 = Greater(%1, %c) %3 = Cast(%2)", "%2 = Round(%1) %3 = Neg(%2)",
                               "%2 = Cast(%1) {to=i64} %3 = Cast(%2)"}) {
    const std::string before = "%0 = Exp(%a) %1 = Neg(%0) " + std::string(decision),
                      after = "%1 = FusedElementwise(%a) {program=\"Exp(%0);Neg(%1)\"} ";
    const std::string own = std::string(decision).substr(0, std::string(decision).find(" %3"));
    const std::string last = std::string(decision).substr(own.size() + 6);  // behind " %3 = "
    const std::string name = last.substr(0, last.find('('));
    const std::string program = name == "Cast" ? "Cast{to=f32, saturate=true}" : name;
    expect_rewrite({&fuse_elementwise, graph_text(kChain, before + " %y = Mul(%3, %a)"),
                    graph_text(kChain, after + own + " %y = FusedElementwise(%2, %a) {program=\"" +
                                           program + "(%0);Mul(%2,%1)\"}")});
  }
}

TEST(ElementwiseChain, DoesNotRepeatSmallerWork) {
  const auto text = graph_text(kChain, "%1 = Exp(%c) %y = Mul(%a, %1)");
  expect_rewrite({&fuse_elementwise, text, text});
}

TEST(ElementwiseChain, LooksAtAnOperandOnceHoweverOftenItIsRead) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", DType::kF32, {4});
  const ir::ValueId v = ops::emit(graph, OpKind::kExp, {x}, NoAttrs{}, {});
  const ir::ValueId sum =
      ops::emit(graph, OpKind::kSum, std::vector<ir::ValueId>(300'000, v), NoAttrs{}, {});
  const ir::ValueId last_user = ops::emit(graph, OpKind::kNeg, {v}, NoAttrs{}, {});
  graph.outputs = {sum, last_user};
  graph.output_names = {"sum", "negated"};
  EXPECT_EQ(fuse_elementwise(graph), 0);
}

// ---- requests: a fusion that no type can serve is not made, and one that is made asks for all

struct Requests {
  const char* name;
  PassFn pass;
  std::string text;
};
void PrintTo(const Requests& row, std::ostream* out) { *out << row.name; }

class FusedRequests : public ::testing::TestWithParam<Requests> {};

// The graph of the row, its nodes asked for f32 and its first for `first`, after the pass.
std::shared_ptr<ir::Graph> after_pass(const Requests& row, const Request& first) {
  const auto graph = graph_of(row.text);
  for (ir::NodeId id : graph->order()) {
    const bool is_first = id == graph->order().front();
    Request& request = graph->node(id).request;
    request.compute = request.store = {DType::kF32, false};
    request.by = "mode fp32";
    if (is_first) request = first;
  }
  row.pass(*graph);
  graph->remove_dead();
  return graph;
}

TEST_P(FusedRequests, ThatNoTypeServesAreLeftApart) {
  // Held in exactly bf16, it cannot stay in a register of f32.
  const auto graph = after_pass(GetParam(), {.compute = {DType::kF32, false},
                                             .accumulate = {},
                                             .store = {DType::kBF16, true},
                                             .by = "rule 1"});
  EXPECT_EQ(structure(*graph), structure(*graph_of(GetParam().text)));
}

TEST_P(FusedRequests, AreMergedToTheStrongest) {
  const auto graph = after_pass(GetParam(), {.compute = {DType::kF64, false},
                                             .accumulate = {},
                                             .store = {DType::kF32, false},
                                             .by = "rule 1"});
  EXPECT_NE(structure(*graph), structure(*graph_of(GetParam().text)));
  int asked = 0;
  for (ir::NodeId id : graph->order()) asked += graph->node(id).request.compute.type == DType::kF64;
  EXPECT_EQ(asked, 1) << structure(*graph);
}

const Requests kRequests[] = {
    {"linear_activation", &fuse_linear_activation,
     graph_text(kLinear, "%p = Linear(%x, %w, %c) %y = Relu(%p)")},
    {"linear_residual", &fuse_linear_residual,
     graph_text(kLinear, "%p = Linear(%x, %w) %y = Add(%r, %p)")},
    {"linear_add_layer_norm",
     [](ir::Graph& graph) {
       return fuse_linear_add_layer_norm(
           graph, {.takes = [](const ir::Graph&, const ir::Node&) { return true; }});
     },
     graph_text(kNorm, "%p = Linear(%x, f32[4, 4] fill(1), %row) %y = AddLayerNorm(%p, %r, %g)")},
    {"add_layer_norm", &fuse_add_layer_norm,
     graph_text(kNorm, "%t = Add(%x, %r) %y = LayerNorm(%t, %g, %h)")},
    {"embed_norm", &fuse_embed_norm,
     graph_text(kIds, kTables + std::string("%a = Gather(%t1, %ids) %b = Gather(%t2, %pos) "
                                            "%t = Add(%a, %b) %y = LayerNorm(%t, %g, %h)"))},
    {"qkv_merge", &fuse_qkv,
     graph_text("%x: f32[b, s, 2]",
                "%q = Linear(%x, f32[2, 2]{1, 2, 3, 4}) %k = Linear(%x, f32[2, 2]{5, 6, 7, 8}) "
                "%q4 = Reshape(%q) {shape=(b, s, 1, 2), has_shape=true} "
                "%k4 = Reshape(%k) {shape=(b, s, 1, 2), has_shape=true} "
                "%y = Attention(%q4, %k4, %k4)")},
    {"transposed_elementwise", &drop_transposes,
     graph_text("%x: f32[b, s, 4]",
                "%t = Transpose(%x) {perm=[0, 2, 1]} %e = Exp(%t) "
                "%y = Transpose(%e) {perm=[0, 2, 1]}")},
    {"slice_early", &slice_early,
     graph_text(kBlock, "%p = Linear(%x, %w) %y = Slice(%p)" + std::string(kFirst))},
    {"elementwise_chain", &fuse_elementwise, graph_text(kChain, "%1 = Mul(%a, %c) %y = Exp(%1)")},
};

INSTANTIATE_TEST_SUITE_P(Rows, FusedRequests, ::testing::ValuesIn(kRequests),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace vernier::passes::testing
