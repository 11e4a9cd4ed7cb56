// The sm_90a matrix product: a kernel's argument, what a tile shape fixes at compile time, and
// which tile comes when. See gemm_sm90.cuh. C++17.
#pragma once
#include <cstdint>
#include <type_traits>

#include "backend/cuda/device/vectors.cuh"
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/kernels/linear/gemm_sm90.h"

namespace vernier::backend::cuda {

/// T = Int8Into<R>: products of i8 whose results have type R of 16 bits, or, R = int8_t, are f16
/// that is quantized.
template <class R>
struct Int8Into {};
/// The same of f8e4m3; R = Fp8: f16 that is quantized to f8e4m3. Sums are promoted (PromotedSums),
/// or, of Fp8FastInto, stay wgmma's.
template <class R>
struct Fp8Into {};
template <class R>
struct Fp8FastInto {};

/// Of a product: the type of results that leave through boxes, that of narrow operands, the sums'
/// type, wgmma's name, and whether sums are promoted.
template <class T_>
struct GemmTypes {
  using Result = T_;
  using Narrow = T_;
  using Sum = float;
  using Operand = T_;
  static constexpr bool kPromotes = false;
};
template <class R>
struct GemmTypes<Int8Into<R>> {
  using Result = R;
  using Narrow = std::conditional_t<sizeof(R) == 1, __half, R>;
  using Sum = int;
  using Operand = Int8;
  static constexpr bool kPromotes = false;
};

template <class R>
struct GemmTypes<Fp8Into<R>> {
  using Result = R;
  using Narrow = std::conditional_t<sizeof(R) == 1, __half, R>;
  using Sum = float;
  using Operand = Fp8;
  static constexpr bool kPromotes = true;
};
template <class R>
struct GemmTypes<Fp8FastInto<R>> : GemmTypes<Fp8Into<R>> {
  static constexpr bool kPromotes = false;
};

/// How results leave: any types and operands in one small loop, or, of the results' type, in code
/// that is unrolled over the sums, through the copy engine, which then brings the residual too.
enum class GemmFinish : uint8_t { kAny, kBoxes, kBoxesGelu, kBoxesResidual };

struct GemmArguments {
  const void *x, *bias, *residual;
  void* y;
  int m, n, k;
  // Addresses fit 16-byte accesses (x, y) and pairs of elements (residual).
  bool x_aligned, y_aligned, residual_aligned;
  int k_blocks;              // steps of the ring per tile
  int row_tiles, col_tiles;  // row_tiles counts clusters
  // Tiles are walked in groups of rows of them, in a group column by column: how many tiles and how
  // many rows a group has, and how many rows the last.
  Divisor group, rows, last_rows;
  uint32_t x_bytes, w_bytes;  // what one stage receives of each
  GemmFinish finish;
  GemmType bias_type, residual_type, y_type;
  int activation;
  bool backwards, constant_bias;  // as in GemmSm90
  GemmScales scales;
  GemmQuantized quantized;
};

constexpr int kGemmThreads = 384;  // two consumer warpgroups, one producer

/// T operand type, float for TF32, Int8Into<R>, Fp8Into<R> or Fp8FastInto<R>; kRowBlocks·64 rows
/// per warpgroup and kCols columns; kSub rows of 128 bytes of K per stage of the ring. kTogether:
/// both warpgroups work on one tile, each on its own rows, instead of a tile each in turns. The
/// blocks of a cluster lie one below the other and share w, or (kBeside) beside each other, over
/// whole rows of y, and share x.
template <class T_, int kRowBlocks_, int kCols_, int kSub_, int kStages_, int kBelow_,
          bool kTogether_ = false, int kBeside_ = 1>
struct GemmShape {
  using T = T_;
  using Result = typename GemmTypes<T>::Result;
  using Narrow = typename GemmTypes<T>::Narrow;
  using Sum = typename GemmTypes<T>::Sum;
  using Operand = typename GemmTypes<T>::Operand;
  // Operands of 8 bits, whose sums are scaled.
  static constexpr bool kScales = sizeof(T) == 1, kQuantizes = sizeof(Result) == 1;
  static constexpr bool kIsF8 = __is_same(Operand, Fp8);
  static constexpr bool kPromotes = GemmTypes<T>::kPromotes;
  static constexpr int kRowBlocks = kRowBlocks_, kCols = kCols_, kSub = kSub_, kStages = kStages_,
                       kBelow = kBelow_, kBeside = kBeside_, kCluster = kBelow * kBeside;
  static constexpr bool kTogether = kTogether_;
  static_assert(kBelow == 1 || kBeside == 1);
  static constexpr int kGroupRows = 64 * kRowBlocks, kRows = kGroupRows * (kTogether ? 2 : 1);
  static constexpr int kBlockK = 128 / static_cast<int>(sizeof(T));  // in a tile's 128-byte row
  static constexpr uint32_t kXBytes = kRows * 128, kWBytes = kCols * 128;  // of kBlockK
  static constexpr uint32_t kStageBytes = kSub * (kXBytes + kWBytes);
  // The epilogue takes 64 rows and kSliceCols columns at a time.
  static constexpr int kSliceCols = kCols % 32 == 0 ? 32 : kCols % 16 == 0 ? 16 : kCols;
  static constexpr int kColSlices = kCols / kSliceCols, kSlices = kRowBlocks * kColSlices;
  // Results of type Result leave through the copy engine, 128 bytes of columns at a time, or 64 of
  // bytes where the columns are no multiple of 128.
  static constexpr int kBoxRowBytes = kQuantizes && kCols % 128 != 0 ? 64 : 128;
  static constexpr int kBoxCols = kBoxRowBytes / static_cast<int>(sizeof(Result));
  static constexpr bool kBoxes = kCols % kBoxCols == 0;
  static constexpr uint32_t kBoxBytes = 16 * kBoxRowBytes,
                            kBoxesOfWarp = kRowBlocks * (kCols / kBoxCols);
  // Of a tile's boxes: those of one group in turns, of both together.
  static constexpr int kBoxWarps = kTogether ? 8 : 4;
  static constexpr uint32_t kTileBoxBytes = kBoxWarps * kBoxesOfWarp * kBoxBytes;
  static constexpr uint32_t kStripBytes = 16 * kSliceCols * 2;  // of one warp
  // Of one group: the bias of its columns; of 8 bits also their scales and sums of w, and factors
  // of a result that is quantized.
  static constexpr uint32_t kColumnBytes = kCols * 4 * (kQuantizes ? 4 : kScales ? 3 : 1);
  static constexpr uint32_t kMostSharedBytes = 232448,
                            kOfOthers = kStages * (kStageBytes + 16) + 48 + 2 * kColumnBytes + 1024;
  // In turns, each group has boxes of its own where there is room. Where they share them, one's
  // epilogue begins when the other's has ended, and of 8 bits epilogues take longer than products.
  static constexpr bool kOwnBoxes =
      kScales && kBoxes && !kTogether && kOfOthers + 2 * kTileBoxBytes <= kMostSharedBytes;
  static constexpr uint32_t kResultBytes =
      kBoxes ? (kOwnBoxes ? 2 : 1) * kTileBoxBytes : 8 * kStripBytes;
  static constexpr uint32_t kSharedBytes = kOfOthers + kResultBytes;
  static_assert(kSharedBytes <= kMostSharedBytes, "more than a block can have");
};

struct GemmTile {
  int row, col;  // element at which it begins
};
template <class S>
__device__ __forceinline__ GemmTile tile_at(const GemmArguments& args, int index, int rank) {
  if (args.backwards) index = args.row_tiles * args.col_tiles - 1 - index;
  if constexpr (S::kBeside > 1) return {index * S::kRows, rank * S::kCols};
  const auto at = static_cast<uint32_t>(index);
  const uint32_t group = divide(at, args.group), within = at - group * args.group.size;
  const uint32_t first = group * args.rows.size;
  const bool is_last = first + args.rows.size > static_cast<uint32_t>(args.row_tiles);
  const uint32_t column = divide(within, is_last ? args.last_rows : args.rows);
  const uint32_t rows = is_last ? args.last_rows.size : args.rows.size;
  const auto row = static_cast<int>(first + within - column * rows), col = static_cast<int>(column);
  return {(row * S::kBelow + rank) * S::kRows, col * S::kCols};
}

}  // namespace vernier::backend::cuda
