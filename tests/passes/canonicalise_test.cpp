// One meaning, one form: shape chains die, views merge, masks stay small.
#include "passes/canonicalise.h"

#include <gtest/gtest.h>

#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

constexpr const char* kInputs =
    "%x: f32[b, s, 6], %z: f32[b, s, 6], %m: bool[b, s], %n: i64[b, s], %k: i64[b, 1, 1, s], "
    "%big: f32[b, 2, s, s]";

struct Case {
  const char *name, *before, *after;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Canonicalise : public ::testing::TestWithParam<Case> {};
TEST_P(Canonicalise, GivesOneForm) {
  expect_rewrite({&canonicalise, graph_text(kInputs, GetParam().before),
                  graph_text(kInputs, GetParam().after)});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Canonicalise,
    ::testing::Values(
        Case{"shape_chain",
             "%t = Shape(%x) %b0 = Gather(%t, i64{0}) %s0 = Gather(%t, i64{1}) "
             "%b1 = Unsqueeze(%b0) {axes=[0]} %s1 = Unsqueeze(%s0, i64[1]{0}) "
             "%c = Concat(%b1, %s1, i64[1]{-1}, i64[1]{2}) %y = Reshape(%x, %c)",
             "%y = Reshape(%x) {shape=(b, s, 3, 2), has_shape=true}"},
        Case{"squeeze_unsqueeze_flatten",
             "%1 = Unsqueeze(%x) {axes=[1]} %2 = Squeeze(%1) {axes=[1]} %y = Flatten(%2) {axis=2}",
             "%y = Reshape(%x) {shape=(b*s, 6), has_shape=true}"},
        Case{"expand_by_equal_and_where",
             // Expand to [b, -1 → s, …] as the TorchScript exporter writes it.
             "%t = Shape(%x) %e = ConstantOfShape(i64[1]{3}) {dtype=i64, value=1} "
             "%f = Mul(%e, i64{-1}) %q = Equal(%t, %f) %w = Where(%q, %e, %t) "
             "%r = Reshape(%n) {shape=(b, s, 1), has_shape=true} %g = Cast(%r) "
             "%h = Expand(%g, %w) %y = Concat(%h, %x) {axis=2}",
             "%r = Reshape(%n) {shape=(b, s, 1), has_shape=true} %g = Cast(%r) "
             "%h = Expand(%g) {shape=(b, s, 6), has_shape=true} %y = Concat(%h, %x) {axis=2}"},
        Case{"sizes_of_data_keep_the_node_that_makes_them",
             "%f = NonZero(%m) %t = Shape(%f) %c = ConstantOfShape(%t) {dtype=f32, value=0.5} "
             "%g = Cast(%f) {to=f32} %y = Add(%g, %c)",
             "%f = NonZero(%m) %t = Shape(%f) %c = ConstantOfShape(%t) {dtype=f32, value=0.5} "
             "%g = Cast(%f) {to=f32} %y = Add(%g, %c)"},
        Case{"a_shape_of_data_stays",
             "%l = ReduceMax(%n) {axes=[0, 1], keepdims=false} "
             "%u = Reshape(%l) {shape=(1), has_shape=true} %w = Concat(%u, i64[1]{6}) {axis=0} "
             "%e = Expand(f32{1}, %w) %y = Mul(%e, f32[6]{1, 2, 3, 4, 5, 6})",
             "%l = ReduceMax(%n) {axes=[0, 1], keepdims=false} "
             "%u = Reshape(%l) {shape=(1), has_shape=true} %w = Concat(%u, i64[1]{6}) {axis=0} "
             "%e = Expand(f32{1}, %w) %y = Mul(%e, f32[6]{1, 2, 3, 4, 5, 6})"},
        Case{"slice_with_inputs",
             "%y = Slice(%x, i64[1]{-4}, i64[1]{9223372036854775807}, i64[1]{-1}, i64[1]{2})",
             "%y = Slice(%x) {inline_starts=true, starts=[2], axes=[2], steps=[2], sizes=(2)}"},
        Case{"slice_of_a_slice",
             "%1 = Slice(%x, i64[1]{1}, i64[1]{5}, i64[1]{2}) "
             "%y = Slice(%1, i64[1]{1}, i64[1]{3}, i64[1]{2})",
             "%y = Slice(%x) {inline_starts=true, starts=[2], axes=[2], steps=[1], sizes=(2)}"},
        Case{"first_token", "%y = Gather(%x, i64{0}) {axis=1}",
             "%1 = Slice(%x) {inline_starts=true, starts=[0], axes=[1], steps=[1], sizes=(1)} "
             "%y = Reshape(%1) {shape=(b, 6), has_shape=true}"},
        Case{"negative_index_of_a_known_axis", "%y = Gather(%x, i64[1]{-1}) {axis=2}",
             "%y = Slice(%x) {inline_starts=true, starts=[5], axes=[2], steps=[1], sizes=(1)}"},
        Case{"last_token_of_an_unknown_length_stays", "%y = Gather(%x, i64{-1}) {axis=1}",
             "%y = Gather(%x, i64{-1}) {axis=1}"},
        Case{"reduce_axes_as_input", "%y = ReduceSum(%x, i64[2]{-1, 1})",
             "%y = ReduceSum(%x) {axes=[1, 2]}"},
        Case{"sizes_as_data",
             "%t = Shape(%x) %c = Cast(%t) {to=f32} %r = ReduceSum(%c) {axes=[0]} "
             "%y = Mul(%x, %r)",
             "%t = ShapeValues() {values=(b, s, 6)} %c = Cast(%t) "
             "%r = ReduceSum(%c) {axes=[0]} %y = Mul(%x, %r)"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Views, Canonicalise,
    ::testing::Values(
        Case{"transposes_merge",
             "%1 = Transpose(%x) {perm=[1, 2, 0]} %y = Transpose(%1) {perm=[1, 0, 2]}",
             "%y = Transpose(%x) {perm=[2, 1, 0]}"},
        Case{"transposes_cancel",
             "%1 = Transpose(%x) {perm=[1, 2, 0]} %2 = Transpose(%1) {perm=[2, 0, 1]} "
             "%y = Abs(%2)",
             "%y = Abs(%x)"},
        Case{"reshapes_merge",
             "%1 = Reshape(%x) {shape=(b*s, 6), has_shape=true} "
             "%y = Reshape(%1) {shape=(b*s, 2, 3), has_shape=true}",
             "%y = Reshape(%x) {shape=(b*s, 2, 3), has_shape=true}"},
        Case{"unit_axes_move_by_reshape",
             "%1 = Unsqueeze(%x) {axes=[1]} %y = Transpose(%1) {perm=[0, 2, 1, 3]}",
             "%y = Reshape(%x) {shape=(b, s, 1, 6), has_shape=true}"},
        Case{"split_goes_above_the_transpose",
             "%1 = Transpose(%x) {perm=[2, 0, 1]} "
             "%y = Reshape(%1) {shape=(2, 3, b, s), has_shape=true}",
             "%1 = Reshape(%x) {shape=(b, s, 2, 3), has_shape=true} "
             "%y = Transpose(%1) {perm=[2, 3, 0, 1]}"},
        Case{"merge_goes_below_the_transpose",
             "%1 = Reshape(%x) {shape=(b*s, 6), has_shape=true} %y = Transpose(%1) {perm=[1, 0]}",
             "%1 = Transpose(%x) {perm=[2, 0, 1]} "
             "%y = Reshape(%1) {shape=(6, b*s), has_shape=true}"},
        Case{"packed_projection_is_split_where_it_is_made",
             // Unsqueeze, transpose and index, as nn.MultiheadAttention unpacks q, k and v.
             "%1 = Reshape(%x) {shape=(b, s, 3, 2), has_shape=true} "
             "%2 = Unsqueeze(%1) {axes=[0]} %3 = Transpose(%2) {perm=[3, 1, 2, 0, 4]} "
             "%4 = Squeeze(%3) {axes=[3]} %q = Gather(%4, i64{0}) %l = Gather(%4, i64{1}) "
             "%v = Gather(%4, i64{2}) %a = Mul(%q, %l) %y = Sub(%a, %v)",
             "%q, %l, %v = Split(%x) {axis=2, sizes=[2, 2, 2]} %a = Mul(%q, %l) "
             "%y = Sub(%a, %v)"},
        Case{"scalar_goes_below_the_transpose",
             "%1 = Mul(%x, f32[1]{0.25}) %y = Transpose(%1) {perm=[1, 0, 2]}",
             "%1 = Transpose(%x) {perm=[1, 0, 2]} %y = Mul(%1, f32{0.25})"},
        Case{"shared_scalar_product_stays",
             "%1 = Mul(%x, f32{0.25}) %2 = Transpose(%1) {perm=[1, 0, 2]} "
             "%3 = ReduceSum(%1) {axes=[0, 1, 2], keepdims=false} %y = Mul(%2, %3)",
             "%1 = Mul(%x, f32{0.25}) %2 = Transpose(%1) {perm=[1, 0, 2]} "
             "%3 = ReduceSum(%1) {axes=[0, 1, 2], keepdims=false} %y = Mul(%2, %3)"},
        Case{"batched_products_keep_their_heads",
             "%1 = Reshape(%big) {shape=(2*b, s, s), has_shape=true} %2 = Softmax(%1) {axis=-1} "
             "%3 = MatMul(%2, %1) %y = Reshape(%3) {shape=(b, 2, s, s), has_shape=true}",
             "%1 = Softmax(%big) {axis=-1} %y = MatMul(%1, %big)"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Arithmetic, Canonicalise,
    ::testing::Values(
        Case{"neutral_elements",
             "%1 = Mul(f32{1}, %x) %2 = Add(%1, f32[6]{0, 0, 0, 0, 0, 0}) %3 = Div(%2, f32{1}) "
             "%4 = Sub(%3, f32{0}) %y = Abs(%4)",
             "%y = Abs(%x)"},
        Case{"neutral_but_wider_stays_wide",
             "%1 = Add(%n, i64[2, 1, 1]{0, 0}) %y = Concat(%1, %1) {axis=0}",
             "%1 = Expand(%n) {shape=(2, b, s), has_shape=true} %y = Concat(%1, %1) {axis=0}"},
        Case{"square", "%y = Pow(%x, f32{2})", "%y = Mul(%x, %x)"},
        Case{"exact_division", "%y = Div(%x, f32{8})", "%y = Mul(%x, f32{0.125})"},
        Case{"inexact_division_stays", "%y = Div(%x, f32{3})", "%y = Div(%x, f32{3})"},
        Case{"exact_factors_merge", "%1 = Mul(%x, f32{0.5}) %y = Mul(%1, f32{3})",
             "%y = Mul(%x, f32{1.5})"},
        Case{"inexact_factors_stay", "%1 = Mul(%x, f32{0.1}) %y = Mul(%1, f32{0.3})",
             "%1 = Mul(%x, f32{0.1}) %y = Mul(%1, f32{0.3})"},
        Case{"twice_negated", "%1 = Not(%m) %2 = Not(%1) %y = Where(%2, f32{1}, f32{2})",
             "%y = Where(%m, f32{1}, f32{2})"},
        Case{"negated_condition", "%1 = Not(%m) %y = Where(%1, f32{1}, f32{2})",
             "%y = Where(%m, f32{2}, f32{1})"},
        Case{"casts_of_flags",
             "%1 = Cast(%m) {to=i32} %2 = Cast(%1) {to=i64} %3 = Cast(%2) {to=bool} "
             "%y = Where(%3, f32{1}, f32{2})",
             "%y = Where(%m, f32{1}, f32{2})"},
        Case{"float_cast_pairs_stay", "%1 = Cast(%x) {to=f16} %y = Cast(%1) {to=f32}",
             "%1 = Cast(%x) {to=f16} %y = Cast(%1) {to=f32}"},
        Case{"known_condition", "%1 = Where(bool{true}, %x, %z) %y = Abs(%1)", "%y = Abs(%x)"},
        Case{"duplicates_merge", "%1 = Exp(%x) %2 = Exp(%x) %3 = Mul(%1, %z) %y = Sub(%3, %2)",
             "%1 = Exp(%x) %3 = Mul(%1, %z) %y = Sub(%3, %1)"}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Masks, Canonicalise,
    ::testing::Values(
        Case{"expand_before_a_broadcast",
             "%1 = Expand(%k) {shape=(b, 2, s, s), has_shape=true} %2 = Cast(%1) "
             "%3 = Sub(f32{1}, %2) %4 = Mul(%3, f32{-10000}) %y = Add(%big, %4)",
             "%2 = Cast(%k) %3 = Sub(f32{1}, %2) %4 = Mul(%3, f32{-10000}) %y = Add(%big, %4)"},
        Case{"all_true_comparison",
             // Range >= 0, And with the mask, expanded to every query, then Where.
             "%t = Shape(%n) %l = Gather(%t, i64{1}) %r = Range(i64{0}, %l, i64{1}) "
             "%q = Reshape(%r) {shape=(1, 1, s, 1), has_shape=true} "
             "%g = GreaterOrEqual(%q, i64{0}) %u = Reshape(%m) {shape=(b, 1, 1, s), "
             "has_shape=true} %a = And(%g, %u) %e = Expand(%a) {shape=(b, 1, s, s), "
             "has_shape=true} %w = Where(%e, f32{0}, f32{-inf}) %y = Add(%big, %w)",
             "%u = Reshape(%m) {shape=(b, 1, 1, s), has_shape=true} "
             "%w = Where(%u, f32{0}, f32{-inf}) %y = Add(%big, %w)"},
        Case{"gather_by_position",
             // Flatten(mask)[b·S + s], as the TorchScript exporter writes mask[b, s].
             "%t = Shape(%m) %b0 = Gather(%t, i64{0}) %s0 = Gather(%t, i64{1}) "
             "%rb = Range(i64{0}, %b0, i64{1}) %rs = Range(i64{0}, %s0, i64{1}) "
             "%ib = Reshape(%rb) {shape=(b, 1, 1, 1), has_shape=true} "
             "%is = Reshape(%rs) {shape=(1, 1, 1, s), has_shape=true} %w = Mul(%ib, %s0) "
             "%i = Add(%is, %w) %f = Flatten(%m) {axis=2} %g = Gather(%f, %i) "
             "%h = Reshape(%g) {shape=(b, 1, 1, s), has_shape=true} "
             "%y = Where(%h, %big, f32{-5})",
             "%h = Reshape(%m) {shape=(b, 1, 1, s), has_shape=true} "
             "%y = Where(%h, %big, f32{-5})"},
        Case{"gather_nd_by_position",
             "%t = Shape(%m) %b0 = Gather(%t, i64{0}) %s0 = Gather(%t, i64{1}) "
             "%rb = Range(i64{0}, %b0, i64{1}) %rs = Range(i64{0}, %s0, i64{1}) "
             "%ib = Reshape(%rb) {shape=(b, 1, 1, 1, 1), has_shape=true} "
             "%is = Reshape(%rs) {shape=(1, 1, 1, s, 1), has_shape=true} "
             "%eb = Expand(%ib) {shape=(b, 1, 1, s, 1), has_shape=true} "
             "%es = Expand(%is) {shape=(b, 1, 1, s, 1), has_shape=true} "
             "%i = Concat(%eb, %es) {axis=-1} %g = GatherND(%m, %i) "
             "%y = Where(%g, %big, f32{-5})",
             "%h = Reshape(%m) {shape=(b, 1, 1, s), has_shape=true} "
             "%y = Where(%h, %big, f32{-5})"},
        Case{"gather_by_shifted_position_stays",
             "%t = Shape(%m) %s0 = Gather(%t, i64{1}) %rs = Range(i64{0}, %s0, i64{1}) "
             "%i = Sub(%rs, i64{1}) %g = Gather(%x, %i) {axis=1} %y = Abs(%g)",
             "%t = ShapeValues() {values=(s), scalar=true} %rs = Range(i64{0}, %t, i64{1}) "
             "%i = Sub(%rs, i64{1}) %g = Gather(%x, %i) {axis=1} %y = Abs(%g)"},
        Case{"lookup_of_expanded_ids",
             "%t = const f32[3, 6]{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 6, 5, 4, 3, 2, 1} "
             "%i = Expand(i64[1, 1]{2}) {shape=(b, s), has_shape=true} %g = Gather(%t, %i) "
             "%y = Add(%x, %g)",
             "%y = Add(%x, f32[1, 1, 6]{6, 5, 4, 3, 2, 1})"},
        Case{"inverted_number_mask",
             "%f = Cast(%k) %o = Sub(f32{1}, %f) %h = Cast(%o) {to=bool} "
             "%w = Where(%h, f32{-3.4028235e+38}, %o) %y = Add(%big, %w)",
             "%e = Equal(%k, i64{1}) %w = Where(%e, f32{0}, f32{-3.4028235e+38}) "
             "%y = Add(%big, %w)"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Canonicalise, TwoNamesOfOneSizeAreUnified) {
  // The dynamo exporter names the batch of each input anew.
  const auto before = graph_of(
      "graph g(%ids: i64[s33, s50], %m: bool[s6, s50]) { %t = Shape(%ids) "
      "%b0 = Gather(%t, i64{0}) %s0 = Gather(%t, i64{1}) %rb = Range(i64{0}, %b0, i64{1}) "
      "%rs = Range(i64{0}, %s0, i64{1}) %ib = Reshape(%rb) {shape=(s33, 1, 1), has_shape=true} "
      "%is = Reshape(%rs) {shape=(1, s50, 1), has_shape=true} "
      "%eb = Expand(%ib) {shape=(s33, s50, 1), has_shape=true} "
      "%es = Expand(%is) {shape=(s33, s50, 1), has_shape=true} %i = Concat(%eb, %es) {axis=-1} "
      "%g = GatherND(%m, %i) %f = Cast(%g) {to=i64} %y = Add(%f, %ids) return %y as \"y\" }");
  canonicalise(*before);
  EXPECT_EQ(count(*before, "GatherND"), 0) << structure(*before);
  EXPECT_EQ(str(before->value(before->inputs[1]).shape), "[s33, s50]");
  EXPECT_EQ(before->symbol_substitutions.at("s6").str(), "s33");
}

// ---- shapes at the edge: rules look at axes that may not be there, or hold nothing

TEST(Canonicalise, ASoftmaxOfAScalarBehindAViewStays) {
  expect_no(&canonicalise, "Squeeze",
            graph_text("%x: f32[1]", "%1 = Squeeze(%x) {axes=[0]} %y = Softmax(%1) {axis=-1}"));
}

TEST(Canonicalise, AnEmptyAxisHasNoPositionToStartAt) {
  const auto graph = graph_of(graph_text(
      "%x: f32[0]",
      "%y = Slice(%x, i64[1]{-1}, i64[1]{-9223372036854775807}, i64[1]{0}, i64[1]{-1})"));
  canonicalise(*graph);
  EXPECT_EQ(count(*graph, "Slice"), 1) << structure(*graph);
}

TEST(Canonicalise, AReshapeOfNothingHasNoGroupsOfAxes) {
  const auto graph =
      graph_of(graph_text("%x: f32[4, 0]",
                          "%1 = Transpose(%x) {perm=[1, 0]} "
                          "%y = Reshape(%1) {shape=(4, 0), has_shape=true, allowzero=true}"));
  canonicalise(*graph);
  EXPECT_EQ(str(graph->value(graph->outputs[0]).shape), "[4, 0]");
  EXPECT_TRUE(reshape_groups({0, 4}, {4, 0}).empty());
  EXPECT_EQ(reshape_groups({6, 4}, {2, 3, 4}).size(), 2U);
}

TEST(Canonicalise, SlicesWhoseStepsMultiplyPastTheLargestStepStayTwo) {
  const std::string slice = ", i64[1]{0}, i64[1]{9223372036854775807}, i64[1]{0}, i64[1]{1048576})";
  const auto text = graph_text("%x: f32[n]", "%1 = Slice(%x" + slice + " %y = Slice(%1" + slice);
  const auto before = graph_of(text), after = graph_of(text);
  canonicalise(*after);
  EXPECT_EQ(count(*after, "Slice"), 2) << structure(*after);
  expect_same_results(*before, *after, 0);
}

TEST(Canonicalise, AScalarJoinedIntoAnIndexIsNoComponentOfIt) {
  const auto text = graph_text("%x: f32[n], %m: f32[m]",
                               "%t = Shape(%x) %s = Gather(%t, i64{0}) %c = Cast(%s) {to=u32} "
                               "%i = Concat(%c) {axis=0} %y = GatherND(%m, %i)");
  const auto before = graph_of(text), after = graph_of(text);
  canonicalise(*after);
  EXPECT_EQ(count(*after, "GatherND"), 1) << structure(*after);
  expect_same_results(*before, *after, 0, {{"n", 3}, {"m", 5}});
}

TEST(Canonicalise, IsStable) {
  const auto graph = graph_of(graph_text(
      kInputs,
      "%1 = Reshape(%x) {shape=(b*s, 6), has_shape=true} %2 = Transpose(%1) {perm=[1, 0]} "
      "%y = Reshape(%2) {shape=(2, 3, b*s), has_shape=true}"));
  canonicalise(*graph);
  EXPECT_EQ(canonicalise(*graph), 0) << structure(*graph);
}

}  // namespace
}  // namespace vernier::passes::testing
