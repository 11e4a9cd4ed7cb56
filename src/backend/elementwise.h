// An elementwise node as a program: a chain, or one operator that is its only instruction. Shared
// by the elementwise loops of all backends. Contract: FusedElementwiseAttrs in core/attrs.h.
#pragma once
#include "backend/body.h"
#include "core/elementwise_program.h"

namespace vernier::backend {

/// An operand that is absent.
inline constexpr int kNoOperand = -1;

/// The chain of a node: its program, or itself. `inputs`: types of its inputs, kUndefined where
/// absent.
std::vector<Instruction> program_of(OpKind op, AttrView attrs, std::span<const DType> inputs);

/// What instructions take from their attributes. `variant`: GeluAttrs::kind, ModAttrs::fmod,
/// BitShiftAttrs::left; alpha and beta of IsInf: whether -inf and +inf count.
struct InstructionNumbers {
  double alpha = 0, beta = 0;
  int64_t variant = 0;
};
InstructionNumbers numbers_of(const Instruction& instruction);

/// The type that a value stored as `stored` has inside a program: f32 for f16 and bf16.
constexpr DType computed_type(DType stored) {
  return is_16_bit_float(stored) ? DType::kF32 : stored;
}

}  // namespace vernier::backend
