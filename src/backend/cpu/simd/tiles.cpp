// AMX: see tiles.h. Inline assembly, so that the file needs no flags of the compiler: the compiler
// itself uses no tile registers.
#include "backend/cpu/simd/tiles.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define VERNIER_CPU_TILES 1
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>

#include "core/error.h"

namespace vernier::backend::cpu {

#if VERNIER_CPU_TILES
namespace {

bool cpu_has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBF16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  return (d & kBF16) != 0 && (d & kTile) != 0 && (d & kInt8) != 0;
}

// Linux 5.16 and later give a process the tile registers when it asks; earlier ones refuse.
bool system_grants_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// What ldtilecfg reads: all eight tiles have 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

// Tiles 0 to 3 are sums, 4 and 5 of a, 6 and 7 of b.
template <int kTile>
void load(const std::byte* at, int64_t step) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(at), "r"(step), "i"(kTile) : "memory");
}
template <int kTile>
void store(std::byte* at, int64_t step) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(at), "r"(step), "i"(kTile) : "memory");
}
template <int kTile>
void zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
template <TileOperands kOperands, int kSum, int kA, int kB>
void add_product() {
  if constexpr (kOperands == TileOperands::kUnsignedBytes)
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
  else if constexpr (kOperands == TileOperands::kSignedBytes)
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
  else
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

constexpr int64_t kTileBytes = 64;  // of a row

template <int kTile>
void start(const TileProduct& p, int64_t row, int64_t col) {
  if (p.add)
    load<kTile>(p.c + row * kRowsOfTile * p.c_step + col * kTileBytes, p.c_step);
  else
    zero<kTile>();
}
template <int kTile>
void finish(const TileProduct& p, int64_t row, int64_t col) {
  store<kTile>(p.c + row * kRowsOfTile * p.c_step + col * kTileBytes, p.c_step);
}

// Fetches the lines of an array, the same number in each step.
class Fetch {
 public:
  Fetch(std::span<const std::byte> what, int64_t steps)
      : at_(what.data()), end_(what.data() + what.size()) {
    const auto lines = (static_cast<int64_t>(what.size()) + kLine - 1) / kLine;
    step_ = (lines + steps - 1) / steps * kLine;
  }
  void step() {
    const std::byte* const until = end_ - at_ > step_ ? at_ + step_ : end_;
    for (; at_ < until; at_ += kLine) __builtin_prefetch(at_, 0, 2);
  }

 private:
  static constexpr int64_t kLine = 64;
  const std::byte *at_, *end_;
  int64_t step_;
};

// kRows × kCols tiles of sums, at most 2 × 2.
template <TileOperands kOperands, int kRows, int kCols>
void multiply(const TileProduct& p, Fetch& fetch) {
  start<0>(p, 0, 0);
  if constexpr (kCols > 1) start<1>(p, 0, 1);
  if constexpr (kRows > 1) start<2>(p, 1, 0);
  if constexpr (kRows > 1 && kCols > 1) start<3>(p, 1, 1);
  const std::byte *a = p.a, *b = p.b;
  for (int64_t step = 0; step < p.steps; ++step) {
    // All loads first: measured 1.3 to 2.5 times as fast as loads between the products.
    load<4>(a, p.a_step);
    if constexpr (kRows > 1) load<5>(a + kRowsOfTile * p.a_step, p.a_step);
    load<6>(b, p.b_step);
    if constexpr (kCols > 1) load<7>(b + kTileBytes, p.b_step);
    fetch.step();
    add_product<kOperands, 0, 4, 6>();
    if constexpr (kCols > 1) add_product<kOperands, 1, 4, 7>();
    if constexpr (kRows > 1) add_product<kOperands, 2, 5, 6>();
    if constexpr (kRows > 1 && kCols > 1) add_product<kOperands, 3, 5, 7>();
    a += kTileStepBytes;
    b += 16 * p.b_step;
  }
  finish<0>(p, 0, 0);
  if constexpr (kCols > 1) finish<1>(p, 0, 1);
  if constexpr (kRows > 1) finish<2>(p, 1, 0);
  if constexpr (kRows > 1 && kCols > 1) finish<3>(p, 1, 1);
}

template <TileOperands kOperands>
void multiply_all(const TileProduct& product, int64_t row_tiles, int64_t col_tiles) {
  const int64_t parts = (row_tiles + 1) / 2 * ((col_tiles + 1) / 2);
  Fetch fetch(product.fetch, std::max<int64_t>(1, parts * product.steps));
  for (int64_t row = 0; row < row_tiles; row += 2) {
    for (int64_t col = 0; col < col_tiles; col += 2) {
      TileProduct p = product;
      p.a += row * kRowsOfTile * p.a_step;
      p.b += col * kTileBytes;
      p.c += row * kRowsOfTile * p.c_step + col * kTileBytes;
      const bool two_rows = row + 1 < row_tiles, two_cols = col + 1 < col_tiles;
      if (two_rows && two_cols)
        multiply<kOperands, 2, 2>(p, fetch);
      else if (two_rows)
        multiply<kOperands, 2, 1>(p, fetch);
      else if (two_cols)
        multiply<kOperands, 1, 2>(p, fetch);
      else
        multiply<kOperands, 1, 1>(p, fetch);
    }
  }
}

}  // namespace

bool has_tiles() {
  static const bool has = cpu_has_tiles() && system_grants_tiles();
  return has;
}

TileScope::TileScope() {
  static constexpr TileShapes kShapes;
  asm volatile("ldtilecfg %0" ::"m"(kShapes));
}
TileScope::~TileScope() { asm volatile("tilerelease"); }

void multiply_tiles(TileOperands operands, const TileProduct& product, int64_t row_tiles,
                    int64_t col_tiles) {
  switch (operands) {
    case TileOperands::kUnsignedBytes:
      return multiply_all<TileOperands::kUnsignedBytes>(product, row_tiles, col_tiles);
    case TileOperands::kSignedBytes:
      return multiply_all<TileOperands::kSignedBytes>(product, row_tiles, col_tiles);
    case TileOperands::kBF16:
      return multiply_all<TileOperands::kBF16>(product, row_tiles, col_tiles);
  }
}

#else

bool has_tiles() { return false; }
TileScope::TileScope() { VERNIER_ASSERT(false, "this build has no tile products"); }
TileScope::~TileScope() = default;
void multiply_tiles(TileOperands, const TileProduct&, int64_t, int64_t) {
  VERNIER_ASSERT(false, "this build has no tile products");
}

#endif

}  // namespace vernier::backend::cpu
