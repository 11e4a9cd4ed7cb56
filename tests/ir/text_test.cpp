// The text form: what is printed reads back as the same graph, and every error names its place.
#include "ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/infer.h"

namespace vernier::ir {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text, InferFn infer = nullptr) {
  try {
    parse(text, infer);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInput);
    return e.what();
  }
  return "no error";
}

constexpr std::string_view kAll =
    R"(graph main(%ids: i64[batch, seq], %"a/b:0": f32[batch, 2*seq + 1, 8]) {
  %0: f32[batch, 2*seq + 1, 8] = Mul(%"a/b:0", f32{0.5}) named "mul" from "3#1|/m/Mul|Mul|scores", "4|x\\|y|Sub|"
  %w = const f32[2, 3]{1, -2.5, 0.1, inf, -inf, nan}
  %both: f32[2, 3] = Add(%w, %w)
  %1: f32[batch, 4, 8], _, %tail: f32[batch, seq, 8] = Split(%0) {axis=1, num_outputs=3}
  %2: i64[batch, seq, 1] = Reshape(%ids) {shape=(batch, seq, 1), has_shape=true}
  %3: f32[batch, 4, 8] = Clip(%1, _, f32{6})
  guard batch == floordiv(s6, 2) "node 'add'"
  symbol s6 = 2*batch
  return %3 as "out 1", %tail as "tail", i64[2]{3, 4} as "sizes", %both as "b"
}
)";

TEST(Text, PrintsWhatItRead) {
  PrintOptions options;
  options.origins = PrintOptions::Origins::kShow;
  EXPECT_EQ(print(*parse(kAll), options), kAll);
}

TEST(Text, OriginsAreKeptByField) {
  const auto graph = parse(kAll);
  const Node& n = graph->node(graph->order()[0]);
  ASSERT_EQ(n.origins.size(), 2u);
  EXPECT_EQ(n.origins[0].key, "3#1");
  EXPECT_EQ(n.origins[0].part, "scores");
  EXPECT_EQ(n.origins[1].name, "x|y");
}

TEST(Text, NumbersHideNames) {
  PrintOptions options;
  options.names = PrintOptions::Names::kNumbers;
  const auto a = parse("graph g(%x: f32[n]) { %y: f32[n] = Abs(%x) return %y as \"y\" }");
  const auto b = parse("graph g(%p: f32[n]) { %q: f32[n] = Abs(%p) return %q as \"y\" }");
  EXPECT_EQ(print(*a, options), print(*b, options));
}

TEST(Text, LargeConstantsCanBeElidedAndThenDoNotParse) {
  PrintOptions options;
  options.max_constant_elems = 2;
  const auto graph =
      parse("graph g(%x: f32[3]) { %y: f32[3] = Add(%x, f32[3]{1, 2, 3}) return %y as \"y\" }");
  const std::string text = print(*graph, options);
  EXPECT_THAT(text, HasSubstr("Add(%x, f32[3]{...})"));
  EXPECT_THAT(error_of(text), HasSubstr("omitted when the graph was printed"));
}

TEST(Text, GeneratedConstantsAreDeterministic) {
  const std::string_view text =
      "graph g() { %a = const f32[5] normal(seed=7, mean=1, std=0.5) %b = const f64[2, 2] fill(3) "
      "return %a as \"a\", %b as \"b\" }";
  EXPECT_EQ(print(*parse(text)), print(*parse(text)));
  const auto graph = parse(text);
  const Tensor& a = graph->value(graph->outputs[0]).constant;
  EXPECT_NE(a.float_at(0), a.float_at(1));
  EXPECT_LT(std::abs(a.float_at(0) - 1), 3);
  EXPECT_EQ(graph->value(graph->outputs[1]).constant.float_at(3), 3);
}

TEST(Text, InferredTypesMayBeLeftOut) {
  const auto graph =
      parse("graph g(%x: f32[n, 1], %y: f32[m]) { %z = Add(%x, %y) return %z as \"z\" }",
            &ops::infer_node);
  EXPECT_EQ(str(graph->value(graph->outputs[0]).shape), "[n, m]");
}

struct BadText {
  const char *text, *message;
};
class TextErrors : public testing::TestWithParam<BadText> {};
TEST_P(TextErrors, NameTheirPlace) {
  EXPECT_THAT(error_of(GetParam().text, &ops::infer_node), HasSubstr(GetParam().message));
}
INSTANTIATE_TEST_SUITE_P(
    All, TextErrors,
    testing::Values(
        BadText{"", "line 1, column 1: expected 'graph'"},
        BadText{"graph g(", "line 1, column 9: expected '%'"},
        BadText{"graph g() {}", "the graph has no return"},
        BadText{"graph g() { return } x", "expected"},
        BadText{"graph g(%x: f32) { return %x as \"x\" }", "needs an element type and a shape"},
        BadText{"graph g(%x: f31[2]) {}", "column 13: unknown element type 'f31'"},
        BadText{"graph g(%x: f32[2*]) {}", "line 1, column 17: bad size expression"},
        BadText{"graph g(%x: f32[2) {}", "'[' is not closed"},
        BadText{"graph g(%x: f32[2], %x: f32[2]) {}", "value %x is defined twice"},
        BadText{"graph g() {\n  %y = Abs(%x)\n}", "line 2, column 12: value %x is not defined"},
        BadText{"graph g() { %y = Abss() }", "unknown operator 'Abss'"},
        BadText{"graph g() { %y = const f32[2] {1} }", "holds 2 values, got 1"},
        BadText{"graph g() { %y = const f32[1] {1, 2} }", "holds 1 values, got more"},
        BadText{"graph g() { %y = const f32[n] fill(0) }", "sizes must be numbers"},
        BadText{"graph g() { %y = const f32[99999, 99999] fill(0) }", "too large for the text"},
        BadText{"graph g() { %y = const i8[1] {x} }", "expected an integer"},
        BadText{"graph g() { %y = const i8[1] normal(seed=1) }", "float constants only"},
        BadText{"graph g() { %y = const f32[1] normal(sed=1) }", "expected seed, mean or std"},
        BadText{"graph g() { %y = const f32[1] normal(seed=-1) }", "a seed must be in"},
        BadText{"graph g(%x: f32[2]) { %y = Softmax(%x) {axes=1} }", "unknown attributes: axes"},
        BadText{"graph g(%x: f32[2]) { %y = Softmax(%x) {axis=q} }", "expected an integer"},
        BadText{"graph g(%x: f32[2]) { %y: f32[3] = Abs(%x) }",
                "is stated as f32[3] but inferred as f32[2]"},
        BadText{"graph g(%x: f32[2]) { return _ as \"x\" }", "an output cannot be absent"},
        BadText{"graph g(%x: f32[2]) { %y = Abs(%x) from \"a|b|c|d|e\" }", "an origin is"},
        BadText{"graph g(%x: f32[2]) { return %x as \"x", "does not end"},
        BadText{"graph g(%x: f32[2]) { %y = Add(%x, f32[3]{1, 2, 3}) }", "Add"}));

TEST(Text, WithoutInferenceTypesAreNeeded) {
  EXPECT_THAT(error_of("graph g(%x: f32[2]) { %y = Abs(%x) return %y as \"y\" }"),
              HasSubstr("value %y needs a type"));
}

}  // namespace
}  // namespace vernier::ir
