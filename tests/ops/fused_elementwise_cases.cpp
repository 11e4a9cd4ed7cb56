// Cases of FusedElementwise and of its program text: chains, attributes, types along the way,
// errors.
#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr DType kF32 = DType::kF32;

OpCase fused(std::string name, const std::string& program, std::vector<Arg> in, Arg y) {
  return {std::move(name),
          OpKind::kFusedElementwise,
          "{program=\"" + program + "\"}",
          std::move(in),
          {std::move(y)}};
}
OpCase bad(std::string name, const std::string& program, std::string error) {
  return {std::move(name),
          OpKind::kFusedElementwise,
          "{program=\"" + program + "\"}",
          {f32({2}, {1, 2}), f32({2}, {3, 4})},
          {},
          0,
          std::move(error)};
}

const OpCases kFused(
    "FusedElementwise",
    {
        fused("chain", "Mul(%0,%1);Add(%3,%2)",
              {f32({2, 1}, {1, 2}), f32({2}, {3, 4}), f32({}, {10})},
              f32({2, 2}, {13, 14, 16, 18})),
        fused("attributes", "LeakyRelu{alpha=0.5, beta=0}(%0)", {f32({2}, {-4, 4})},
              f32({2}, {-2, 4})),
        fused("a_result_used_twice", "Neg(%0);Mul(%1,%1);Add(%2,%0)", {f32({2}, {2, 3})},
              f32({2}, {6, 12})),
        fused("types_change_along_the_way", "Less(%0,%1);Where(%2,%0,%1);Cast{to=i32}(%3)",
              {f32({2}, {1.5, 7}), f32({}, {4})}, i32({2}, {1, 4})),
        fused("empty_tensors", "Exp(%0)", {f32({0}, {})}, f32({0}, {})),
        bad("empty_program", "", "the elementwise program is empty"),
        bad("unknown_operator", "Frob(%0)", "instruction 'Frob(%0)': unknown operator"),
        bad("not_elementwise", "MatMul(%0,%1)", "the operator is not elementwise"),
        bad("nested", "FusedElementwise(%0)", "the operator is not elementwise"),
        bad("operand_not_yet_computed", "Exp(%2)",
            "operand %2 is not computed before it; expected an operand below %2"),
        bad("too_many_operands", "Exp(%0,%1)", "takes 1 operands, got 2"),
        bad("too_few_operands", "Add(%0)", "takes 2 operands, got 1"),
        bad("operand_text", "Add(%0,x)", "operands are written %0, %1"),
        bad("no_parentheses", "Exp", "expected its operands in parentheses"),
        bad("open_brace", "Gelu{kind=1(%0)", "expected '}'"),
        bad("unknown_attribute", "Gelu{sort=1}(%0)", "unknown attributes: sort"),
    });

const ShapeCases kShapes("FusedElementwise", {{.name = "broadcasts",
                                               .op = OpKind::kFusedElementwise,
                                               .attrs = "{program=\"Add(%0,%1);Equal(%2,%0)\"}",
                                               .in = {"f32 [batch, 1, 8]", "f32 [seq, 8]"},
                                               .out = {"bool [batch, seq, 8]"}}});

}  // namespace
}  // namespace vernier::test
