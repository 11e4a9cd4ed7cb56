// An elementwise node as a program: see elementwise.h.
#include "backend/elementwise.h"

namespace vernier::backend {

InstructionNumbers numbers_of(const Instruction& instruction) {
  if (instruction.op == OpKind::kGelu)
    return {.variant = static_cast<int64_t>(decode<GeluAttrs>(instruction.attrs).kind)};
  if (instruction.op == OpKind::kMod)
    return {.variant = decode<ModAttrs>(instruction.attrs).fmod ? 1 : 0};
  if (instruction.op == OpKind::kBitShift)
    return {.variant = decode<BitShiftAttrs>(instruction.attrs).left ? 1 : 0};
  if (instruction.op == OpKind::kIsInf) {
    const auto attrs = decode<IsInfAttrs>(instruction.attrs);
    return {.alpha = attrs.detect_negative ? 1.0 : 0.0, .beta = attrs.detect_positive ? 1.0 : 0.0};
  }
  // All other operators have ActivationAttrs (two numbers), CastAttrs or no attributes.
  constexpr size_t kActivationBytes = 16;
  if (instruction.attrs.size() != kActivationBytes || instruction.op == OpKind::kCast) return {};
  const auto attrs = decode<ActivationAttrs>(instruction.attrs);
  return {attrs.alpha, attrs.beta, 0};
}

std::vector<Instruction> program_of(OpKind op, AttrView attrs, std::span<const DType> inputs) {
  if (op == OpKind::kFusedElementwise) {
    return parse_elementwise_program(decode<FusedElementwiseAttrs>(attrs).program, inputs.size());
  }
  Instruction only{.op = op, .attrs = AttrBytes(attrs.begin(), attrs.end()), .operands = {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    only.operands.push_back(inputs[i] == DType::kUndefined ? kNoOperand : static_cast<int>(i));
  }
  return {std::move(only)};
}

}  // namespace vernier::backend
