// An elementwise node as a program: a chain of instructions, or a single operator as the only one.
// The elementwise loops of all backends run it. Contract: FusedElementwiseAttrs in core/attrs.h.
#pragma once
#include "backend/body.h"
#include "core/elementwise_program.h"

namespace vernier::backend {

/// Element types that an operator of elementwise_ops.def takes.
enum ElementwiseTakes : uint32_t {
  kOnFloats = 1,        ///< f32, f16 and bf16, which are computed in f32; on CUDA f64 too
  kOnIntegers = 2,      ///< i32 and i64; on CUDA all integers. Moves: on the CPU i8 and u8 too
  kOnCudaIntegers = 4,  ///< all integers on CUDA, none on the CPU
  kOnBools = 8,
};
/// The element types that `op` takes; 0: it has no loop.
constexpr uint32_t elementwise_takes(OpKind op) {
  switch (op) {
#define ELEMENTWISE(kind, elements) \
  case OpKind::k##kind:             \
    return elements;
#include "backend/elementwise_ops.def"
    default:
      return 0;
  }
}
/// Identity, Where and Cast only move or convert elements.
constexpr bool is_elementwise_move(OpKind op) {
  return op == OpKind::kCast || op == OpKind::kIdentity || op == OpKind::kWhere;
}

/// The number of an absent operand.
inline constexpr int kNoOperand = -1;

/// The program of a node. `inputs`: the types of its inputs, kUndefined for absent ones.
std::vector<Instruction> program_of(OpKind op, AttrView attrs, std::span<const DType> inputs);

/// The numbers in an instruction's attributes.
struct InstructionNumbers {
  double alpha = 0, beta = 0;  ///< ActivationAttrs; for IsInf: whether -inf and +inf count
  int64_t variant = 0;         ///< GeluAttrs::kind, ModAttrs::fmod or BitShiftAttrs::left
};
InstructionNumbers numbers_of(const Instruction& instruction);

/// The type of a value inside a program: f32 if it is stored in f16 or bf16.
constexpr DType computed_type(DType stored) {
  return is_16_bit_float(stored) ? DType::kF32 : stored;
}

}  // namespace vernier::backend
