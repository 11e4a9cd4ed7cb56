// Cases of FusedElementwise and of its program text: chains, attributes, types along the way,
// errors.
#include "ops/case.h"

namespace vernier::test {
namespace {

const Arg kA = f32({2}, {1, 2}), kB = f32({2}, {3, 4});

std::string program(const std::string& text) { return "{program=\"" + text + "\"}"; }

// clang-format off
const OpCases kFused("FusedElementwise", OpKind::kFusedElementwise, {
    {.name = "chain", .attrs = program("Mul(%0,%1);Add(%3,%2)"),
     .in = {f32({2, 1}, {1, 2}), f32({2}, {3, 4}), f32({}, {10})},
     .out = {f32({2, 2}, {13, 14, 16, 18})}},
    {.name = "attributes",               .attrs = program("LeakyRelu{alpha=0.5, beta=0}(%0)"),
     .in = {f32({2}, {-4, 4})}, .out = {f32({2}, {-2, 4})}},
    {.name = "a_result_used_twice",      .attrs = program("Neg(%0);Mul(%1,%1);Add(%2,%0)"),
     .in = {f32({2}, {2, 3})},  .out = {f32({2}, {6, 12})}},
    {.name = "types_change_along_the_way",
     .attrs = program("Less(%0,%1);Where(%2,%0,%1);Cast{to=i32}(%3)"),
     .in = {f32({2}, {1.5, 7}), f32({}, {4})}, .out = {i32({2}, {1, 4})}},
    {.name = "empty_tensors",            .attrs = program("Exp(%0)"),
     .in = {f32({0}, {})},      .out = {f32({0}, {})}},
    {.name = "empty_program",            .attrs = program(""),
     .in = {kA, kB},            .error = "the elementwise program is empty"},
    {.name = "unknown_operator",         .attrs = program("Frob(%0)"),
     .in = {kA, kB},            .error = "instruction 'Frob(%0)': unknown operator"},
    {.name = "not_elementwise",          .attrs = program("MatMul(%0,%1)"),
     .in = {kA, kB},            .error = "the operator is not elementwise"},
    {.name = "nested",                   .attrs = program("FusedElementwise(%0)"),
     .in = {kA, kB},            .error = "the operator is not elementwise"},
    {.name = "operand_not_yet_computed", .attrs = program("Exp(%2)"),
     .in = {kA, kB},            .error = "operand %2 is not computed before it; expected an operand below %2"},
    {.name = "too_many_operands",        .attrs = program("Exp(%0,%1)"),
     .in = {kA, kB},            .error = "takes 1 operands, got 2"},
    {.name = "too_few_operands",         .attrs = program("Add(%0)"),
     .in = {kA, kB},            .error = "takes 2 operands, got 1"},
    {.name = "operand_text",             .attrs = program("Add(%0,x)"),
     .in = {kA, kB},            .error = "operands are written %0, %1"},
    {.name = "no_parentheses",           .attrs = program("Exp"),
     .in = {kA, kB},            .error = "expected its operands in parentheses"},
    {.name = "open_brace",               .attrs = program("Gelu{kind=1(%0)"),
     .in = {kA, kB},            .error = "expected '}'"},
    {.name = "unknown_attribute",        .attrs = program("Gelu{sort=1}(%0)"),
     .in = {kA, kB},            .error = "unknown attributes: sort"},
});

const ShapeCases kShapes("FusedElementwise", OpKind::kFusedElementwise, {
    {.name = "broadcasts", .attrs = program("Add(%0,%1);Equal(%2,%0)"),
     .in = {"f32 [batch, 1, 8]", "f32 [seq, 8]"}, .out = {"bool [batch, seq, 8]"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
