// GELU in every order of its factors, and what is not one.
#include <gtest/gtest.h>

#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

constexpr const char* kInputs = "%x: f32[batch, 5]";

struct Spelling {
  const char *name, *lines;
  bool tanh;
};
void PrintTo(const Spelling& s, std::ostream* out) { *out << s.name; }

class GeluSpellings : public ::testing::TestWithParam<Spelling> {};
TEST_P(GeluSpellings, BecomeOneNode) {
  // The exporters' sqrt(2) and sqrt(2/pi) are rounded to f32: relative 3e-8 in the argument.
  expect_rewrite({&raise_gelu, graph_text(kInputs, GetParam().lines),
                  graph_text(kInputs, GetParam().tanh ? "%y = Gelu(%x) {kind=1}" : "%y = Gelu(%x)"),
                  1e-7});
}
INSTANTIATE_TEST_SUITE_P(
    All, GeluSpellings,
    ::testing::Values(
        Spelling{"half_last",
                 "%a = Div(%x, f32{1.4142135}) %e = Erf(%a) %p = Add(%e, f32{1}) %m = Mul(%x, %p) "
                 "%y = Mul(%m, f32{0.5})",
                 false},
        Spelling{"half_first",
                 "%h = Mul(%x, f32{0.5}) %a = Div(%x, f32{1.4142135}) %e = Erf(%a) "
                 "%p = Add(f32{1}, %e) %y = Mul(%h, %p)",
                 false},
        Spelling{"half_on_the_sum",
                 "%a = Mul(%x, f32{0.70710677}) %e = Erf(%a) %p = Add(%e, f32{1}) "
                 "%h = Mul(f32{0.5}, %p) %y = Mul(%x, %h)",
                 false},
        Spelling{"half_inside_the_sum",
                 "%a = Mul(f32{0.70710677}, %x) %e = Erf(%a) %s = Mul(%e, f32{0.5}) "
                 "%p = Add(%s, f32{0.5}) %y = Mul(%p, %x)",
                 false},
        Spelling{"divided_by_two",
                 "%a = Div(%x, f32[1]{1.4142135}) %e = Erf(%a) %p = Add(%e, f32[1]{1}) "
                 "%m = Mul(%p, %x) %y = Div(%m, f32{2})",
                 false},
        Spelling{"tanh_pow",
                 "%h = Mul(%x, f32{0.5}) %c = Pow(%x, f32{3}) %s = Mul(%c, f32{0.044715}) "
                 "%i = Add(%x, %s) %a = Mul(%i, f32{0.7978846}) %t = Tanh(%a) "
                 "%p = Add(%t, f32{1}) %y = Mul(%h, %p)",
                 true},
        Spelling{"tanh_products",
                 "%q = Mul(%x, %x) %c = Mul(%q, %x) %s = Mul(f32{0.044715}, %c) %i = Add(%s, %x) "
                 "%a = Mul(f32{0.7978846}, %i) %t = Tanh(%a) %p = Add(f32{1}, %t) "
                 "%m = Mul(%x, %p) %y = Mul(f32{0.5}, %m)",
                 true},
        Spelling{"tanh_factored",
                 "%q = Mul(%x, %x) %s = Mul(%q, f32{0.044715}) %i = Add(%s, f32{1}) "
                 "%o = Mul(%x, f32{0.7978846}) %a = Mul(%o, %i) %t = Tanh(%a) "
                 "%p = Add(%t, f32{1}) %h = Mul(%x, f32{0.5}) %y = Mul(%h, %p)",
                 true}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Gelu, OfAProductIsFound) {
  const char* inputs = "%u: f32[batch, 5], %v: f32[batch, 5]";
  expect_rewrite({&raise_gelu,
                  graph_text(inputs,
                             "%x = Mul(%u, %v) %a = Div(%x, f32{1.4142135}) %e = Erf(%a) "
                             "%p = Add(%e, f32{1}) %m = Mul(%x, %p) %y = Mul(%m, f32{0.5})"),
                  graph_text(inputs, "%x = Mul(%u, %v) %y = Gelu(%x)"), 1e-7});
}

class GeluNearMisses : public ::testing::TestWithParam<Spelling> {};
TEST_P(GeluNearMisses, Stay) {
  expect_no(&raise_gelu, "Gelu",
            graph_text("%x: f32[batch, 5], %z: f32[batch, 5]", GetParam().lines));
}
INSTANTIATE_TEST_SUITE_P(
    All, GeluNearMisses,
    ::testing::Values(
        Spelling{"another_argument",
                 "%a = Div(%z, f32{1.4142135}) %e = Erf(%a) %p = Add(%e, f32{1}) %m = Mul(%x, %p) "
                 "%y = Mul(%m, f32{0.5})",
                 false},
        Spelling{"another_divisor",
                 "%a = Div(%x, f32{1.5}) %e = Erf(%a) %p = Add(%e, f32{1}) %m = Mul(%x, %p) "
                 "%y = Mul(%m, f32{0.5})",
                 false},
        Spelling{"no_half",
                 "%a = Div(%x, f32{1.4142135}) %e = Erf(%a) %p = Add(%e, f32{1}) "
                 "%y = Mul(%x, %p)",
                 false},
        Spelling{"two_instead_of_one",
                 "%a = Div(%x, f32{1.4142135}) %e = Erf(%a) %p = Add(%e, f32{2}) %m = Mul(%x, %p) "
                 "%y = Mul(%m, f32{0.5})",
                 false},
        Spelling{"another_cubic_factor",
                 "%h = Mul(%x, f32{0.5}) %c = Pow(%x, f32{3}) %s = Mul(%c, f32{0.05}) "
                 "%i = Add(%x, %s) %a = Mul(%i, f32{0.7978846}) %t = Tanh(%a) "
                 "%p = Add(%t, f32{1}) %y = Mul(%h, %p)",
                 true}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace vernier::passes::testing
