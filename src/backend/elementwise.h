// An elementwise node as a program: a chain of instructions, or a single operator as its only one.
// The elementwise loops of all backends run it. Contract: FusedElementwiseAttrs in core/attrs.h.
#pragma once
#include "backend/body.h"
#include "core/elementwise_program.h"

namespace vernier::backend {

/// The number of an absent operand.
inline constexpr int kNoOperand = -1;

/// The program of a node. `inputs`: the types of its inputs, kUndefined where one is absent.
std::vector<Instruction> program_of(OpKind op, AttrView attrs, std::span<const DType> inputs);

/// What an instruction takes from its attributes.
struct InstructionNumbers {
  double alpha = 0, beta = 0;  ///< ActivationAttrs; of IsInf: whether -inf and +inf count
  int64_t variant = 0;         ///< GeluAttrs::kind, ModAttrs::fmod or BitShiftAttrs::left
};
InstructionNumbers numbers_of(const Instruction& instruction);

/// The type that a value has inside a program: f32 where it is stored in f16 or bf16.
constexpr DType computed_type(DType stored) {
  return is_16_bit_float(stored) ? DType::kF32 : stored;
}

}  // namespace vernier::backend
