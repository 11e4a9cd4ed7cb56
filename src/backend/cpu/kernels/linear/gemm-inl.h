// The register-blocked matrix product under linear, matmul, convolution and attention:
//   c[r, j] (+)= Σ_k a[r, k] · b[k, j]      j over one panel of 1 or 2 vectors
// One accumulator per element of c, k from 0 upward, one multiply-add each: the bits of c[r, j]
// depend only on row r of a and column j of b, not on their tile. Included per Highway target.
#if defined(VERNIER_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_GEMM_INL_H_
#undef VERNIER_CPU_GEMM_INL_H_
#else
#define VERNIER_CPU_GEMM_INL_H_
#endif

#include <hwy/highway.h>

#include "backend/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

/// Operands of one panel; steps in elements.
struct PanelProduct {
  const float* a;  // a[r, k] at a + r·a_row_step + k·a_k_step
  int64_t a_row_step, a_k_step;
  const float* b;  // panel row k at b + k·b_step, no alignment required
  int64_t b_step;
  float* c;  // c row r at c + r·c_step
  int64_t c_step;
  int64_t k;
};

enum class Start { kZero, kAdd };  ///< c is overwritten, or added to

// Rows of c in registers: 12 × 2 accumulators with 32 vector registers, 6 × 2 with 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kTileRows = 12;
#else
inline constexpr int kTileRows = 6;
#endif

/// The last column may be partial: `lanes` of the last vector are stored.
template <int kRows, int kVectors, Start kStart>
HWY_INLINE void micro_tile(const PanelProduct& p, int64_t last_lanes) {
  const F32 d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  VF32 acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      if (kStart == Start::kZero)
        acc[r][v] = hn::Zero(d);
      else
        acc[r][v] = hn::LoadU(d, p.c + r * p.c_step + v * width);
    }
  }
  const float* a = p.a;
  const float* b = p.b;
  const int64_t row = p.a_row_step, k_step = p.a_k_step, b_step = p.b_step;
  // Row pointers in groups of three: x86 addresses base, base + row and base + 2·row directly.
  constexpr int kGroups = (kRows + 2) / 3;
  const float* base[kGroups];
  for (int g = 0; g < kGroups; ++g) base[g] = a + 3 * g * row;
  for (int64_t k = 0; k < p.k; ++k) {
    VF32 bv[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) bv[v] = hn::LoadU(d, b + v * width);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const VF32 av = hn::Set(d, base[r / 3][(r % 3) * row]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(av, bv[v], acc[r][v]);
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) base[g] += k_step;
    b += b_step;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v + 1 < kVectors; ++v) hn::StoreU(acc[r][v], d, p.c + r * p.c_step + v * width);
    store_lanes(d, acc[r][kVectors - 1], p.c + r * p.c_step + (kVectors - 1) * width, last_lanes);
  }
}

/// micro_tile for a number of rows known at run time, 1 <= rows <= kRows.
template <int kRows, int kVectors, Start kStart>
HWY_INLINE void tile_of(int64_t rows, const PanelProduct& p, int64_t last_lanes) {
  if (rows == kRows) return micro_tile<kRows, kVectors, kStart>(p, last_lanes);
  if constexpr (kRows > 1) tile_of<kRows - 1, kVectors, kStart>(rows, p, last_lanes);
}

/// `rows` rows of one panel, in tiles of nearly equal height (a small last tile would wait for its
/// own multiply-adds). last_lanes: columns of the panel's last vector that are stored.
template <int kVectors, Start kStart>
HWY_INLINE void multiply_panel(PanelProduct p, int64_t rows, int64_t last_lanes) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = rows * i / tiles, height = rows * (i + 1) / tiles - begin;
    PanelProduct tile = p;
    tile.a += begin * p.a_row_step;
    tile.c += begin * p.c_step;
    tile_of<kTileRows, kVectors, kStart>(height, tile, last_lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
