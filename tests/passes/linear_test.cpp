// Linear from MatMul and Gemm, with its bias, and without the reshapes that Gemm needs.
#include <gtest/gtest.h>

#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

constexpr const char* kInputs =
    "%x: f32[b, s, 4], %w: f32[4, 3], %wt: f32[3, 4], %c: f32[3], %row: f32[1, 3], %m: f32[n, 4], "
    "%full: f32[n, 3]";

struct Spelling {
  const char *name, *before, *after;
};
void PrintTo(const Spelling& s, std::ostream* out) { *out << s.name; }

class LinearSpellings : public ::testing::TestWithParam<Spelling> {};
TEST_P(LinearSpellings, BecomeLinear) {
  expect_rewrite({&raise_linear, graph_text(kInputs, GetParam().before),
                  graph_text(kInputs, GetParam().after)});
}
INSTANTIATE_TEST_SUITE_P(
    All, LinearSpellings,
    ::testing::Values(
        Spelling{"without_bias", "%y = MatMul(%x, %w)", "%y = Linear(%x, %w)"},
        Spelling{"bias_second", "%p = MatMul(%x, %w) %y = Add(%p, %c)", "%y = Linear(%x, %w, %c)"},
        Spelling{"bias_first", "%p = MatMul(%x, %w) %y = Add(%c, %p)", "%y = Linear(%x, %w, %c)"},
        Spelling{"gemm", "%y = Gemm(%m, %w, %c)", "%y = Linear(%m, %w, %c)"},
        Spelling{"gemm_transposed", "%y = Gemm(%m, %wt, %c) {trans_b=true}",
                 "%y = Linear(%m, %wt, %c) {trans_w=true}"},
        Spelling{"gemm_without_bias", "%y = Gemm(%m, %wt) {trans_b=true}",
                 "%y = Linear(%m, %wt) {trans_w=true}"},
        Spelling{"gemm_with_a_row", "%y = Gemm(%m, %w, %row)",
                 "%1 = Reshape(%row) {shape=(3), has_shape=true} %y = Linear(%m, %w, %1)"},
        Spelling{"gemm_scaled", "%y = Gemm(%m, %w, %full) {alpha=0.5, beta=2}",
                 "%1 = Linear(%m, %w) %2 = Mul(%1, f32{0.5}) %3 = Mul(%full, f32{2}) "
                 "%y = Add(%2, %3)"},
        Spelling{"gemm_between_reshapes",
                 "%f = Reshape(%x) {shape=(b*s, 4), has_shape=true} %g = Gemm(%f, %w, %c) "
                 "%y = Reshape(%g) {shape=(b, s, 3), has_shape=true}",
                 "%y = Linear(%x, %w, %c)"},
        Spelling{"two_gemms_between_reshapes",
                 "%f = Reshape(%x) {shape=(b*s, 4), has_shape=true} %g = Gemm(%f, %w, %c) "
                 "%r = Reshape(%g) {shape=(b, s, 3), has_shape=true} %t = Relu(%r) "
                 "%h = Reshape(%t) {shape=(b*s, 3), has_shape=true} %i = Gemm(%h, %wt) "
                 "%y = Reshape(%i) {shape=(b, s, 4), has_shape=true}",
                 "%1 = Linear(%x, %w, %c) %2 = Relu(%1) %y = Linear(%2, %wt)"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Linear, TransposedConstantStaysOneCopy) {
  const char* inputs = "%x: f32[b, 2]";
  expect_rewrite({&raise_linear,
                  graph_text(inputs,
                             "%w = const f32[3, 2]{1, 2, 3, 4, 5, 6} "
                             "%t = Transpose(%w) {perm=[1, 0]} %y = MatMul(%x, %t)"),
                  graph_text(inputs,
                             "%w = const f32[3, 2]{1, 2, 3, 4, 5, 6} "
                             "%y = Linear(%x, %w) {trans_w=true}")});
}

class LinearNearMisses : public ::testing::TestWithParam<Spelling> {};
TEST_P(LinearNearMisses, Stay) {
  expect_no(&raise_linear, "Linear",
            graph_text("%x: f32[b, s, 4], %k: f32[b, 4, s], %m: f32[4, n], %w: f32[4, 3], "
                       "%i: i32[b, 4], %j: i32[4, 3]",
                       GetParam().before));
}
INSTANTIATE_TEST_SUITE_P(All, LinearNearMisses,
                         ::testing::Values(Spelling{"batched_product", "%y = MatMul(%x, %k)", ""},
                                           Spelling{"integers", "%y = MatMul(%i, %j)", ""},
                                           Spelling{"transposed_input",
                                                    "%y = Gemm(%m, %w) {trans_a=true}", ""}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Linear, ResidualIsNoBias) {
  const char* inputs = "%x: f32[b, 4], %w: f32[4, 3], %r: f32[b, 3]";
  expect_rewrite({&raise_linear, graph_text(inputs, "%p = MatMul(%x, %w) %y = Add(%p, %r)"),
                  graph_text(inputs, "%p = Linear(%x, %w) %y = Add(%p, %r)")});
}

// ---- masked mean

constexpr const char* kPooled = "%x: f32[b, s, 4], %mask: i64[b, s]";
constexpr const char* kMask =
    "%u = Unsqueeze(%mask) {axes=[2]} %f = Cast(%u) {to=f32} %p = Mul(%x, %f) "
    "%sum = ReduceSum(%p) {axes=[1], keepdims=false} ";

int raise_clean_mean(ir::Graph& graph) {
  canonicalise(graph);
  const int found = raise_masked_mean(graph);
  graph.remove_dead();
  graph.sort();
  return found + canonicalise(graph);
}

TEST(MaskedMean, SumOverClippedCount) {
  expect_rewrite(
      {&raise_clean_mean,
       graph_text(kPooled, kMask + std::string("%n = ReduceSum(%f) {axes=[1], keepdims=false} "
                                               "%c = Clip(%n, f32{0.5}) %y = Div(%sum, %c)")),
       graph_text(kPooled, "%f = Cast(%mask) {to=f32} %y = MaskedMean(%x, %f) {minimum=0.5}")});
}

TEST(MaskedMean, ExpandedMaskAndMax) {
  expect_rewrite(
      {&raise_clean_mean,
       graph_text(kPooled,
                  "%u = Unsqueeze(%mask) {axes=[-1]} %z = Shape(%x) "
                  "%e = Expand(%u, %z) %f = Cast(%e) {to=f32} %p = Mul(%x, %f) "
                  "%sum = ReduceSum(%p, i64[1]{1}) {keepdims=false} "
                  "%n = ReduceSum(%f, i64[1]{1}) {keepdims=false} "
                  "%c = Max(%n, f32{0.5}) %y = Div(%sum, %c)"),
       graph_text(kPooled, "%f = Cast(%mask) {to=f32} %y = MaskedMean(%x, %f) {minimum=0.5}")});
}

TEST(MaskedMean, CountOfAnotherMaskStays) {
  expect_no(
      &raise_clean_mean, "MaskedMean",
      graph_text("%x: f32[b, s, 4], %mask: i64[b, s], %other: i64[b, s]",
                 kMask + std::string("%u2 = Unsqueeze(%other) {axes=[2]} %f2 = Cast(%u2) {to=f32} "
                                     "%n = ReduceSum(%f2) {axes=[1], keepdims=false} "
                                     "%c = Clip(%n, f32{0.5}) %y = Div(%sum, %c)")));
}

}  // namespace
}  // namespace vernier::passes::testing
