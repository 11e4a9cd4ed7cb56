// Attention in the spellings of both exporters and of hand-written models, and what is not one.
#include <gtest/gtest.h>

#include "core/attrs.h"
#include "passes/attention_parts.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"
#include "passes/raising.h"

namespace vernier::passes::testing {
namespace {

constexpr const char* kInputs =
    "%q: f32[b, sq, 2, 4], %k: f32[b, sk, 2, 4], %v: f32[b, sk, 2, 6], %mask: bool[b, 1, 1, sk], "
    "%bias: f32[1, 2, sq, sk]";
constexpr const char* kHeads =
    "%qh = Transpose(%q) {perm=[0, 2, 1, 3]} %kt = Transpose(%k) {perm=[0, 2, 3, 1]} "
    "%vh = Transpose(%v) {perm=[0, 2, 1, 3]} ";
constexpr const char* kOut =
    " %p = Softmax(%s) {axis=-1} %c = MatMul(%p, %vh) %y = Transpose(%c) {perm=[0, 2, 1, 3]}";

struct Spelling {
  const char *name, *scores, *after;
};
void PrintTo(const Spelling& s, std::ostream* out) { *out << s.name; }

class AttentionSpellings : public ::testing::TestWithParam<Spelling> {};
TEST_P(AttentionSpellings, BecomeOneNode) {
  expect_rewrite({&raise_and_clean,
                  graph_text(kInputs, kHeads + std::string(GetParam().scores) + kOut),
                  graph_text(kInputs, GetParam().after)});
}
INSTANTIATE_TEST_SUITE_P(
    All, AttentionSpellings,
    ::testing::Values(
        Spelling{"bare", "%s = MatMul(%qh, %kt)", "%y = Attention(%q, %k, %v)"},
        Spelling{"scale_after", "%m = MatMul(%qh, %kt) %s = Mul(%m, f32{0.5})",
                 "%y = Attention(%q, %k, %v) {scale=0.5}"},
        Spelling{"divided", "%m = MatMul(%qh, %kt) %s = Div(%m, f32[1]{4})",
                 "%y = Attention(%q, %k, %v) {scale=0.25}"},
        Spelling{"scale_on_q", "%u = Mul(%qh, f32{0.5}) %s = MatMul(%u, %kt)",
                 "%y = Attention(%q, %k, %v) {scale=0.5}"},
        Spelling{"scale_split_over_q_and_k",
                 "%u = Mul(%qh, f32{0.5}) %w = Mul(f32{0.5}, %kt) %s = MatMul(%u, %w)",
                 "%y = Attention(%q, %k, %v) {scale=0.25}"},
        Spelling{"scale_before_the_transpose",
                 "%u = Mul(%q, f32{0.5}) %w = Transpose(%u) {perm=[0, 2, 1, 3]} "
                 "%s = MatMul(%w, %kt)",
                 "%y = Attention(%q, %k, %v) {scale=0.5}"},
        Spelling{"bias", "%m = MatMul(%qh, %kt) %n = Mul(%m, f32{0.5}) %s = Add(%bias, %n)",
                 "%y = Attention(%q, %k, %v, %bias) {scale=0.5}"},
        Spelling{"bias_before_the_scale",
                 "%m = MatMul(%qh, %kt) %n = Add(%m, %bias) %s = Mul(%n, f32{0.5})",
                 "%1 = Mul(%bias, f32{0.5}) %y = Attention(%q, %k, %v, %1) {scale=0.5}"},
        Spelling{"subtracted_bias", "%m = MatMul(%qh, %kt) %s = Sub(%m, %bias)",
                 "%1 = Mul(%bias, f32{-1}) %y = Attention(%q, %k, %v, %1)"},
        Spelling{"additive_mask_of_minus_infinity",
                 "%m = MatMul(%qh, %kt) %a = Where(%mask, f32{0}, f32{-inf}) %s = Add(%m, %a)",
                 "%y = Attention(%q, %k, %v, _, %mask)"},
        Spelling{"additive_mask_of_the_lowest_float",
                 "%m = MatMul(%qh, %kt) %a = Where(%mask, f32{0}, f32{-3.4028235e+38}) "
                 "%s = Add(%m, %a)",
                 "%y = Attention(%q, %k, %v, _, %mask) {fill=-3.4028234663852886e+38}"},
        Spelling{"additive_mask_the_other_way",
                 "%n = Not(%mask) %m = MatMul(%qh, %kt) "
                 "%a = Where(%n, f32{-3.4028235e+38}, f32{0}) %s = Add(%a, %m)",
                 "%y = Attention(%q, %k, %v, _, %mask) {fill=-3.4028234663852886e+38}"},
        Spelling{"small_additive_mask_stays_a_bias",
                 "%m = MatMul(%qh, %kt) %a = Where(%mask, f32{0}, f32{-10000}) %s = Add(%m, %a)",
                 "%1 = Where(%mask, f32{0}, f32{-10000}) %y = Attention(%q, %k, %v, %1)"},
        Spelling{"chosen_scores", "%m = MatMul(%qh, %kt) %s = Where(%mask, %m, f32{-10000})",
                 "%y = Attention(%q, %k, %v, _, %mask) {fill=-10000}"},
        Spelling{"chosen_fill",
                 "%n = Not(%mask) %m = MatMul(%qh, %kt) %s = Where(%n, f32{-inf}, %m)",
                 "%y = Attention(%q, %k, %v, _, %mask)"},
        Spelling{"bias_then_mask",
                 "%m = MatMul(%qh, %kt) %n = Add(%m, %bias) %s = Where(%mask, %n, f32{-10000})",
                 "%y = Attention(%q, %k, %v, %bias, %mask) {fill=-10000}"},
        Spelling{"bias_and_additive_mask",
                 "%m = MatMul(%qh, %kt) %n = Add(%m, %bias) "
                 "%a = Where(%mask, f32{0}, f32{-inf}) %s = Add(%n, %a)",
                 "%y = Attention(%q, %k, %v, %bias, %mask)"},
        Spelling{"bias_after_a_mask_of_the_lowest_float",
                 "%m = MatMul(%qh, %kt) %n = Where(%mask, %m, f32{-3.4028235e+38}) "
                 "%s = Add(%n, %bias)",
                 "%1 = Where(%mask, f32{0}, f32{-3.4028235e+38}) %2 = Add(%1, %bias) "
                 "%y = Attention(%q, %k, %v, %2)"},
        Spelling{"summed_masks_of_minus_infinity",
                 "%a = Where(%mask, f32{0}, f32{-inf}) %g = Greater(%bias, f32{1}) "
                 "%h = Where(%g, f32{-inf}, f32{0}) %t = Add(%h, %a) %m = MatMul(%qh, %kt) "
                 "%s = Add(%m, %t)",
                 "%g = Greater(%bias, f32{1}) %n = Not(%g) %k2 = And(%n, %mask) "
                 "%y = Attention(%q, %k, %v, _, %k2)"},
        Spelling{"summed_mask_and_position_bias",
                 "%a = Where(%mask, f32{0}, f32{-3.4028235e+38}) %t = Add(%a, %bias) "
                 "%m = MatMul(%qh, %kt) %s = Add(%m, %t)",
                 "%y = Attention(%q, %k, %v, %bias, %mask) {fill=-3.4028234663852886e+38}"},
        Spelling{"expanded_mask",
                 "%e = Expand(%mask) {shape=(b, 2, sq, sk), has_shape=true} "
                 "%m = MatMul(%qh, %kt) %s = Where(%e, %m, f32{-inf})",
                 "%y = Attention(%q, %k, %v, _, %mask)"},
        Spelling{"mask_as_numbers",
                 "%i = Cast(%mask) {to=i64} %f = Cast(%i) {to=f32} %o = Sub(f32{1}, %f) "
                 "%h = Cast(%o) {to=bool} %a = Where(%h, f32{-3.4028235e+38}, %o) "
                 "%m = MatMul(%qh, %kt) %s = Add(%m, %a)",
                 "%y = Attention(%q, %k, %v, _, %mask) {fill=-3.4028234663852886e+38}"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Attention, NanGuardBecomesAnAttribute) {
  expect_rewrite(
      {&raise_and_clean,
       graph_text(kInputs, std::string(kHeads) +
                               "%m = MatMul(%qh, %kt) %a = Where(%mask, f32{0}, f32{-inf}) "
                               "%s = Add(%m, %a) %p = Softmax(%s) {axis=3} %n = IsNaN(%p) "
                               "%g = Where(%n, f32{0}, %p) %c = MatMul(%g, %vh) "
                               "%y = Transpose(%c) {perm=[0, 2, 1, 3]}"),
       graph_text(kInputs, "%y = Attention(%q, %k, %v, _, %mask) {zero_nan_rows=true}")});
}

// ---- causal masks

constexpr const char* kSquare =
    "%q: f32[b, s, 2, 4], %k: f32[b, s, 2, 4], %v: f32[b, s, 2, 4], %mask: bool[b, 1, 1, s]";
constexpr const char* kRange =
    "%len = Shape(%q) {start=1, end=2} %n = Squeeze(%len) {axes=[0]} "
    "%range = Range(i64{0}, %n, i64{1}) %row = Unsqueeze(%range) {axes=[1]} "
    "%col = Unsqueeze(%range) {axes=[0]} ";

class CausalSpellings : public ::testing::TestWithParam<Spelling> {};
TEST_P(CausalSpellings, BecomeTheFlag) {
  expect_rewrite({&raise_and_clean,
                  graph_text(kSquare, kHeads + std::string(kRange) + "%m = MatMul(%qh, %kt) " +
                                          GetParam().scores + kOut),
                  graph_text(kSquare, GetParam().after)});
}
INSTANTIATE_TEST_SUITE_P(
    All, CausalSpellings,
    ::testing::Values(
        Spelling{"key_le_query", "%c1 = LessOrEqual(%col, %row) %s = Where(%c1, %m, f32{-inf})",
                 "%y = Attention(%q, %k, %v) {causal=true}"},
        Spelling{"query_lt_key_hidden", "%c1 = Less(%row, %col) %s = Where(%c1, f32{-inf}, %m)",
                 "%y = Attention(%q, %k, %v) {causal=true}"},
        Spelling{"with_padding",
                 "%c1 = GreaterOrEqual(%row, %col) %c2 = And(%c1, %mask) "
                 "%a = Where(%c2, f32{0}, f32{-3.4028235e+38}) %s = Add(%m, %a)",
                 "%y = Attention(%q, %k, %v, _, %mask) {causal=true, "
                 "fill=-3.4028234663852886e+38}"},
        Spelling{"triangle_of_constants",
                 "%z = Concat(%len, %len) %f = ConstantOfShape(%z) {value=-1e9} "
                 "%a = Trilu(%f, i64{1}) {upper=true} %s = Add(%m, %a)",
                 "%y = Attention(%q, %k, %v) {causal=true, fill=-1000000000}"},
        Spelling{"triangle_of_trues",
                 "%z = Concat(%len, %len) %f = ConstantOfShape(%z) {dtype=bool, value=1} "
                 "%a = Trilu(%f) {upper=false} %s = Where(%a, %m, f32{-inf})",
                 "%y = Attention(%q, %k, %v) {causal=true}"},
        Spelling{"triangle_compared_with_zero",
                 "%z = Concat(%len, %len) %f = Expand(f32{1}, %z) "
                 "%t = Trilu(%f) {upper=false} %e = Equal(%t, f32{0}) "
                 "%a = Where(%e, f32{-inf}, f32{0}) %s = Add(%m, %a)",
                 "%y = Attention(%q, %k, %v) {causal=true}"},
        Spelling{"table_cut_to_length",
                 "%t = const f32[1, 1, 8, 8]{1,0,0,0,0,0,0,0, 1,1,0,0,0,0,0,0, 1,1,1,0,0,0,0,0, "
                 "1,1,1,1,0,0,0,0, 1,1,1,1,1,0,0,0, 1,1,1,1,1,1,0,0, 1,1,1,1,1,1,1,0, "
                 "1,1,1,1,1,1,1,1} %t1 = Slice(%t, i64[1]{0}, %len, i64[1]{2}, i64[1]{1}) "
                 "%t2 = Slice(%t1, i64[1]{0}, %len, i64[1]{3}, i64[1]{1}) "
                 "%h = Equal(%t2, f32{0}) %s = Where(%h, f32{-inf}, %m)",
                 "%y = Attention(%q, %k, %v) {causal=true}\n"
                 "guard min(8, s) == s \"#12\""}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Attention, AlmostCausalStaysAMask) {
  // One key further than causal: j <= i + 1.
  const auto text = graph_text(
      kSquare, kHeads + std::string(kRange) +
                   "%m = MatMul(%qh, %kt) %r1 = Add(%row, i64{1}) %c1 = LessOrEqual(%col, %r1) "
                   "%s = Where(%c1, %m, f32{-inf})" +
                   kOut);
  const auto before = graph_of(text);
  const auto after = before->clone();
  raise_and_clean(*after);
  for (ir::NodeId id : after->order()) {
    if (after->node(id).op != OpKind::kAttention) continue;
    EXPECT_FALSE(after->node(id).attrs_as<AttentionAttrs>().causal);
    EXPECT_EQ(after->node(id).inputs.size(), 5u);
  }
  EXPECT_EQ(count(*after, "Attention"), 1);
  expect_same_results(*before, *after, 1e-12);
}

// ---- layouts

TEST(Attention, MergedHeadsAreFoundAgain) {
  // nn.MultiheadAttention: [S, B, E] → [S, B·H, D] → [B·H, S, D], bmm, and back.
  const char* inputs = "%q: f32[s, b, 8], %k: f32[t, b, 8], %v: f32[t, b, 8]";
  const auto text = graph_text(
      inputs,
      "%sq = Shape(%q) %s = Slice(%sq, i64[1]{0}, i64[1]{1}) %bb = Slice(%sq, i64[1]{1}, "
      "i64[1]{2}) "
      "%st = Shape(%k) %t = Slice(%st, i64[1]{0}, i64[1]{1}) %bh = Mul(%bb, i64[1]{2}) "
      "%zq = Concat(%s, %bh, i64[1]{4}) %zk = Concat(%t, %bh, i64[1]{4}) "
      "%q1 = Reshape(%q, %zq) %q2 = Transpose(%q1) {perm=[1, 0, 2]} %q3 = Mul(%q2, f32{0.5}) "
      "%k1 = Reshape(%k, %zk) %k2 = Transpose(%k1) {perm=[1, 2, 0]} "
      "%v1 = Reshape(%v, %zk) %v2 = Transpose(%v1) {perm=[1, 0, 2]} "
      "%m = MatMul(%q3, %k2) %p = Softmax(%m) {axis=-1} %o = MatMul(%p, %v2) "
      "%o1 = Transpose(%o) {perm=[1, 0, 2]} %zo = Concat(%s, %bb, i64[1]{8}) "
      "%y = Reshape(%o1, %zo)");
  expect_rewrite({&raise_and_clean, text,
                  graph_text(inputs,
                             "%q1 = Reshape(%q) {shape=(s, b, 2, 4), has_shape=true} "
                             "%q2 = Transpose(%q1) {perm=[1, 0, 2, 3]} "
                             "%k1 = Reshape(%k) {shape=(t, b, 2, 4), has_shape=true} "
                             "%k2 = Transpose(%k1) {perm=[1, 0, 2, 3]} "
                             "%v1 = Reshape(%v) {shape=(t, b, 2, 4), has_shape=true} "
                             "%v2 = Transpose(%v1) {perm=[1, 0, 2, 3]} "
                             "%a = Attention(%q2, %k2, %v2) {scale=0.5} "
                             "%o = Transpose(%a) {perm=[1, 0, 2, 3]} "
                             "%y = Reshape(%o) {shape=(s, b, 8), has_shape=true}")});
}

// grouped_heads takes the repetition of keys and values away, and no answer changes.
void expect_heads_not_repeated(const std::string& text) {
  const auto before = graph_of(text);
  const auto after = before->clone();
  raise_and_clean(*after);
  EXPECT_GT(raise_grouped_heads(*after), 0);
  EXPECT_EQ(count(*after, "Attention"), 1);
  EXPECT_EQ(count(*after, "Expand"), 0) << structure(*after);
  expect_same_results(*before, *after, 1e-12);
}

TEST(Attention, RepeatedKeyHeadsAreNotRepeated) {
  const char* inputs = "%q: f32[b, 4, s, 4], %k: f32[b, 2, s, 4], %v: f32[b, 2, s, 4]";
  const auto text = graph_text(
      inputs,
      "%k5 = Unsqueeze(%k) {axes=[2]} %ke = Expand(%k5) {shape=(b, 2, 2, s, 4), has_shape=true} "
      "%k4 = Reshape(%ke) {shape=(b, 4, s, 4), has_shape=true} %v5 = Unsqueeze(%v) {axes=[2]} "
      "%ve = Expand(%v5) {shape=(b, 2, 2, s, 4), has_shape=true} "
      "%v4 = Reshape(%ve) {shape=(b, 4, s, 4), has_shape=true} "
      "%kt = Transpose(%k4) {perm=[0, 1, 3, 2]} %m = MatMul(%q, %kt) %p = Softmax(%m) {axis=-1} "
      "%y = MatMul(%p, %v4)");
  expect_heads_not_repeated(text);
}

TEST(Attention, TheOnlyKeyHeadIsNotRepeated) {
  const char* inputs = "%q: f32[b, 4, s, 4], %k: f32[b, 1, s, 4], %v: f32[b, 1, s, 4]";
  const auto text = graph_text(
      inputs,
      "%k4 = Expand(%k) {shape=(b, 4, s, 4), has_shape=true} "
      "%v4 = Expand(%v) {shape=(b, 4, s, 4), has_shape=true} "
      "%kt = Transpose(%k4) {perm=[0, 1, 3, 2]} %m = MatMul(%q, %kt) %p = Softmax(%m) {axis=-1} "
      "%y = MatMul(%p, %v4)");
  expect_heads_not_repeated(text);
}

// Keys of one batch for all are no repeated heads.
TEST(Attention, KeysThatAreOneForAllRowsStayExpanded) {
  const char* inputs = "%q: f32[b, 4, s, 4], %k: f32[1, 4, s, 4], %v: f32[b, 4, s, 4]";
  const auto text = graph_text(
      inputs,
      "%k4 = Expand(%k) {shape=(b, 4, s, 4), has_shape=true} "
      "%kt = Transpose(%k4) {perm=[0, 1, 3, 2]} %m = MatMul(%q, %kt) %p = Softmax(%m) {axis=-1} "
      "%y = MatMul(%p, %v)");
  const auto before = graph_of(text);
  const auto after = before->clone();
  raise_and_clean(*after);
  EXPECT_EQ(raise_grouped_heads(*after), 0);
  expect_same_results(*before, *after, 1e-12);
}

TEST(Attention, RotaryTablesBecomeInputs) {
  const char* inputs =
      "%q: f32[b, 2, s, 4], %k: f32[b, 2, s, 4], %v: f32[b, 2, s, 4], %cos: f32[1, 1, s, 4], "
      "%sin: f32[1, 1, s, 4]";
  const auto rotated = [](const std::string& x) {
    return "%" + x + "l = Slice(%" + x + ", i64[1]{0}, i64[1]{2}, i64[1]{3}) %" + x +
           "h = Slice(%" + x + ", i64[1]{2}, i64[1]{9223372036854775807}, i64[1]{3}) %" + x +
           "n = Neg(%" + x + "h) %" + x + "c = Concat(%" + x + "n, %" + x + "l) {axis=-1} %" + x +
           "a = Mul(%" + x + ", %cos) %" + x + "b = Mul(%" + x + "c, %sin) %" + x + "r = Add(%" +
           x + "a, %" + x + "b) ";
  };
  const auto text = graph_text(
      inputs, rotated("q") + rotated("k") +
                  "%kt = Transpose(%kr) {perm=[0, 1, 3, 2]} %m = MatMul(%qr, %kt) "
                  "%s = Mul(%m, f32{0.5}) %p = Softmax(%s) {axis=-1} %y = MatMul(%p, %v)");
  const auto before = graph_of(text);
  const auto after = before->clone();
  raise_and_clean(*after);
  EXPECT_EQ(count(*after, "Attention"), 1);
  EXPECT_EQ(count(*after, "Concat"), 0) << structure(*after);
  expect_same_results(*before, *after, 1e-12);
}

// q and k are one value, rotated; its tables or its operand are not [B, H, S, D].
void expect_no_rotary(const std::string& inputs, const std::string& rotated) {
  const auto before =
      graph_of(graph_text(inputs + ", %v: f32[1, 1, 4, 8]",
                          rotated + "%kt = Transpose(%q) {perm=[0, 1, 3, 2]} %s = MatMul(%q, %kt) "
                                    "%p = Softmax(%s) {axis=-1} %y = MatMul(%p, %v)"));
  const auto after = before->clone();
  raise_and_clean(*after);
  EXPECT_EQ(count(*after, "Attention"), 1);
  EXPECT_EQ(count(*after, "Concat"), 1) << "no operand of the attention";
  expect_same_results(*before, *after, 1e-12);
}

TEST(Attention, AScalarTableIsNoneOfARotation) {
  expect_no_rotary(
      "%t: f32[1, 1, 4, 8], %c: f32[], %a: f32[1, 1, 4, 4], %b: f32[1, 1, 4, 4], "
      "%s0: f32[1, 1, 4, 8]",
      "%plain = Mul(%t, %c) %n = Neg(%a) %h = Concat(%n, %b) {axis=-1} "
      "%turned = Mul(%h, %s0) %q = Add(%plain, %turned) ");
}

TEST(Attention, ARotationThatBroadcastsItsOperandStays) {
  expect_no_rotary("%x: f32[4, 8], %cos: f32[1, 1, 4, 8], %sin: f32[1, 1, 4, 8]",
                   "%low = Slice(%x, i64[1]{0}, i64[1]{4}, i64[1]{1}) "
                   "%high = Slice(%x, i64[1]{4}, i64[1]{8}, i64[1]{1}) %n = Neg(%high) "
                   "%h = Concat(%n, %low) {axis=-1} %plain = Mul(%x, %cos) "
                   "%turned = Mul(%h, %sin) %q = Add(%plain, %turned) ");
}

TEST(Attention, HeadsOfNoWidthAreNotCounted) {
  const auto graph = graph_of(
      "graph g(%x: f32[4, 2, 0], %scores: f32[2, 4, 4]) { "
      "%r = Reshape(%x) {shape=(4, 2, 0), has_shape=true, allowzero=true} "
      "%q = Transpose(%r) {perm=[1, 0, 2]} return %q as \"y\" }");
  AttentionMatch match;
  match.q = graph->outputs[0];
  match.scores = graph->inputs[1];
  const HeadSplit heads = head_split(*graph, match);
  EXPECT_EQ(heads.batch, Dim(2));
  EXPECT_EQ(heads.heads, Dim(1));
}

TEST(Attention, CrossAttentionOfOneQuery) {
  const char* inputs = "%q: f32[b, 1, 2, 4], %k: f32[b, s, 2, 4], %v: f32[b, s, 2, 4]";
  expect_rewrite({&raise_and_clean,
                  graph_text(inputs, std::string(kHeads) + "%s = MatMul(%qh, %kt)" + kOut),
                  graph_text(inputs, "%y = Attention(%q, %k, %v)")});
}

// ---- near misses

class AttentionNearMisses : public ::testing::TestWithParam<Spelling> {};
TEST_P(AttentionNearMisses, Stay) {
  expect_no(&raise_and_clean, "Attention",
            graph_text(kSquare, kHeads + std::string(GetParam().scores)));
}
INSTANTIATE_TEST_SUITE_P(
    All, AttentionNearMisses,
    ::testing::Values(
        Spelling{"softmax_over_queries",
                 "%m = MatMul(%qh, %kt) %p = Softmax(%m) {axis=2} %y = MatMul(%p, %vh)", ""},
        Spelling{"probabilities_are_needed",
                 "%m = MatMul(%qh, %kt) %p = Softmax(%m) {axis=-1} %c = MatMul(%p, %vh) "
                 "%z = ReduceSum(%p) {axes=[3]} %y = Mul(%c, %z)",
                 ""},
        Spelling{"scores_are_needed",
                 "%m = MatMul(%qh, %kt) %p = Softmax(%m) {axis=-1} %c = MatMul(%p, %vh) "
                 "%z = ReduceSum(%m) {axes=[3]} %y = Mul(%c, %z)",
                 ""},
        Spelling{"squared_scores",
                 "%m = MatMul(%qh, %kt) %n = Mul(%m, %m) %p = Softmax(%n) {axis=-1} "
                 "%y = MatMul(%p, %vh)",
                 ""},
        Spelling{"bias_after_a_finite_mask",
                 "%m = MatMul(%qh, %kt) %w = Where(%mask, %m, f32{-5}) "
                 "%t = ReduceMean(%qh) {axes=[3]} %n = Add(%w, %t) "
                 "%p = Softmax(%n) {axis=-1} %y = MatMul(%p, %vh)",
                 ""},
        Spelling{"softmax_in_f64",
                 "%m = MatMul(%qh, %kt) %w = Cast(%m) {to=f64} %p = Softmax(%w) {axis=-1} "
                 "%n = Cast(%p) {to=f32} %y = MatMul(%n, %vh)",
                 ""}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace vernier::passes::testing
