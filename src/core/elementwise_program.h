// The program of FusedElementwise: parse, print, check. Contract: FusedElementwiseAttrs in attrs.h
// ("Mul(%0,%1);Gelu{kind=1}(%2)"). Shared by inference, the FP64 evaluator and the CPU kernel.
#pragma once
#include "core/attr_codec.h"
#include "core/op_kind.h"

namespace vernier {

/// One operator of the chain. Operand %i is input i for i < number of inputs, then the result of
/// instruction i − number of inputs.
struct Instruction {
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs;
  std::vector<int> operands;
};

/// Throws Error(kInput) on bad text, an operator that is not elementwise, a wrong operand count, an
/// operand that is not yet computed, or an empty program. `num_inputs`: inputs of the node.
std::vector<Instruction> parse_elementwise_program(std::string_view text, size_t num_inputs);

/// The text that parses to `program`.
std::string print_elementwise_program(std::span<const Instruction> program);

/// Element type of an instruction's result, given those of its operands: bool for comparisons and
/// tests, the target of a Cast, the type of the branches of a Where, else that of operand 0.
DType result_type(const Instruction& instruction, std::span<const DType> operands);

}  // namespace vernier
