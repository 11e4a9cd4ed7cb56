// The elementwise loop: a program of vector instructions over tiles of 1024 elements. Contract of
// programs: FusedElementwiseAttrs in core/attrs.h; of the kernel: elementwise.cpp.
#pragma once
#include <atomic>
#include <vector>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// Elements per tile: a few tiles of 8-byte elements fit the first-level cache.
inline constexpr int64_t kTileElems = 1024;
inline constexpr size_t kTileBytes = kTileElems * 8;

/// One instruction on one tile. Operands and result are dense arrays of n elements; a null operand
/// is an absent optional input.
struct TileCall {
  const void* const* in = nullptr;
  size_t num_in = 0;
  void* out = nullptr;
  int64_t n = 0;
  double alpha = 0, beta = 0;         ///< numbers of the operator's attributes
  std::atomic<int>* error = nullptr;  ///< set to 1 on integer division by zero
};
using TileFunction = void (*)(const TileCall&);

/// The instruction for `op` on operands of type `operand` (Where: the type of its branches) that
/// returns `result`, for the best instruction set of this machine; null: there is none.
struct TileKey {
  OpKind op;
  DType operand, result;
  int64_t variant = 0;  ///< InstructionNumbers::variant
};
TileFunction find_tile_function(const TileKey& key);

}  // namespace vernier::backend::cpu
