// The program text of FusedElementwise: parsed, printed, typed. Errors are read in
// tests/ops/fused_elementwise_cases.cpp.
#include "core/elementwise_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/attrs.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;

TEST(ElementwiseProgram, ParsesOperatorsAttributesAndOperands) {
  const auto program = parse_elementwise_program("Mul(%0,%1);Gelu{kind=1}(%2);Max(%2,%0,%3)", 2);
  ASSERT_EQ(program.size(), 3U);
  EXPECT_EQ(program[0].op, OpKind::kMul);
  EXPECT_EQ(decode<GeluAttrs>(program[1].attrs).kind, GeluKind::kTanh);
  EXPECT_THAT(program[2].operands, ElementsAre(2, 0, 3));
}

TEST(ElementwiseProgram, PrintsWhatItParses) {
  for (const char* text :
       {"Mul(%0,%1);Add(%3,%2)", "Gelu{kind=1}(%0)", "Cast{to=f16, saturate=true}(%0);Neg(%3)",
        "Elu{alpha=0.1, beta=0}(%2);Less(%3,%0);Where(%4,%1,%2)"}) {
    EXPECT_EQ(print_elementwise_program(parse_elementwise_program(text, 3)), text);
  }
}

TEST(ElementwiseProgram, ResultTypes) {
  const auto type = [](const char* text, std::vector<DType> operands) {
    return result_type(parse_elementwise_program(text, operands.size())[0], operands);
  };
  EXPECT_EQ(type("Add(%0,%1)", {DType::kI32, DType::kI32}), DType::kI32);
  EXPECT_EQ(type("Pow(%0,%1)", {DType::kF32, DType::kI64}), DType::kF32);
  EXPECT_EQ(type("Less(%0,%1)", {DType::kF32, DType::kF32}), DType::kBool);
  EXPECT_EQ(type("IsNaN(%0)", {DType::kF32}), DType::kBool);
  EXPECT_EQ(type("Cast{to=i8}(%0)", {DType::kF32}), DType::kI8);
  EXPECT_EQ(type("Where(%0,%1,%2)", {DType::kBool, DType::kF16, DType::kF16}), DType::kF16);
}

}  // namespace
}  // namespace vernier
