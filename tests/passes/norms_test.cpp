// LayerNorm, RMSNorm and L2Norm in every spelling that exporters write, and what is not one of
// them.
#include <gtest/gtest.h>

#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

constexpr const char* kInputs = "%x: f32[batch, seq, 6], %w: f32[6], %b: f32[6]";
constexpr const char* kMean = "%m = ReduceMean(%x) {axes=[2]} %d = Sub(%x, %m) ";

struct Spelling {
  const char *name, *lines, *after;
};
void PrintTo(const Spelling& s, std::ostream* out) { *out << s.name; }

constexpr const char* kFull = "%y = LayerNorm(%x, %w, %b) {epsilon=0.00009999999747378752}";

class LayerNormSpellings : public ::testing::TestWithParam<Spelling> {};
TEST_P(LayerNormSpellings, BecomeOneNode) {
  expect_rewrite({&raise_layer_norm, graph_text(kInputs, kMean + std::string(GetParam().lines)),
                  graph_text(kInputs, GetParam().after)});
}
INSTANTIATE_TEST_SUITE_P(
    All, LayerNormSpellings,
    ::testing::Values(
        Spelling{"pow_sqrt_div",
                 "%s = Pow(%d, f32{2}) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.0001}) "
                 "%r = Sqrt(%e) %n = Div(%d, %r) %g = Mul(%n, %w) %y = Add(%g, %b)",
                 kFull},
        Spelling{"mul_and_constants_first",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(f32{0.0001}, %v) "
                 "%r = Sqrt(%e) %n = Div(%d, %r) %g = Mul(%w, %n) %y = Add(%b, %g)",
                 kFull},
        Spelling{"a_second_subtraction",
                 "%d2 = Sub(%x, %m) %s = Pow(%d2, f32{2}) %v = ReduceMean(%s) {axes=[2]} "
                 "%e = Add(%v, f32{0.0001}) %r = Sqrt(%e) %n = Div(%d, %r) %g = Mul(%n, %w) "
                 "%y = Add(%g, %b)",
                 kFull},
        Spelling{"reciprocal",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.0001}) "
                 "%r = Sqrt(%e) %i = Reciprocal(%r) %n = Mul(%d, %i) %g = Mul(%n, %w) "
                 "%y = Add(%g, %b)",
                 kFull},
        Spelling{"one_over",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.0001}) "
                 "%r = Sqrt(%e) %i = Div(f32{1}, %r) %n = Mul(%i, %d) %g = Mul(%n, %w) "
                 "%y = Add(%g, %b)",
                 kFull},
        Spelling{"power_of_minus_half",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.0001}) "
                 "%i = Pow(%e, f32{-0.5}) %n = Mul(%d, %i) %g = Mul(%n, %w) %y = Add(%g, %b)",
                 kFull},
        Spelling{"power_of_half",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.0001}) "
                 "%r = Pow(%e, f32{0.5}) %n = Div(%d, %r) %g = Mul(%n, %w) %y = Add(%g, %b)",
                 kFull},
        Spelling{"tensorflow",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.0001}) "
                 "%r = Sqrt(%e) %i = Reciprocal(%r) %g = Mul(%i, %w) %h = Mul(%x, %g) "
                 "%k = Mul(%m, %g) %t = Sub(%b, %k) %y = Add(%h, %t)",
                 kFull},
        Spelling{"tensorflow_with_a_wide_variance",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %u = Cast(%v) {to=f64} "
                 "%e = Add(%u, f64{0.5}) %r = Sqrt(%e) %j = Reciprocal(%r) "
                 "%i = Cast(%j) {to=f32} %g = Mul(%i, %w) %h = Mul(%x, %g) "
                 "%k = Mul(%m, %g) %t = Sub(%b, %k) %y = Add(%h, %t)",
                 "%y = LayerNorm(%x, %w, %b) {epsilon=0.5}"},
        Spelling{"without_epsilon",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %r = Sqrt(%v) "
                 "%n = Div(%d, %r) %g = Mul(%n, %w) %y = Add(%g, %b)",
                 "%y = LayerNorm(%x, %w, %b) {epsilon=0}"},
        Spelling{"without_bias",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.0001}) "
                 "%r = Sqrt(%e) %n = Div(%d, %r) %y = Mul(%n, %w)",
                 "%y = LayerNorm(%x, %w) {epsilon=0.00009999999747378752}"},
        Spelling{"without_scale_and_bias",
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.0001}) "
                 "%r = Sqrt(%e) %y = Div(%d, %r)",
                 "%1 = Expand(f32{1}) {shape=(6), has_shape=true} "
                 "%y = LayerNorm(%x, %1) {epsilon=0.00009999999747378752}"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(LayerNorm, OverTwoAxes) {
  const char* inputs = "%x: f32[batch, 4, 6], %w: f32[4, 6], %b: f32[4, 6]";
  expect_rewrite(
      {&raise_layer_norm,
       graph_text(inputs,
                  "%m = ReduceMean(%x) {axes=[1, 2]} %d = Sub(%x, %m) %s = Mul(%d, %d) "
                  "%v = ReduceMean(%s) {axes=[-2, -1]} %e = Add(%v, f32{0.5}) %r = Sqrt(%e) "
                  "%n = Div(%d, %r) %g = Mul(%n, %w) %y = Add(%g, %b)"),
       graph_text(inputs, "%y = LayerNorm(%x, %w, %b) {axis=-2, epsilon=0.5}")});
}

TEST(LayerNorm, A16BitIslandKeepsTheWideTypeAsARequest) {
  const char* text =
      "graph g(%x: f16[batch, 6], %w: f16[6]) { %m = ReduceMean(%x) {axes=[1]} %d = Sub(%x, %m) "
      "%f = Cast(%d) {to=f32} %s = Pow(%f, f32{2}) %v = ReduceMean(%s) {axes=[1]} "
      "%e = Add(%v, f32{0.5}) %r = Sqrt(%e) %n = Div(%f, %r) %h = Cast(%n) {to=f16} "
      "%y = Mul(%h, %w) return %y as \"y\" }";
  const auto graph = graph_of(text);
  EXPECT_EQ(raise_layer_norm(*graph), 1);
  graph->remove_dead();
  ASSERT_EQ(count(*graph, "LayerNorm"), 1) << structure(*graph);
  EXPECT_EQ(count(*graph, "ReduceMean"), 0);
  expect_same_results(*graph_of(text), *graph, 1e-12);
}

struct NearMiss {
  const char *name, *lines;
};
void PrintTo(const NearMiss& s, std::ostream* out) { *out << s.name; }
class LayerNormNearMisses : public ::testing::TestWithParam<NearMiss> {};
TEST_P(LayerNormNearMisses, Stay) {
  expect_no(&raise_layer_norm, "LayerNorm", graph_text(kInputs, GetParam().lines));
}
INSTANTIATE_TEST_SUITE_P(
    All, LayerNormNearMisses,
    ::testing::Values(
        NearMiss{"mean_over_another_axis",
                 "%m = ReduceMean(%x) {axes=[1]} %d = Sub(%x, %m) %s = Mul(%d, %d) "
                 "%v = ReduceMean(%s) {axes=[1]} %e = Add(%v, f32{0.5}) %r = Sqrt(%e) "
                 "%y = Div(%d, %r)"},
        NearMiss{"variance_over_another_axis",
                 "%m = ReduceMean(%x) {axes=[2]} %d = Sub(%x, %m) %s = Mul(%d, %d) "
                 "%v = ReduceMean(%s) {axes=[1]} %e = Add(%v, f32{0.5}) %r = Sqrt(%e) "
                 "%y = Div(%d, %r)"},
        NearMiss{"cubed",
                 "%m = ReduceMean(%x) {axes=[2]} %d = Sub(%x, %m) %s = Pow(%d, f32{4}) "
                 "%v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.5}) %r = Sqrt(%e) "
                 "%y = Div(%d, %r)"},
        NearMiss{"mean_of_something_else",
                 "%o = Add(%x, f32{1}) %m = ReduceMean(%o) {axes=[2]} %d = Sub(%x, %m) "
                 "%s = Mul(%d, %d) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.5}) "
                 "%r = Sqrt(%e) %y = Div(%d, %r)"},
        NearMiss{"tensorflow_with_another_mean",
                 "%m = ReduceMean(%x) {axes=[2]} %d = Sub(%x, %m) %s = Mul(%d, %d) "
                 "%v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.5}) %r = Sqrt(%e) "
                 "%i = Reciprocal(%r) %g = Mul(%i, %w) %h = Mul(%x, %g) "
                 "%o = ReduceMax(%x) {axes=[2]} %k = Mul(%o, %g) %t = Sub(%b, %k) "
                 "%y = Add(%h, %t)"},
        NearMiss{"sum_of_squares",
                 "%m = ReduceMean(%x) {axes=[2]} %d = Sub(%x, %m) %s = Mul(%d, %d) "
                 "%v = ReduceSum(%s) {axes=[2]} %e = Add(%v, f32{0.5}) %r = Sqrt(%e) "
                 "%y = Div(%d, %r)"}),
    [](const auto& test) { return std::string(test.param.name); });

class RmsNormSpellings : public ::testing::TestWithParam<Spelling> {};
TEST_P(RmsNormSpellings, BecomeOneNode) {
  expect_rewrite({&raise_rms_norm, graph_text(kInputs, GetParam().lines),
                  graph_text(kInputs, GetParam().after)});
}
INSTANTIATE_TEST_SUITE_P(
    All, RmsNormSpellings,
    ::testing::Values(
        Spelling{"reciprocal",
                 "%s = Pow(%x, f32{2}) %v = ReduceMean(%s) {axes=[-1]} %e = Add(%v, f32{0.5}) "
                 "%r = Sqrt(%e) %i = Reciprocal(%r) %n = Mul(%x, %i) %y = Mul(%w, %n)",
                 "%y = RMSNorm(%x, %w) {epsilon=0.5}"},
        Spelling{"divided",
                 "%s = Mul(%x, %x) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.5}) "
                 "%r = Sqrt(%e) %n = Div(%x, %r) %y = Mul(%n, %w)",
                 "%y = RMSNorm(%x, %w) {epsilon=0.5}"},
        Spelling{"one_over",
                 "%s = Mul(%x, %x) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.5}) "
                 "%r = Sqrt(%e) %i = Div(f32{1}, %r) %n = Mul(%i, %x) %y = Mul(%n, %w)",
                 "%y = RMSNorm(%x, %w) {epsilon=0.5}"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(RmsNorm, AnotherFactorStays) {
  expect_no(&raise_rms_norm, "RMSNorm",
            graph_text(kInputs,
                       "%s = Mul(%x, %x) %v = ReduceMean(%s) {axes=[2]} %e = Add(%v, f32{0.5}) "
                       "%r = Sqrt(%e) %o = Add(%x, f32{1}) %y = Div(%o, %r)"));
}

TEST(RmsNorm, AMeanOfAHigherRankThanItsOperandStays) {
  expect_no(&raise_rms_norm, "RMSNorm",
            graph_text(kInputs,
                       "%s = Pow(%x, f32[1, 1, 1, 1, 1]{2}) %v = ReduceMean(%s) {axes=[4]} "
                       "%e = Add(%v, f32{0.5}) %r = Sqrt(%e) %y = Div(%x, %r)"));
}

TEST(RmsNorm, AResultOfAHigherRankThanItsOperandStays) {
  expect_no(&raise_rms_norm, "RMSNorm",
            graph_text(kInputs,
                       "%s = Mul(%x, %x) %v = ReduceMean(%s) {axes=[2]} "
                       "%e = Add(%v, f32[1, 1, 1, 1]{0.5}) %r = Sqrt(%e) %y = Div(%x, %r)"));
}

// ---- L2Norm

int raise_clean_l2_norm(ir::Graph& graph) {
  canonicalise(graph);
  const int found = raise_l2_norm(graph);
  graph.remove_dead();
  graph.sort();
  return found + canonicalise(graph);
}

class L2NormSpellings : public ::testing::TestWithParam<Spelling> {};
TEST_P(L2NormSpellings, BecomeOneNode) {
  expect_rewrite({&raise_clean_l2_norm, graph_text(kInputs, GetParam().lines),
                  graph_text(kInputs, GetParam().after)});
}
constexpr const char* kUnit = "%y = L2Norm(%x) {minimum=0.5}";
INSTANTIATE_TEST_SUITE_P(
    All, L2NormSpellings,
    ::testing::Values(
        Spelling{"of_torch",
                 "%n = ReduceL2(%x) {axes=[-1]} %c = Clip(%n, f32{0.5}) %z = Shape(%x) "
                 "%e = Expand(%c, %z) %y = Div(%x, %e)",
                 kUnit},
        Spelling{"without_expand",
                 "%n = ReduceL2(%x) {axes=[2]} %c = Clip(%n, f32{0.5}) %y = Div(%x, %c)", kUnit},
        Spelling{"axes_as_an_input",
                 "%n = ReduceL2(%x, i64[1]{-1}) %c = Clip(%n, f32{0.5}) %y = Div(%x, %c)", kUnit},
        Spelling{"max", "%n = ReduceL2(%x) {axes=[2]} %c = Max(%n, f32{0.5}) %y = Div(%x, %c)",
                 kUnit},
        Spelling{"sum_square",
                 "%s = ReduceSumSquare(%x) {axes=[2]} %n = Sqrt(%s) %c = Clip(%n, f32{0.5}) "
                 "%y = Div(%x, %c)",
                 kUnit},
        Spelling{"sum_of_products",
                 "%q = Mul(%x, %x) %s = ReduceSum(%q) {axes=[2]} %n = Sqrt(%s) "
                 "%c = Max(%n, f32{0.5}) %y = Div(%x, %c)",
                 kUnit},
        Spelling{"powers",
                 "%q = Pow(%x, f32{2}) %s = ReduceSum(%q) {axes=[2]} %n = Pow(%s, f32{0.5}) "
                 "%c = Clip(%n, f32{0.5}) %y = Div(%x, %c)",
                 kUnit}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(L2Norm, StatisticsInAWiderType) {
  const char* inputs = "%x: f16[batch, 6]";
  expect_rewrite({&raise_clean_l2_norm,
                  graph_text(inputs,
                             "%f = Cast(%x) {to=f32} %n = ReduceL2(%f) {axes=[1]} "
                             "%c = Clip(%n, f32{0.5}) %h = Cast(%c) {to=f16} %y = Div(%x, %h)"),
                  graph_text(inputs, kUnit)});
}

class L2NormNearMisses : public ::testing::TestWithParam<NearMiss> {};
TEST_P(L2NormNearMisses, Stay) {
  expect_no(&raise_clean_l2_norm, "L2Norm",
            graph_text("%x: f32[batch, seq, 6], %m: f32[1], %t: f32[4, 4], %i: i64[batch, 6]",
                       GetParam().lines));
}
INSTANTIATE_TEST_SUITE_P(
    All, L2NormNearMisses,
    ::testing::Values(
        NearMiss{"another_axis",
                 "%n = ReduceL2(%x) {axes=[1]} %c = Clip(%n, f32{0.5}) %y = Div(%x, %c)"},
        NearMiss{"two_axes",
                 "%n = ReduceL2(%x) {axes=[1, 2]} %c = Clip(%n, f32{0.5}) %y = Div(%x, %c)"},
        NearMiss{"keepdims_is_false",
                 "%n = ReduceL2(%t) {axes=[1], keepdims=false} %c = Clip(%n, f32{0.5}) "
                 "%y = Div(%t, %c)"},
        NearMiss{"the_divisor_is_read_elsewhere",
                 "%n = ReduceL2(%x) {axes=[2]} %c = Clip(%n, f32{0.5}) %d = Div(%x, %c) "
                 "%y = Mul(%d, %c)"},
        NearMiss{"the_norm_is_read_elsewhere",
                 "%n = ReduceL2(%x) {axes=[2]} %c = Clip(%n, f32{0.5}) %d = Div(%x, %c) "
                 "%y = Mul(%d, %n)"},
        NearMiss{"the_squares_are_read_elsewhere",
                 "%q = Mul(%x, %x) %s = ReduceSum(%q) {axes=[2]} %n = Sqrt(%s) "
                 "%c = Clip(%n, f32{0.5}) %d = Div(%x, %c) %y = Add(%d, %q)"},
        NearMiss{"the_minimum_is_0",
                 "%n = ReduceL2(%x) {axes=[2]} %c = Clip(%n, f32{0}) %y = Div(%x, %c)"},
        NearMiss{"the_minimum_is_an_input",
                 "%n = ReduceL2(%x) {axes=[2]} %c = Max(%n, %m) %y = Div(%x, %c)"},
        NearMiss{"a_maximum",
                 "%n = ReduceL2(%x) {axes=[2]} %c = Clip(%n, f32{0.5}, f32{2}) %y = Div(%x, %c)"},
        NearMiss{"no_minimum", "%n = ReduceL2(%x) {axes=[2]} %y = Div(%x, %n)"},
        NearMiss{"another_dividend",
                 "%n = ReduceL2(%x) {axes=[2]} %c = Clip(%n, f32{0.5}) %o = Add(%x, f32{1}) "
                 "%y = Div(%o, %c)"},
        NearMiss{"the_mean_square",
                 "%q = Mul(%x, %x) %s = ReduceMean(%q) {axes=[2]} %n = Sqrt(%s) "
                 "%c = Clip(%n, f32{0.5}) %y = Div(%x, %c)"},
        NearMiss{"another_axis_in_front",
                 "%n = ReduceL2(%x) {axes=[2]} %c = Max(%n, f32[1, 1, 1, 1]{0.5}) "
                 "%y = Div(%x, %c)"},
        NearMiss{"integers",
                 "%n = ReduceL2(%i) {axes=[1]} %c = Clip(%n, i64{1}) %y = Div(%i, %c)"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace vernier::passes::testing
