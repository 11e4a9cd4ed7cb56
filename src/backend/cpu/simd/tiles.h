// Products on the tile registers of Intel CPUs (AMX): 16 × 16 results of 32 bits at a time, from
// operands of 8 bits or bf16.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vernier::backend::cpu {

/// Whether this process can multiply bytes and bf16 numbers on tiles. The first call asks Linux for
/// the registers, which are granted to a process, all its threads and children.
bool has_tiles();

/// Bytes of k that one step multiplies; columns of a panel; the bytes of one of its rows.
inline constexpr int64_t kTileStepBytes = 64;
inline constexpr int64_t kTilePanelRowBytes = 256;
/// Rows of a that a product reads and of c that it writes: 16 for each tile.
inline constexpr int64_t kRowsOfTile = 16;

enum class TileOperands {
  kUnsignedBytes,  ///< a unsigned, b signed; c i32, exact
  kSignedBytes,    ///< both signed; c i32, exact
  kBF16,           ///< c f32; sums of 32 products, subnormal operands and results are zero
};
/// Rows so many bytes apart share a few sets of the first-level cache.
inline constexpr int64_t kCrowdedStep = 2048;

/// c[r][j] (+)= Σ_k a[r][k]·b[k][j]. Steps in bytes. Fastest where rows of a and of b start at
/// multiples of 64 bytes, and rows of a are not a multiple of kCrowdedStep apart.
struct TileProduct {
  const std::byte* a;  ///< rows of k; 64 bytes of each for every step
  int64_t a_step;
  const std::byte* b;  ///< rows of 4 bytes of k for each column: 16 rows for every step
  int64_t b_step;
  std::byte* c;
  int64_t c_step;
  int64_t steps;
  bool add;  ///< to what c holds, else to 0
  /// What is multiplied later: fetched into the second-level cache meanwhile, a few lines in each
  /// step. What reads 16 rows at a time is not foreseen by the CPU.
  std::span<const std::byte> fetch = {};
};

/// Loads the shapes of the tiles for the calling thread while it lives. Needs has_tiles().
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

/// Whether `count` rows of a, `step` bytes apart, are whole tiles and lie where loads are fastest.
inline bool tiles_read_in_place(const std::byte* rows, int64_t count, int64_t step) {
  return count % kRowsOfTile == 0 && reinterpret_cast<uintptr_t>(rows) % kTileStepBytes == 0 &&
         step % kTileStepBytes == 0 && step % kCrowdedStep != 0;
}

/// Rows of `row_bytes` that meet a panel while it is in the second-level cache: many, so that
/// weights are read from further away less often.
inline int64_t rows_for_tiles(int64_t row_bytes) {
  constexpr int64_t kMostBytes = int64_t{512} << 10, kUnit = 2 * kRowsOfTile;
  return std::clamp<int64_t>(kMostBytes / row_bytes / kUnit * kUnit, 96, 256);
}

/// Part `index` of `parts` of a panel, in whole lines of the cache.
inline std::span<const std::byte> part_of_panel(const std::byte* panel, int64_t bytes,
                                                int64_t index, int64_t parts) {
  constexpr int64_t kLine = 64;
  const int64_t begin = bytes * index / parts / kLine * kLine;
  const int64_t end = bytes * (index + 1) / parts / kLine * kLine;
  return {panel + begin, static_cast<size_t>(end - begin)};
}

/// For 16·row_tiles rows and 16·col_tiles columns, within a TileScope. A result has the same bits
/// wherever it stands: each is summed by itself, in ascending steps.
void multiply_tiles(TileOperands operands, const TileProduct& product, int64_t row_tiles,
                    int64_t col_tiles);

/// Rows of a against a panel of 64 columns; sums [rows][64], with room for whole tiles of rows.
struct TilePanelProduct {
  TileOperands operands;
  const std::byte* a;  ///< as of TileProduct, in whole tiles of rows
  int64_t a_step, rows;
  const std::byte* panel;
  std::byte* sums;
  int64_t steps;
  bool add = false;
  std::span<const std::byte> fetch = {};
};
inline void multiply_panel_on_tiles(const TilePanelProduct& p) {
  constexpr int64_t kTilesOfPanel = 4;
  multiply_tiles(p.operands,
                 {.a = p.a,
                  .a_step = p.a_step,
                  .b = p.panel,
                  .b_step = kTilePanelRowBytes,
                  .c = p.sums,
                  .c_step = kTilePanelRowBytes,  // as many sums of 32 bits
                  .steps = p.steps,
                  .add = p.add,
                  .fetch = p.fetch},
                 (p.rows + kRowsOfTile - 1) / kRowsOfTile, kTilesOfPanel);
}

}  // namespace vernier::backend::cpu
