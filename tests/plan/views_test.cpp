// Pure layout: what becomes a view and where a copy is needed instead. Contract: ops/views.h.
#include "ops/views.h"

#include <gtest/gtest.h>

#include "plan/graphs.h"

namespace vernier::test {
namespace {

struct ViewCase {
  const char* name;
  const char* text;
  const char* outline;  ///< as outline() writes it
};

class Views : public ::testing::TestWithParam<ViewCase> {};

// Unread views drop out of a plan, so every one ends in a step that reads it.
constexpr ViewCase kCases[] = {
    {"ReshapeOfAResult",
     "graph g(%x: f32[b, s, 8]) { %a = Abs(%x) %r = Reshape(%a) {shape=(b, s, 2, 4), "
     "has_shape=true} %y = Abs(%r) return %y as \"y\" }",
     "Abs Abs; [b, s, 2, 4]"},
    {"ReshapeOfAnInputIsAView",
     "graph g(%x: f32[b, 8]) { %r = Reshape(%x) {shape=(b, 2, 4), has_shape=true} %y = Abs(%r) "
     "return %y as \"y\" }",
     "Abs; [b, 2, 4]"},
    {"ChainsAreOneView",
     "graph g(%x: f32[b, 8]) { %r = Reshape(%x) {shape=(b, 2, 4), has_shape=true} %u = "
     "Unsqueeze(%r) {axes=[1], given=true} %i = Identity(%u) %y = Abs(%i) return %y as \"y\" }",
     "Abs; [b, 1, 2, 4]"},
    {"TransposeIntoAKernelThatTakesStrides",
     "graph g(%x: f32[b, s, 4, 8]) { %t = Transpose(%x) {perm=[0, 2, 1, 3]} %y = Neg(%t) return "
     "%y as \"y\" }",
     "Neg; [b, 4, s, 8] by (32*s, 8, 32, 1)"},
    {"TransposeIntoAKernelThatDoesNot",
     "graph g(%x: f32[b, s, 4, 8]) { %t = Transpose(%x) {perm=[0, 2, 1, 3]} %y = Abs(%t) return "
     "%y as \"y\" }",
     "Transpose Abs"},
    {"TransposeOfTheInnermostAxisIsACopy",
     "graph g(%x: f32[b, s]) { %t = Transpose(%x) {perm=[1, 0]} %y = Neg(%t) return %y as \"y\" }",
     "Transpose Neg"},
    {"OneReaderWithoutStridesMakesItACopyForAll",
     "graph g(%x: f32[b, s, 8]) { %t = Transpose(%x) {perm=[1, 0, 2]} %p = Neg(%t) %q = Abs(%t) "
     "return %p as \"p\", %q as \"q\" }",
     "Transpose Neg Abs"},
    {"ReshapeOfATransposeThatSplitsOnlyAView",
     "graph g(%x: f32[b, s, 6]) { %t = Transpose(%x) {perm=[1, 0, 2]} %r = Reshape(%t) {shape=(s, "
     "b, 2, 3), has_shape=true} %y = Neg(%r) return %y as \"y\" }",
     "Neg; [s, b, 2, 3] by (6, 6*s, 3, 1)"},
    {"ReshapeOfATransposeThatMergesItsAxes",
     "graph g(%x: f32[b, s, 6]) { %t = Transpose(%x) {perm=[1, 0, 2]} %r = Reshape(%t) "
     "{shape=(s, 6*b), has_shape=true} %y = Neg(%r) return %y as \"y\" }",
     "Reshape Neg; [s, b, 6] by (6, 6*s, 1)"},
    {"SplitIntoStridedReaders",
     "graph g(%x: f32[b, 6]) { %p, %q = Split(%x) {axis=1, num_outputs=2} %y = Add(%p, %q) return "
     "%y as \"y\" }",
     "Add; [b, 3] by (6, 1); [b, 3] at 3 by (6, 1)"},
    {"SliceOfRowsIsDense",
     "graph g(%x: f32[8, 6]) { %p = Slice(%x) {inline_starts=true, starts=[2], axes=[0], "
     "steps=[1], sizes=(4)} %y = Abs(%p) return %y as \"y\" }",
     "Abs; [4, 6] at 12"},
    {"SliceWithAStep",
     "graph g(%x: f32[8, 6]) { %p = Slice(%x) {inline_starts=true, starts=[1], axes=[0], "
     "steps=[2], sizes=(3)} %y = Neg(%p) return %y as \"y\" }",
     "Neg; [3, 6] at 6 by (12, 1)"},
    {"SliceBackwardsIsACopy",
     "graph g(%x: f32[8, 6]) { %p = Slice(%x) {inline_starts=true, starts=[7], axes=[0], "
     "steps=[-1], sizes=(8)} %y = Neg(%p) return %y as \"y\" }",
     "Slice Neg"},
    {"ExpandOverAnotherInputsSize",
     "graph g(%x: f32[b, 1, 4], %z: f32[b, s, 4]) { %e = Expand(%x) {shape=(b, s, 4), "
     "has_shape=true} %y = Add(%e, %z) return %y as \"y\" }",
     "Add; [b, s, 4] by (4, 0, 1)"},
    {"ExpandOverAKnownAxis",
     "graph g(%x: f32[b, 1, 4]) { %e = Expand(%x) {shape=(b, 3, 4), has_shape=true} %y = Neg(%e) "
     "return %y as \"y\" }",
     "Neg; [b, 3, 4] by (4, 0, 1)"},
    {"ExpandIntoAKernelWithoutRepeatedAxes",
     "graph g(%x: f32[b, 1, 4]) { %e = Expand(%x) {shape=(b, 3, 4), has_shape=true} %y = Erf(%e) "
     "return %y as \"y\" }",
     "Expand Erf"},
    {"TransposeOfAnExpandIntoAKernelWithoutRepeatedAxes",
     "graph g(%x: f32[1, h, s, 4], %z: f32[b, 1]) { %e = Expand(%x) {shape=(b, h, s, 4), "
     "has_shape=true} %t = Transpose(%e) {perm=[0, 2, 1, 3]} %y = Erf(%t) return %y as \"y\" }",
     "Transpose Erf; [b, h, s, 4] by (0, 4*s, 4, 1)"},
    {"TransposeIntoAKernelWithoutRepeatedAxes",
     "graph g(%x: f32[b, s, 4, 8]) { %t = Transpose(%x) {perm=[0, 2, 1, 3]} %y = Erf(%t) return "
     "%y as \"y\" }",
     "Erf; [b, 4, s, 8] by (32*s, 8, 32, 1)"},
    {"AnOutputIsNeverAViewOfAnInput",
     "graph g(%x: f32[b, 8]) { %r = Reshape(%x) {shape=(b, 2, 4), has_shape=true} return %r as "
     "\"y\" }",
     "Reshape"},
    {"AnInputAsOutputIsCopied", "graph g(%x: f32[b, 8]) { return %x as \"y\" }", "Identity"},
    {"AnOutputMayBeADenseViewOfAResult",
     "graph g(%x: f32[b, 8]) { %a = Abs(%x) %r = Reshape(%a) {shape=(b, 2, 4), has_shape=true} "
     "return %r as \"y\" }",
     "Abs; [b, 2, 4]"},
    {"AnOutputIsNeverAViewWithGaps",
     "graph g(%x: f32[b, 6]) { %a = Abs(%x) %p, %q = Split(%a) {axis=1, num_outputs=2} %n = "
     "Neg(%q) return %p as \"p\", %n as \"n\" }",
     "Abs Split Neg"},
};

TEST_P(Views, AreViewsWhereTheyMayBe) {
  EXPECT_EQ(outline(toy_plan(GetParam().text)), GetParam().outline);
}

INSTANTIATE_TEST_SUITE_P(Table, Views, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace vernier::test
