// Arguments of the products of cpu.weight_only_linear.panels. Contract: weight_only_linear.cpp.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/simd/tiles.h"

namespace vernier::backend::cpu {

inline constexpr int64_t kUnit = 8;  ///< rows of w that are packed together
/// Rows of w, in bf16, that a step of a product on tile registers takes.
inline constexpr int64_t kTileStepRows = kTileStepBytes / 2;

/// How a machine multiplies.
enum class Products : uint8_t {
  kFloat,         ///< f32
  kPairs,         ///< pairs of bf16
  kPairsByTables  ///< the same, and bytes become bf16 in tables of 128 (AVX-512 VBMI)
};

/// Rows of x against one panel of a weight: 64 columns of sums.
struct WeightTiles {
  Products products;
  bool on_tiles;       ///< pairs in tile registers: x, partial and sums have whole tiles of rows
  const std::byte* x;  ///< row r at r·step elements, f32 or bf16; K padded with zeros
  int64_t step, rows;
  const std::byte* panel;
  int64_t bits, depth;   ///< depth: K, rounded up to whole units
  int64_t block;         ///< rows of w that share a scale
  int64_t chunk;         ///< rows of w that are unpacked at a time; whole blocks, or part of one
  const float* scales;   ///< of 64 columns, scale_step further for each block
  int64_t scale_step;    ///< 0: one block
  const int32_t* zeros;  ///< the same; null: `zero` for all
  int64_t zero_step;
  int32_t zero;           ///< as packed bytes have it
  std::byte* unpacked;    ///< chunk·64 elements
  float *partial, *sums;  ///< [rows][64] each; the result is in sums
};

}  // namespace vernier::backend::cpu
