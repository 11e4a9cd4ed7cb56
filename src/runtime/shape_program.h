// Shape program: every size expression of a plan as flat int64 code, run by the host once per new
// shape. Contract: design "Graph".
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/dim.h"

namespace vernier::runtime {

/// Stands for a size that is not known yet: of data that a later segment finds.
inline constexpr int64_t kUnknownSize = INT64_MIN;

class ShapeProgram {
 public:
  /// `symbols`: names by symbol index.
  explicit ShapeProgram(std::vector<std::string> symbols);
  /// The slot that will hold this expression's value; equal expressions share one. Throws
  /// Error(kInput) for a symbol that is not in the list.
  int32_t slot(const Dim& dim);
  size_t num_slots() const { return slots_.size(); }
  const std::string& symbol(size_t index) const { return symbols_[index]; }
  int32_t symbol_index(const std::string& name) const;
  /// Values of all slots from values of all symbols; kUnknownSize where a symbol is that. Throws
  /// Error(kInput) on a division by zero or a result outside int64.
  void evaluate(std::span<const int64_t> symbols, std::span<int64_t> slots) const;

 private:
  struct Instruction {
    DimOp::Kind kind;
    int64_t operand;  // constant, or symbol index
  };
  struct Slot {
    uint32_t begin, end;  // its instructions
  };
  static int64_t evaluate(std::span<const Instruction> code, std::span<const int64_t> symbols,
                          std::vector<int64_t>& stack);
  std::vector<std::string> symbols_;
  std::map<std::string, int32_t> symbol_index_;
  std::map<std::string, int32_t> slot_of_;  // by canonical text
  std::vector<Slot> slots_;
  std::vector<Instruction> code_;
};

}  // namespace vernier::runtime
