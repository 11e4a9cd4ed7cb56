// Flat code for size expressions: see shape_program.h.
#include "runtime/shape_program.h"

#include <algorithm>

#include "core/error.h"

namespace vernier::runtime {
namespace {

[[noreturn]] void overflow() {
  throw Error(ErrorCode::kInput, "a size of this shape does not fit 64 bits; use smaller inputs");
}

int64_t apply(DimOp::Kind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (kind) {
    case DimOp::Kind::kAdd:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return result;
    case DimOp::Kind::kMul:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      return result;
    case DimOp::Kind::kMin:
      return std::min(a, b);
    case DimOp::Kind::kMax:
      return std::max(a, b);
    default:
      break;
  }
  if (b == 0) throw Error(ErrorCode::kInput, "a size expression divides by zero for this shape");
  return kind == DimOp::Kind::kFloorDiv ? floordiv(a, b) : floormod(a, b);
}

}  // namespace

ShapeProgram::ShapeProgram(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
  for (size_t i = 0; i < symbols_.size(); ++i)
    symbol_index_.emplace(symbols_[i], static_cast<int32_t>(i));
}

int32_t ShapeProgram::symbol_index(const std::string& name) const {
  const auto it = symbol_index_.find(name);
  if (it == symbol_index_.end()) {
    throw Error(ErrorCode::kInput, "the engine's sizes use '" + name + "', which no input defines");
  }
  return it->second;
}

int32_t ShapeProgram::slot(const Dim& dim) {
  const auto [it, fresh] = slot_of_.emplace(dim.str(), static_cast<int32_t>(slots_.size()));
  if (!fresh) return it->second;
  Slot slot{static_cast<uint32_t>(code_.size()), 0};
  for (const DimOp& op : dim.postfix()) {
    const bool is_symbol = op.kind == DimOp::Kind::kSymbol;
    code_.push_back({op.kind, is_symbol ? symbol_index(op.symbol) : op.constant});
  }
  slot.end = static_cast<uint32_t>(code_.size());
  slots_.push_back(slot);
  return it->second;
}

int64_t ShapeProgram::evaluate(std::span<const Instruction> code, std::span<const int64_t> symbols,
                               std::vector<int64_t>& stack) {
  stack.clear();
  for (const Instruction& instruction : code) {
    if (instruction.kind == DimOp::Kind::kConstant) {
      stack.push_back(instruction.operand);
    } else if (instruction.kind == DimOp::Kind::kSymbol) {
      if (symbols[instruction.operand] == kUnknownSize) return kUnknownSize;
      stack.push_back(symbols[instruction.operand]);
    } else {
      const int64_t b = stack.back();
      stack.pop_back();
      stack.back() = apply(instruction.kind, stack.back(), b);
    }
  }
  return stack.back();
}

void ShapeProgram::evaluate(std::span<const int64_t> symbols, std::span<int64_t> slots) const {
  std::vector<int64_t> stack;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const auto [begin, end] = slots_[s];
    slots[s] = evaluate(std::span(code_).subspan(begin, end - begin), symbols, stack);
  }
}

}  // namespace vernier::runtime
