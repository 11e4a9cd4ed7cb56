// Scores by relative position as DeBERTa's exporters write them: which ones an Attention absorbs,
// and which ones stay as they are.
#include <gtest/gtest.h>

#include "core/attrs.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"
#include "passes/raising.h"

namespace vernier::passes::testing {
namespace {

const std::string kInputs =
    "%q: f32[b, s, 2, 4], %k: f32[b, s, 2, 4], %v: f32[b, s, 2, 6], %c: f32[b, 2, s, 6], "
    "%d: f32[b, 2, s, 6], %mask: i64[b, s]";
const std::string kHeads =
    "%qh = Transpose(%q) {perm=[0, 2, 1, 3]} %kt = Transpose(%k) {perm=[0, 2, 3, 1]} "
    "%vh = Transpose(%v) {perm=[0, 2, 1, 3]} %m = MatMul(%qh, %kt) ";
// i − j as %far.
const std::string kDistance =
    "%len = Shape(%q) {start=1, end=2} %n = Squeeze(%len) {axes=[0]} "
    "%range = Range(i64{0}, %n, i64{1}) %row = Unsqueeze(%range) {axes=[1]} "
    "%col = Unsqueeze(%range) {axes=[0]} %far = Sub(%row, %col) ";
const std::string kWide = " {shape=(b, 2, s, s), has_shape=true} ";
// %c of queries at `far` + 3, as %a.
std::string of_queries(const std::string& far = "%far") {
  return "%a1 = Add(" + far + ", i64{3}) %a2 = Clip(%a1, i64{0}, i64{5}) %a3 = Expand(%a2)" +
         kWide + "%a = GatherElements(%c, %a3) {axis=-1} ";
}
// %d of keys at 3 − `far`, as %b.
const std::string kOfKeys =
    "%b0 = Neg(%far) %b1 = Add(%b0, i64{3}) %b2 = Clip(%b1, i64{0}, i64{5}) %b3 = Expand(%b2)" +
    kWide + "%b4 = GatherElements(%d, %b3) {axis=-1} %b = Transpose(%b4) {perm=[0, 1, 3, 2]} ";
const std::string kSum = "%m1 = Add(%a, %b) %m2 = Add(%m, %m1) %s0 = Mul(%m2, f32{0.5}) ";
const std::string kPairs =
    "%k1 = Reshape(%mask) {shape=(b, 1, 1, s), has_shape=true} "
    "%k2 = Reshape(%mask) {shape=(b, 1, s, 1), has_shape=true} %k3 = Mul(%k1, %k2) ";
const std::string kMasked =
    kPairs + "%keep = Cast(%k3) {to=bool} %s = Where(%keep, %s0, f32{-3.4028235e+38}) ";
const std::string kOut =
    "%p = Softmax(%s) {axis=-1} %o = MatMul(%p, %vh) %y = Transpose(%o) {perm=[0, 2, 1, 3]}";

std::shared_ptr<ir::Graph> raised(const std::string& lines) {
  const auto before = graph_of(graph_text(kInputs, lines));
  const auto after = before->clone();
  raise_and_clean(*after);
  expect_same_results(*before, *after, 1e-12);
  return after;
}

const ir::Node* attention_of(const ir::Graph& graph) {
  for (ir::NodeId id : graph.order())
    if (graph.node(id).op == OpKind::kAttention) return &graph.node(id);
  return nullptr;
}
SymShape shape_of(const ir::Graph& graph, const ir::Node& node, size_t input) {
  return graph.value(node.inputs[input]).shape;
}
// Arrays with an element for each pair of places.
int pairs_in(const ir::Graph& graph) {
  const Dim s = Dim::symbol("s");
  int found = 0;
  for (ir::NodeId id : graph.order()) {
    for (ir::ValueId out : graph.node(id).outputs) {
      const SymShape& shape = graph.value(out).shape;
      found += shape.size() >= 2 && shape.back() == s && shape[shape.size() - 2] == s;
    }
  }
  return found;
}

TEST(RelativePositions, OfQueriesAndKeysBecomePartOfTheAttention) {
  using enum AttentionAttrs::Input;
  const auto graph = raised(kHeads + kDistance + of_queries() + kOfKeys + kSum + kMasked + kOut);
  const ir::Node* attention = attention_of(*graph);
  ASSERT_NE(attention, nullptr) << structure(*graph);
  EXPECT_EQ(pairs_in(*graph), 0) << structure(*graph);
  const Dim b = Dim::symbol("b"), s = Dim::symbol("s");
  EXPECT_EQ(shape_of(*graph, *attention, kQueryPositions), (SymShape{b, s, 2, 6}));
  EXPECT_EQ(shape_of(*graph, *attention, kKeyPositions), (SymShape{b, s, 2, 6}));
  EXPECT_EQ(shape_of(*graph, *attention, kQueryBuckets), SymShape{s + s});
  EXPECT_EQ(shape_of(*graph, *attention, kKeyBuckets), SymShape{s + s});
  EXPECT_EQ(shape_of(*graph, *attention, kKeep), (SymShape{b, 1, 1, s}));
  EXPECT_EQ(shape_of(*graph, *attention, kKeepQueries), (SymShape{b, 1, s, 1}));
  const auto attrs = attention->attrs_as<AttentionAttrs>();
  EXPECT_EQ(attrs.scale, 0.5);
  EXPECT_FALSE(attrs.zero_hidden_rows);
}

TEST(RelativePositions, OfOneSideAlone) {
  using enum AttentionAttrs::Input;
  const auto query = raised(kHeads + kDistance + of_queries() +
                            "%s0 = Add(%m, %a) %s = Mul(%s0, f32{0.5}) " + kOut);
  ASSERT_NE(attention_of(*query), nullptr) << structure(*query);
  EXPECT_TRUE(attention_of(*query)->has_input(kQueryBuckets));
  EXPECT_FALSE(attention_of(*query)->has_input(kKeyBuckets));
  const auto key = raised(kHeads + kDistance + kOfKeys + "%s = Add(%b, %m) " + kOut);
  ASSERT_NE(attention_of(*key), nullptr) << structure(*key);
  EXPECT_FALSE(attention_of(*key)->has_input(kQueryBuckets));
  EXPECT_TRUE(attention_of(*key)->has_input(kKeyBuckets));
}

TEST(RelativePositions, WithAScaleOfTheirOwn) {
  const auto graph = raised(kHeads + kDistance + of_queries() + kOfKeys +
                            "%m0 = Div(%m, f32{4}) %a8 = Mul(%a, f32{0.5}) %b8 = Div(%b, f32{4}) "
                            "%m1 = Add(%a8, %b8) %s = Add(%m0, %m1) " +
                            kOut);
  ASSERT_NE(attention_of(*graph), nullptr) << structure(*graph);
  EXPECT_EQ(attention_of(*graph)->attrs_as<AttentionAttrs>().scale, 0.25);
  EXPECT_EQ(count(*graph, "Mul"), 1) << structure(*graph);
}

// Batch and heads as one axis between the products and the softmax, positions by a Tile of weights.
TEST(RelativePositions, OfMergedHeads) {
  const std::string merged = " {shape=(2*b, s, s), has_shape=true} ";
  const auto graph =
      raised(kHeads + kDistance + "%t = Reshape(%m)" + merged +
             "%one = Shape(%q) {start=0, end=1} %reps = Concat(%one, i64[2]{1, 1}) {axis=0} "
             "%w = Tile(f32[2, 6, 4]{" +
             [] {
               std::string numbers = "1";
               for (int i = 1; i < 48; ++i) numbers += ", " + std::to_string(i % 7 - 3);
               return numbers;
             }() +
             "}, %reps) %w4 = Reshape(%w) {shape=(b, 2, 6, 4), has_shape=true} "
             "%wt = Transpose(%w4) {perm=[0, 1, 3, 2]} %cp = MatMul(%qh, %wt) "
             "%c3 = Reshape(%cp) {shape=(2*b, s, 6), has_shape=true} "
             "%a1 = Add(%far, i64{3}) %a2 = Clip(%a1, i64{0}, i64{5}) "
             "%a3 = Expand(%a2) {shape=(2*b, s, s), has_shape=true} "
             "%a = GatherElements(%c3, %a3) {axis=-1} %t1 = Add(%t, %a) "
             "%s0 = Reshape(%t1)" +
             kWide + kMasked + kOut);
  const ir::Node* attention = attention_of(*graph);
  ASSERT_NE(attention, nullptr) << structure(*graph);
  EXPECT_EQ(pairs_in(*graph), 0) << structure(*graph);
  EXPECT_EQ(count(*graph, "Tile") + count(*graph, "Expand"), 0) << structure(*graph);
}

TEST(RelativePositions, ZeroedProbabilitiesAreAnAttribute) {
  const std::string scores = kHeads + kDistance + of_queries() + kOfKeys + kSum;
  const std::string softmax =
      kPairs +
      "%keep = Equal(%k3, i64{1}) %s = Where(%keep, %s0, f32{-3.4028235e+38}) "
      "%p = Softmax(%s) {axis=-1} ";
  const std::string out = " %o = MatMul(%z, %vh) %y = Transpose(%o) {perm=[0, 2, 1, 3]}";
  const auto graph = raised(scores + softmax + "%z = Where(%keep, %p, f32{0})" + out);
  ASSERT_NE(attention_of(*graph), nullptr) << structure(*graph);
  const auto attrs = attention_of(*graph)->attrs_as<AttentionAttrs>();
  EXPECT_TRUE(attrs.zero_hidden_rows);
  EXPECT_EQ(attrs.fill, -HUGE_VAL);
  // Zeroed by another mask, or not to 0.
  const auto other = raised(scores + softmax + "%g = Not(%keep) %z = Where(%g, %p, f32{0})" + out);
  EXPECT_EQ(attention_of(*other), nullptr) << structure(*other);
  const auto one = raised(scores + softmax + "%z = Where(%keep, %p, f32{1})" + out);
  EXPECT_EQ(attention_of(*one), nullptr) << structure(*one);
}

// Buckets whose width grows with the distance, as %bucket: floats on the way.
const std::string kLogarithmic =
    "%sign = Sign(%far) %lt = Less(%far, i64{2}) %gt = Greater(%far, i64{-2}) "
    "%near = And(%lt, %gt) %abs = Abs(%far) %w = Where(%near, i64{1}, %abs) %f = Cast(%w) "
    "{to=f32} %h = Mul(%f, f32{0.5}) %l = Log(%h) %e = Mul(%l, f32{1.5}) %i = Ceil(%e) "
    "%u = Add(%i, f32{2}) %le = LessOrEqual(%w, i64{2}) %ff = Cast(%far) {to=f32} "
    "%sf = Cast(%sign) {to=f32} %us = Mul(%u, %sf) %x = Where(%le, %ff, %us) "
    "%x1 = Reshape(%x) {shape=(1, s, s), has_shape=true} %bucket = Cast(%x1) {to=i64} ";

TEST(RelativePositions, OfLogarithmicBuckets) {
  const auto graph = raised(kHeads + kDistance + kLogarithmic + of_queries("%bucket") +
                            "%s = Add(%m, %a) " + kOut);
  ASSERT_NE(attention_of(*graph), nullptr) << structure(*graph);
  EXPECT_EQ(pairs_in(*graph), 0) << structure(*graph);
}

// What both indices are made of is computed once, although keys read it backwards.
TEST(RelativePositions, OfQueriesAndKeysShareTheirBuckets) {
  std::string of_keys = kOfKeys;
  of_keys.replace(of_keys.find("%far"), 4, "%bucket");
  const auto graph = raised(kHeads + kDistance + kLogarithmic + of_queries("%bucket") + of_keys +
                            kSum + kMasked + kOut);
  ASSERT_NE(attention_of(*graph), nullptr) << structure(*graph);
  int logarithms = 0;
  for (ir::NodeId id : graph->order()) logarithms += graph->node(id).op == OpKind::kLog;
  EXPECT_EQ(logarithms, 1) << structure(*graph);
}

// ---- what stays

TEST(RelativePositions, StayWhereOneConditionFails) {
  const std::string plain = "%s = Add(%m, %a) " + kOut;
  struct NearMiss {
    const char* what;
    std::string lines;
  };
  const std::string index = "%a3 = Expand(%a2)" + kWide;
  for (const NearMiss& miss : std::vector<NearMiss>{
           {"not clipped", "%a1 = Mod(%far, i64{6}) %a2 = Abs(%a1) " + index +
                               "%a = GatherElements(%c, %a3) {axis=-1} " + plain},
           {"a sum of places", "%sum = Add(%row, %col) " + of_queries("%sum") + plain},
           {"another distance of each column",
            "%wide = Mul(%col, i64{2}) %o2 = Sub(%row, %wide) " + of_queries("%o2") + plain},
           {"depends on data",
            "%m0 = Reshape(%mask) {shape=(b, 1, 1, s), has_shape=true} "
            "%o2 = Add(%far, %m0) " +
                of_queries("%o2") + plain},
           {"gathered twice from queries",
            of_queries() +
                "%twice = GatherElements(%c, %a3) {axis=-1} %sum = Add(%a, %twice) "
                "%s = Add(%m, %sum) " +
                kOut},
           {"gathered along another axis",
            "%a1 = Add(%far, i64{3}) %a2 = Clip(%a1, i64{0}, i64{0})" + index +
                "%a = GatherElements(%c, %a3) {axis=1} " + plain},
           {"the transposed distance of keys",
            of_queries() +
                "%at = Transpose(%a) {perm=[0, 1, 3, 2]} %a9 = Add(%a, %at) %a8 = "
                "Transpose(%a9) {perm=[0, 1, 3, 2]} %s = Sub(%a8, %m) " +
                kOut}}) {
    SCOPED_TRACE(miss.what);
    const auto graph = raised(kHeads + kDistance + miss.lines);
    const ir::Node* attention = attention_of(*graph);
    EXPECT_TRUE(attention == nullptr || !attention->has_input(AttentionAttrs::kQueryPositions))
        << structure(*graph);
  }
}

// ---- off, and where a device has no kernel

TEST(RelativePositions, AreSplitWithTheAttention) {
  const auto graph = raised(kHeads + kDistance + of_queries() + kOfKeys + kSum + kMasked + kOut);
  const auto split = graph->clone();
  EXPECT_EQ(split_attention(*split), 1);
  split->sort();
  EXPECT_EQ(attention_of(*split), nullptr);
  EXPECT_EQ(count(*split, "GatherElements"), 2);
  expect_same_results(*graph, *split, 1e-12);

  PassOptions options;
  EXPECT_EQ(split_refused_attention(*graph->clone(), options), 0);
  options.takes = [](const ir::Graph&, const ir::Node&) { return true; };
  EXPECT_EQ(split_refused_attention(*graph->clone(), options), 0);
  options.takes = [](const ir::Graph&, const ir::Node&) { return false; };
  const auto refused = graph->clone();
  for (ir::NodeId id : refused->order()) {
    ir::Node& node = refused->node(id);
    if (node.op == OpKind::kAttention) node.request.store = {DType::kF16, false};
  }
  EXPECT_EQ(split_refused_attention(*refused, options), 1);
  for (ir::NodeId id : refused->order()) {  // what moves elements has no other type
    const ir::Node& node = refused->node(id);
    if (node.op == OpKind::kGatherElements) {
      EXPECT_EQ(node.request.store.type, DType::kF16);
    }
  }
}

// ---- GPT-2 as PyTorch 1.4 exported it: scores·b − 10000·(1 − b)

const std::string kSquare = "%q: f32[b, s, 2, 4], %k: f32[b, s, 2, 4], %v: f32[b, s, 2, 6]";
// The buffer of 8 places, cut to those of the batch.
std::string triangle(double corner = 0) {
  std::string values;
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j)
      values += (values.empty() ? "" : ", ") +
                (i == 0 && j == 7 ? std::to_string(corner) : std::string(j <= i ? "1" : "0"));
  }
  return "%buffer = Reshape(f32[1, 1, 8, 8]{" + values +
         "}) {shape=(1, 1, 8, 8), has_shape=true} %tri = Slice(%buffer) {inline_starts=true, "
         "starts=[0, 0], axes=[2, 3], steps=[1, 1], sizes=(s, s)} ";
}

std::shared_ptr<ir::Graph> raised_gpt2(const std::string& lines) {
  const auto before = graph_of(graph_text(kSquare, kHeads + lines + kOut));
  const auto after = before->clone();
  raise_and_clean(*after);
  expect_same_results(*before, *after, 1e-12, {{"b", 2}, {"s", 5}});
  return after;
}

TEST(BlendedMasks, OfATriangleAreCausal) {
  for (const char* blend : {
           "%w = Mul(%m, %tri) %r = Sub(f32{1}, %tri) %f = Mul(%r, f32{10000}) %s = Sub(%w, %f) ",
           "%w = Mul(%tri, %m) %r = Sub(f32{1}, %tri) %f = Mul(f32{-10000}, %r) %s = Add(%f, %w) ",
       }) {
    const auto graph = raised_gpt2(triangle() + blend);
    const ir::Node* attention = attention_of(*graph);
    ASSERT_NE(attention, nullptr) << structure(*graph);
    EXPECT_TRUE(attention->attrs_as<AttentionAttrs>().causal);
    EXPECT_EQ(attention->attrs_as<AttentionAttrs>().fill, -10000);
    EXPECT_FALSE(attention->has_input(AttentionAttrs::kKeep));
    EXPECT_EQ(pairs_in(*graph), 0) << structure(*graph);
  }
}

TEST(BlendedMasks, OfBoolsAreKeepMasks) {
  const auto before =
      graph_of(graph_text(kSquare + ", %mask: bool[b, 1, 1, s]",
                          kHeads +
                              "%n = Cast(%mask) {to=f32} %w = Mul(%m, %n) %r = Sub(f32{1}, %n) "
                              "%f = Mul(%r, f32{10000}) %s = Sub(%w, %f) " +
                              kOut));
  const auto after = before->clone();
  raise_and_clean(*after);
  ASSERT_NE(attention_of(*after), nullptr) << structure(*after);
  EXPECT_TRUE(attention_of(*after)->has_input(AttentionAttrs::kKeep));
  EXPECT_FALSE(attention_of(*after)->has_input(AttentionAttrs::kBias));
  expect_same_results(*before, *after, 1e-12);
}

TEST(BlendedMasks, StayWhereOneConditionFails) {
  for (const std::string& lines : {
           // Not of 0 and 1; not the rest to 1; not the same mask; scores subtracted.
           triangle(0.5) + "%w = Mul(%m, %tri) %r = Sub(f32{1}, %tri) %f = Mul(%r, f32{10000}) "
                           "%s = Sub(%w, %f) ",
           triangle() + "%w = Mul(%m, %tri) %r = Sub(f32{2}, %tri) %f = Mul(%r, f32{10000}) "
                        "%s = Sub(%w, %f) ",
           triangle() + "%w = Mul(%m, %tri) %up = Transpose(%tri) {perm=[0, 1, 3, 2]} "
                        "%r = Sub(f32{1}, %up) %f = Mul(%r, f32{10000}) %s = Sub(%w, %f) ",
           triangle() + "%w = Mul(%m, %tri) %r = Sub(f32{1}, %tri) %f = Mul(%r, f32{10000}) "
                        "%s = Sub(%f, %w) ",
       }) {
    const auto graph = raised_gpt2(lines);
    EXPECT_EQ(attention_of(*graph), nullptr) << structure(*graph);
  }
}

}  // namespace
}  // namespace vernier::passes::testing
