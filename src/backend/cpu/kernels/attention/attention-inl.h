// The tile code of cpu.attention.blocked. Contract: attention.cpp. Included once per target.
//
// Scores are stored transposed, [key][query]: a query is one vector lane, a key one multiply-add of
// that lane. Keys and values are read in place (broadcast loads), maxima and sums over keys need no
// horizontal steps, and every lane does the same operations in the same order: the bits of a query
// row depend only on its query, its keys and their mask.
#if defined(VERNIER_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_ATTENTION_INL_H_
#undef VERNIER_CPU_ATTENTION_INL_H_
#else
#define VERNIER_CPU_ATTENTION_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "backend/cpu/kernels/attention/attention_masks-inl.h"
#include "backend/cpu/kernels/elementwise/quantize_rows-inl.h"
#include "backend/cpu/kernels/linear/gemm-inl.h"
#include "backend/cpu/simd/convert-inl.h"
#include "backend/cpu/simd/math-inl.h"
#include "backend/cpu/simd/tiles.h"
#include "backend/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

/// Scratch of one thread: scores of one tile, a key block's copies, and per tile of the group the
/// packed queries, the unnormalized context, the running maxima and sums.
struct TileScratch {
  float *scores, *keys, *values;
  float *queries, *context, *maxima, *sums;  // of tile 0; next tile at + *_step
  int64_t query_step, context_step;

  TileScratch(float* base, int64_t head_dim, int64_t value_dim) {
    const int64_t tile = tile_queries();
    const auto take = [&base](int64_t elems) {
      float* at = base;
      base += (elems + 15) / 16 * 16;
      return at;
    };
    scores = take(kKeyBlock * tile);
    keys = take(kKeyBlock * (head_dim + kRowSpread));
    values = take(kKeyBlock * (value_dim + kRowSpread));
    query_step = head_dim * tile;
    context_step = value_dim * tile;
    queries = take(query_step * kTilesPerGroup);
    context = take(context_step * kTilesPerGroup);
    maxima = take(tile * kTilesPerGroup);
    sums = take(tile * kTilesPerGroup);
    end = base;
  }
  float* end;
};

/// Rows of q, k, v or out of one head as they are stored: row i at data + i·step elements.
struct StoredRows {
  std::byte* data;
  int64_t step;
  DType dtype;
  std::byte* row(int64_t i) const {
    return data + i * step * static_cast<int64_t>(size_bytes(dtype));
  }
};
HWY_INLINE StoredRows head_rows(const TensorArg& t, int64_t batch, int64_t row, int64_t head) {
  const int64_t at = batch * t.strides[0] + row * t.strides[1] + head * t.strides[2];
  return {t.data + at * static_cast<int64_t>(size_bytes(t.dtype)), t.strides[1], t.dtype};
}

/// Asks for rows into the second-level cache.
HWY_INLINE void fetch_rows(const StoredRows& rows, int64_t count, int64_t width) {
  constexpr int64_t kLine = 64;
  const int64_t bytes = width * static_cast<int64_t>(size_bytes(rows.dtype));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(rows.row(i) + at, 0, 2);
  }
}

/// The same in f32: row i at data + i·step.
struct HeadView {
  const float* data;
  int64_t step;
};
HWY_INLINE HeadView view_in_place(const StoredRows& stored) {
  return {reinterpret_cast<const float*>(stored.data), stored.step};
}
HWY_INLINE HeadView copy_rows(const StoredRows& stored, int64_t rows, int64_t width, float* dst) {
  const int64_t step = width + kRowSpread;
  for (int64_t i = 0; i < rows; ++i)
    widen_elems(stored.dtype, stored.row(i), dst + i * step, width);
  return {dst, step};
}
/// The rows in place, or a copy in `dst`. Rows whose step is a multiple of 1 KiB are copied too,
/// because they share a few sets of the first-level cache.
HWY_INLINE HeadView block_view(const StoredRows& stored, int64_t rows, int64_t width, float* dst) {
  const bool in_place = stored.dtype == DType::kF32 && stored.step % 256 != 0;
  return in_place ? view_in_place(stored) : copy_rows(stored, rows, width, dst);
}

/// True if no element of rows [begin, end) of one head of `t` is NaN or infinite.
inline bool RowsAreFinite(const TensorArg& t, int64_t batch, int64_t head, int64_t begin,
                          int64_t end) {
  const F32 d;
  VF32 differences = hn::Zero(d);  // x - x is 0 or NaN
  const StoredRows rows = head_rows(t, batch, begin, head);
  for (int64_t i = 0; i < end - begin; ++i) {
    for_each_vector(d, t.dim(3), [&](int64_t c, int64_t lanes) {
      const VF32 x = load_floats(d, rows.dtype, rows.row(i), c, lanes);
      differences = hn::Or(differences, hn::Sub(x, x));
    });
  }
  return hn::AllTrue(d, hn::Eq(differences, hn::Zero(d)));
}

/// packed[d][lane] = scale · q[lane][d]; lanes past `queries` are 0.
HWY_INLINE void pack_queries(const HeadView& q, int64_t queries, int64_t head_dim, float scale,
                             float* packed) {
  const F32 d;
  const int64_t tile = tile_queries();
  if (queries < tile) std::memset(packed, 0, static_cast<size_t>(head_dim * tile) * sizeof(float));
  transpose_block(q.data, q.step, packed, tile, queries, head_dim);
  const VF32 factor = hn::Set(d, scale);
  for (int64_t i = 0; i < head_dim * tile; i += lanes_of_f32())
    hn::StoreU(hn::Mul(hn::LoadU(d, packed + i), factor), d, packed + i);
}

// ---- products of pairs of bf16 numbers: two multiply-adds per lane and instruction

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
inline constexpr bool kHasPairs = true;
#else
inline constexpr bool kHasPairs = false;
#endif

/// c[r, lane] (+)= Σ_k a[r, k]·b[k, lane] over pairs: a pair is two bf16 numbers of consecutive k,
/// the first in the lower half. Steps of a in bytes, of b and c in lanes.
struct PairProduct {
  const std::byte* a;
  int64_t a_row_step, a_pair_step;
  const uint32_t* b;
  int64_t b_step;
  float* c;
  int64_t c_step;
  int64_t pairs;
  float scale;  ///< of the sums, if c is overwritten
};

HWY_INLINE VF32 add_pair_products(VF32 sums, VU32 a, VU32 b) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // AVX3 as Highway compiles it has no BF16; the instruction is there (cpu_has_bf16).
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(b.raw), "v"(a.raw));
#else
  (void)a, (void)b;
#endif
  return sums;
}

template <int kRows, int kVectors, Start kStart>
HWY_INLINE void micro_pairs(const PairProduct& p) {
  const F32 d;
  const U32 du;
  const int64_t width = lanes_of_f32();
  VF32 acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      acc[r][v] =
          kStart == Start::kZero ? hn::Zero(d) : hn::LoadU(d, p.c + r * p.c_step + v * width);
  }
  const std::byte* a = p.a;
  const uint32_t* b = p.b;
  for (int64_t k = 0; k < p.pairs; ++k) {
    VU32 bv[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) bv[v] = hn::LoadU(du, b + v * width);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      uint32_t pair;
      std::memcpy(&pair, a + r * p.a_row_step, sizeof(pair));
      const VU32 av = hn::Set(du, pair);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = add_pair_products(acc[r][v], av, bv[v]);
    }
    a += p.a_pair_step;
    b += p.b_step;
  }
  const VF32 scale = hn::Set(d, p.scale);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const VF32 sum = kStart == Start::kZero ? hn::Mul(acc[r][v], scale) : acc[r][v];
      hn::StoreU(sum, d, p.c + r * p.c_step + v * width);
    }
  }
}

template <int kRows, int kVectors, Start kStart>
HWY_INLINE void pairs_of(int64_t rows, const PairProduct& p) {
  if (rows == kRows) return micro_pairs<kRows, kVectors, kStart>(p);
  if constexpr (kRows > 1) pairs_of<kRows - 1, kVectors, kStart>(rows, p);
}

template <int kVectors, Start kStart>
HWY_INLINE void multiply_pairs(const PairProduct& p, int64_t rows) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = rows * i / tiles, height = rows * (i + 1) / tiles - begin;
    PairProduct tile = p;
    tile.a += begin * p.a_row_step;
    tile.c += begin * p.c_step;
    pairs_of<kTileRows, kVectors, kStart>(height, tile);
  }
}

/// Lanes of two rows, rounded to bf16, as pairs.
HWY_INLINE VU32 pairs_of_rows(VF32 low, VF32 high) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  __m512i halves;  // low, then high
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(high.raw), "v"(low.raw));
  HWY_ALIGN static constexpr uint16_t kInTurns[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return VU32{_mm512_permutexvar_epi16(_mm512_load_si512(kInTurns), halves)};
#else
  return hn::Or(hn::ShiftRight<16>(round_to_bf16(low)), round_to_bf16(high));
#endif
}

/// packed[d / 2][lane] = elements d and d + 1 of row `lane`; lanes past `queries` are 0.
HWY_INLINE void pack_query_pairs(const StoredRows& q, int64_t queries, int64_t head_dim,
                                 uint32_t* packed) {
  const int64_t tile = tile_queries(), pairs = head_dim / 2;
  if (queries < tile) std::memset(packed, 0, static_cast<size_t>(pairs * tile) * sizeof(uint32_t));
  if (q.step % 2 == 0 && reinterpret_cast<uintptr_t>(q.data) % sizeof(float) == 0) {
    // Only moved: a pair is as wide as a float.
    return transpose_block(reinterpret_cast<const float*>(q.data), q.step / 2,
                           reinterpret_cast<float*>(packed), tile, queries, pairs);
  }
  for (int64_t l = 0; l < queries; ++l) {
    for (int64_t i = 0; i < pairs; ++i)
      std::memcpy(packed + i * tile + l, q.row(l) + i * 4, sizeof(uint32_t));
  }
}

/// Rows of k in place, or a copy where their step would crowd a few sets of the cache.
HWY_INLINE StoredRows key_rows(const StoredRows& k, int64_t keys, int64_t head_dim,
                               std::byte* copy) {
  if (k.step % 512 != 0) return k;
  const StoredRows rows{copy, head_dim + 2 * kRowSpread, DType::kBF16};
  for (int64_t j = 0; j < keys; ++j)
    std::memcpy(rows.row(j), k.row(j), static_cast<size_t>(head_dim) * sizeof(uint16_t));
  return rows;
}

/// pairs[j / 2][c] = v[j][c] and v[j + 1][c]; behind the last key 0.
HWY_INLINE void pair_values(const StoredRows& v, int64_t keys, int64_t value_dim, int64_t step,
                            uint32_t* pairs) {
  const F32 d;
  const U32 du;
  for (int64_t j = 0; j < keys; j += 2) {
    uint32_t* row = pairs + j / 2 * step;
    const auto* low = reinterpret_cast<const uint16_t*>(v.row(j));
    const auto* high = j + 1 < keys ? reinterpret_cast<const uint16_t*>(v.row(j + 1)) : nullptr;
    for_each_vector(d, value_dim, [&](int64_t c, int64_t lanes) {
      VU32 pair = hn::PromoteTo(du, load_halves(low + c, lanes));
      if (high != nullptr)
        pair = hn::Or(pair, hn::ShiftLeft<16>(hn::PromoteTo(du, load_halves(high + c, lanes))));
      // Rows have room for whole vectors (kRowSpread).
      hn::StoreU(pair, du, row + c);
    });
  }
}

/// A key block: keys are bf16 rows, values pairs of keys, [pair][c] or for tiles [c][pair].
struct PairView {
  StoredRows keys;
  const uint32_t* values;
  int64_t value_step;
};

// ---- the same products on tile registers, where sizes are whole tiles

/// Keys that one step of a product with probabilities takes, as pairs.
constexpr int64_t kTilePairs = kTileStepBytes / 4;

/// Rows of k in place where tiles can be read there, else a copy with whole tiles of rows.
HWY_INLINE StoredRows tile_keys(const StoredRows& k, int64_t keys, int64_t head_dim,
                                std::byte* copy) {
  constexpr int64_t kElem = sizeof(uint16_t), kLine = kTileStepBytes / kElem;
  if (tiles_read_in_place(k.data, keys, k.step * kElem)) return k;
  const auto bytes = static_cast<size_t>(head_dim * kElem);
  const StoredRows rows{copy, head_dim + kLine, DType::kBF16};
  int64_t j = 0;
  for (; j < keys; ++j) std::memcpy(rows.row(j), k.row(j), bytes);
  for (; j % kRowsOfTile != 0; ++j) std::memset(rows.row(j), 0, bytes);
  return rows;
}

/// values[c][pair] = v[2·pair][c] and v[2·pair + 1][c]; behind the last key 0, for whole steps.
HWY_INLINE PairView tile_view(const StoredRows& k, const StoredRows& v, int64_t keys,
                              int64_t head_dim, int64_t value_dim, const TileScratch& s) {
  constexpr int64_t kStep = kKeyBlock / 2;
  static_assert(kStep % kTilePairs == 0);
  // Both fit what f32 rows of values take.
  auto* pairs = reinterpret_cast<uint32_t*>(s.values);
  const int64_t step = value_dim + kRowSpread, used = (keys + 1) / 2,
                whole = (used + kTilePairs - 1) / kTilePairs * kTilePairs;
  pair_values(v, keys, value_dim, step, pairs);
  for (int64_t j = used; j < whole; ++j)
    std::memset(pairs + j * step, 0, static_cast<size_t>(value_dim) * sizeof(uint32_t));
  uint32_t* values = pairs + kStep * step;
  transpose_block(pairs, step, values, kStep, whole, value_dim);
  return {tile_keys(k, keys, head_dim, reinterpret_cast<std::byte*>(s.keys)), values, kStep};
}
HWY_INLINE PairView pair_view(const StoredRows& k, const StoredRows& v, int64_t keys,
                              int64_t head_dim, int64_t value_dim, const TileScratch& s) {
  const int64_t step = (value_dim + kRowSpread - 1) / kRowSpread * kRowSpread + kRowSpread;
  auto* pairs = reinterpret_cast<uint32_t*>(s.values);
  pair_values(v, keys, value_dim, step, pairs);
  return {key_rows(k, keys, head_dim, reinterpret_cast<std::byte*>(s.keys)), pairs, step};
}

/// One step of the running softmax on one tile: scores become probabilities relative to the new
/// maxima; the sums and the context so far are rescaled. With kPairs the probabilities of keys j
/// and j + 1 are written as a row of pairs, j / 2.
template <int kVectors, bool kPairs = false>
HWY_INLINE void softmax_step(float* scores, int64_t keys, const TileScratch& s, int64_t tile_index,
                             int64_t value_dim, bool first) {
  const F32 d;
  const int64_t tile = tile_queries(), width = lanes_of_f32();
  const VF32 lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  float* maxima = s.maxima + tile_index * tile;
  float* sums = s.sums + tile_index * tile;
  float* context = s.context + tile_index * s.context_step;
  for (int64_t v = 0; v < kVectors; ++v) {
    float* column = scores + v * width;
    const VF32 old_max = first ? lowest : hn::Load(d, maxima + v * width);
    VF32 max0 = old_max, max1 = old_max;
    int64_t j = 0;
    for (; j + 2 <= keys; j += 2) {
      max0 = hn::Max(max0, hn::LoadU(d, column + j * tile));
      max1 = hn::Max(max1, hn::LoadU(d, column + (j + 1) * tile));
    }
    if (j < keys) max0 = hn::Max(max0, hn::LoadU(d, column + j * tile));
    const VF32 max = hn::Max(max0, max1);
    // While every key so far is masked with -inf, exp(-inf - 0) = 0 keeps the sum at 0.
    const VF32 base = hn::IfThenElse(hn::Eq(max, lowest), hn::Zero(d), max);
    VF32 sum = hn::Zero(d);
    if (!first) {
      const VF32 alpha = exp_normal_f32(d, hn::Sub(old_max, base));
      sum = hn::Mul(hn::Load(d, sums + v * width), alpha);
      // A factor of 1 changes no bits: skip the pass over the context.
      if (!hn::AllTrue(d, hn::Eq(alpha, hn::Set(d, 1.0f)))) {
        for (int64_t c = 0; c < value_dim; ++c) {
          float* at = context + c * tile + v * width;
          hn::Store(hn::Mul(hn::Load(d, at), alpha), d, at);
        }
      }
    }
    const auto probability = [&](int64_t key) HWY_ATTR {
      const VF32 x = hn::Sub(hn::LoadU(d, column + key * tile), base);
      const VF32 p = kPairs ? exp_for_bf16(d, x) : exp_normal_f32(d, x);
      sum = hn::Add(sum, p);
      return p;
    };
    for (j = 0; kPairs && j < keys; j += 2) {
      const VF32 low = probability(j), high = j + 1 < keys ? probability(j + 1) : hn::Zero(d);
      hn::StoreU(hn::BitCast(d, pairs_of_rows(low, high)), d, column + j / 2 * tile);
    }
    for (; !kPairs && j < keys; ++j) hn::StoreU(probability(j), d, column + j * tile);
    hn::Store(max, d, maxima + v * width);
    hn::Store(sum, d, sums + v * width);
  }
}

/// One key block on one tile: scores, masks, softmax step, context.
template <int kVectors>
HWY_INLINE void attend_block(const AttentionRun& run, const TilePlace& place, const HeadView& k,
                             const HeadView& v, int64_t keys, const Hiding& hide,
                             const TileScratch& s, int64_t tile_index, bool first) {
  const int64_t tile = tile_queries(), width = lanes_of_f32();
  const int64_t head_dim = run.q.dim(3), value_dim = run.v.dim(3);
  multiply_panel<kVectors, Start::kZero>({.a = k.data,
                                          .a_row_step = k.step,
                                          .a_k_step = 1,
                                          .b = s.queries + tile_index * s.query_step,
                                          .b_step = tile,
                                          .c = s.scores,
                                          .c_step = tile,
                                          .k = head_dim},
                                         keys, width);
  add_masks(run, place, keys, hide, s.scores);
  softmax_step<kVectors>(s.scores, keys, s, tile_index, value_dim, first);
  const PanelProduct product{.a = v.data,
                             .a_row_step = 1,
                             .a_k_step = v.step,
                             .b = s.scores,
                             .b_step = tile,
                             .c = s.context + tile_index * s.context_step,
                             .c_step = tile,
                             .k = keys};
  if (first)
    multiply_panel<kVectors, Start::kZero>(product, value_dim, width);
  else
    multiply_panel<kVectors, Start::kAdd>(product, value_dim, width);
}

/// The same in pairs.
template <int kVectors>
HWY_INLINE void attend_pairs(const AttentionRun& run, const TilePlace& place, const PairView& kv,
                             int64_t keys, const Hiding& hide, const TileScratch& s,
                             int64_t tile_index, bool first) {
  const int64_t tile = tile_queries();
  const int64_t head_dim = run.q.dim(3), value_dim = run.v.dim(3);
  multiply_pairs<kVectors, Start::kZero>(
      {.a = kv.keys.data,
       .a_row_step = kv.keys.step * 2,
       .a_pair_step = 4,
       .b = reinterpret_cast<const uint32_t*>(s.queries + tile_index * s.query_step),
       .b_step = tile,
       .c = s.scores,
       .c_step = tile,
       .pairs = head_dim / 2,
       .scale = run.scale},
      keys);
  add_masks(run, place, keys, hide, s.scores);
  softmax_step<kVectors, true>(s.scores, keys, s, tile_index, value_dim, first);
  const PairProduct product{.a = reinterpret_cast<const std::byte*>(kv.values),
                            .a_row_step = 4,
                            .a_pair_step = kv.value_step * 4,
                            .b = reinterpret_cast<const uint32_t*>(s.scores),
                            .b_step = tile,
                            .c = s.context + tile_index * s.context_step,
                            .c_step = tile,
                            .pairs = (keys + 1) / 2,
                            .scale = 1};
  if (first)
    multiply_pairs<kVectors, Start::kZero>(product, value_dim);
  else
    multiply_pairs<kVectors, Start::kAdd>(product, value_dim);
}

/// The same on tile registers.
template <int kVectors>
HWY_INLINE void attend_tiles(const AttentionRun& run, const TilePlace& place, const PairView& kv,
                             int64_t keys, const Hiding& hide, const TileScratch& s,
                             int64_t tile_index, bool first) {
  const F32 d;
  const int64_t tile = tile_queries(), width = lanes_of_f32();
  const int64_t row_bytes = tile * static_cast<int64_t>(sizeof(float));
  const int64_t head_dim = run.q.dim(3), value_dim = run.v.dim(3);
  multiply_tiles(TileOperands::kBF16,
                 {.a = kv.keys.data,
                  .a_step = kv.keys.step * 2,
                  .b = reinterpret_cast<const std::byte*>(s.queries + tile_index * s.query_step),
                  .b_step = row_bytes,
                  .c = reinterpret_cast<std::byte*>(s.scores),
                  .c_step = row_bytes,
                  .steps = head_dim * 2 / kTileStepBytes,
                  .add = false},
                 (keys + kRowsOfTile - 1) / kRowsOfTile, kVectors);
  const VF32 scale = hn::Set(d, run.scale);
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t v = 0; v < kVectors; ++v) {
      float* at = s.scores + j * tile + v * width;
      hn::Store(hn::Mul(hn::Load(d, at), scale), d, at);
    }
  }
  add_masks(run, place, keys, hide, s.scores);
  softmax_step<kVectors, true>(s.scores, keys, s, tile_index, value_dim, first);
  const int64_t pairs = (keys + 1) / 2, steps = (pairs + kTilePairs - 1) / kTilePairs;
  std::memset(s.scores + pairs * tile, 0,
              static_cast<size_t>((steps * kTilePairs - pairs) * row_bytes));
  multiply_tiles(TileOperands::kBF16,
                 {.a = reinterpret_cast<const std::byte*>(kv.values),
                  .a_step = kv.value_step * 4,
                  .b = reinterpret_cast<const std::byte*>(s.scores),
                  .b_step = row_bytes,
                  .c = reinterpret_cast<std::byte*>(s.context + tile_index * s.context_step),
                  .c_step = row_bytes,
                  .steps = steps,
                  .add = !first},
                 value_dim / kRowsOfTile, kVectors);
}

/// True if keep hides all keys of `query`.
HWY_INLINE bool keep_hides_all(const AttentionRun& run, const AttentionTask& task, int64_t query) {
  const auto keeps = [&](const ScoreTable& table, int64_t key) {
    if (table.data == nullptr) return true;
    const int64_t at =
        task.batch * table.batch + task.head * table.head + query * table.query + key * table.key;
    return table.data[at] != std::byte{0};
  };
  if (!keeps(run.keep_queries, 0)) return true;
  for (int64_t j = 0; j < task.keys; ++j) {
    if (keeps(run.keep, task.k_begin + j)) return false;
  }
  return true;
}

/// True if bias, keep and causal add -inf to all scores of `query`.
HWY_INLINE bool all_hidden(const AttentionRun& run, const AttentionTask& task, int64_t query) {
  const auto at = [&](const ScoreTable& table, int64_t key) {
    return task.batch * table.batch + task.head * table.head + query * table.query +
           key * table.key;
  };
  const ScoreTable& queries = run.keep_queries;
  const bool hides_query = queries.data != nullptr && queries.data[at(queries, 0)] == std::byte{0};
  const int64_t visible = query - task.sequence_q_begin + task.causal_offset;
  for (int64_t j = 0; j < task.keys; ++j) {
    const int64_t key = task.k_begin + j;
    bool hidden = hides_query || (run.causal && j > visible);
    if (run.keep.data != nullptr)
      hidden = hidden || run.keep.data[at(run.keep, key)] == std::byte{0};
    float added = hidden ? -std::numeric_limits<float>::infinity() : 0.0f;
    if (run.bias.data != nullptr) added += bias_at(run.bias, at(run.bias, key));
    if (added != -std::numeric_limits<float>::infinity()) return false;
  }
  return true;
}

/// A row whose probabilities are all 0: 0 · v is 0 unless some v is NaN or infinite.
HWY_INLINE void zero_row(const AttentionRun& run, const AttentionTask& task, float* row) {
  const int64_t value_dim = run.v.dim(3);
  std::fill(row, row + value_dim, 0.0f);
  const F32 d;
  const StoredRows v = head_rows(run.v, task.batch, task.k_begin, task.head / run.heads_per_kv);
  for (int64_t j = 0; j < task.keys; ++j) {
    for_each_vector(d, value_dim, [&](int64_t c, int64_t lanes) {
      const VF32 product = hn::Mul(hn::Zero(d), load_floats(d, v.dtype, v.row(j), c, lanes));
      store_lanes(d, hn::Add(load_lanes(d, row + c, lanes), product), row + c, lanes);
    });
  }
}

/// out[query][c] = context[c][query] / sum[query].
HWY_INLINE void store_tile(const AttentionRun& run, const AttentionTask& task, int64_t first_query,
                           int64_t queries, const TileScratch& s, int64_t tile_index) {
  const F32 d;
  const int64_t tile = tile_queries(), value_dim = run.v.dim(3);
  float* context = s.context + tile_index * s.context_step;
  const float* sums = s.sums + tile_index * tile;
  for (int64_t c = 0; c < value_dim; ++c) {
    for (int64_t l = 0; l < queries; l += lanes_of_f32()) {
      float* at = context + c * tile + l;
      hn::Store(hn::Div(hn::Load(d, at), hn::Load(d, sums + l)), d, at);
    }
  }
  // 16-bit rows are written into the memory of the value copies: 96 rows have room for a tile.
  const StoredRows out = head_rows(run.out, task.batch, first_query, task.head);
  const bool in_place = out.dtype == DType::kF32;
  float* dst = in_place ? reinterpret_cast<float*>(out.data) : s.values;
  const int64_t step = in_place ? out.step : value_dim;
  transpose_block(context, tile, dst, step, value_dim, queries);
  for (int64_t l = 0; l < queries; ++l) {
    float* row = dst + l * step;
    // A sum that is not positive is NaN, or belongs to a row that is all -inf.
    const int64_t query = first_query + l;
    const bool hidden =
        (run.zero_hidden_rows && keep_hides_all(run, task, query)) ||
        (!(sums[l] > 0) && (run.zero_nan_rows || (run.masks_add && all_hidden(run, task, query))));
    if (hidden) zero_row(run, task, row);
    if (!in_place) narrow_elems(out.dtype, row, out.row(l), value_dim);
    if (run.next.q != nullptr) {
      const int64_t out_row = task.batch * run.out.dim(1) + query;
      quantize_given(run.next.at(out_row, task.head * value_dim), out.dtype, out.row(l), value_dim);
    }
  }
}

/// adds[key] = the key is not finite, for a block of keys that starts at row `begin` of k.
/// False if all of them are finite.
HWY_INLINE bool find_not_finite(const AttentionRun& run, int64_t batch, int64_t kv_head,
                                int64_t begin, int64_t keys, bool* adds) {
  if (run.finite.covers(batch, kv_head, begin, begin + keys, FiniteRows::kKeys)) return false;
  for (int64_t j = 0; j < keys; ++j)
    adds[j] = !RowsAreFinite(run.k, batch, kv_head, begin + j, begin + j + 1);
  return true;
}

/// Asks for the queries and the first keys and values of a task.
HWY_INLINE void fetch_task(const AttentionRun& run, const AttentionTask& task) {
  const int64_t kv_head = task.head / run.heads_per_kv, keys = std::min(kKeyBlock, task.keys);
  fetch_rows(head_rows(run.q, task.batch, task.q_begin, task.head), task.queries, run.q.dim(3));
  fetch_rows(head_rows(run.k, task.batch, task.k_begin, kv_head), keys, run.k.dim(3));
  fetch_rows(head_rows(run.v, task.batch, task.k_begin, kv_head), keys, run.v.dim(3));
}

/// All keys for the tiles of one task.
inline void AttendTask(const AttentionRun& run, const AttentionTask& task, int part) {
  const int64_t tile = tile_queries(), width = lanes_of_f32();
  const int64_t head_dim = run.q.dim(3), value_dim = run.v.dim(3);
  const TileScratch s(run.scratch + part * run.scratch_step, head_dim, value_dim);
  const bool on_tiles = kHasPairs && run.on_tiles;
  std::optional<TileScope> tile_shapes;
  if (on_tiles) tile_shapes.emplace();
  const int64_t tiles = (task.queries + tile - 1) / tile;
  if (task.next != nullptr) fetch_task(run, *task.next);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t queries = std::min(tile, task.queries - t * tile);
    const StoredRows q = head_rows(run.q, task.batch, task.q_begin + t * tile, task.head);
    if (kHasPairs && run.bf16_products) {
      pack_query_pairs(q, queries, head_dim,
                       reinterpret_cast<uint32_t*>(s.queries + t * s.query_step));
      continue;
    }
    const bool in_place = q.dtype == DType::kF32;
    pack_queries(in_place ? view_in_place(q) : copy_rows(q, queries, head_dim, s.keys), queries,
                 head_dim, run.scale, s.queries + t * s.query_step);
  }
  // Keys hidden from every query of the task have probability 0 and add 0 · v, which is 0 if v is
  // finite. With a finite fill their probability may not be 0.
  const bool skip_hidden = run.causal && run.fill == -std::numeric_limits<float>::infinity();
  const uint8_t must_be_finite =
      FiniteRows::kValues | (run.masks_add ? FiniteRows::kKeys : uint8_t{0});
  const bool may_add =
      run.masks_add && (run.causal || run.keep.data != nullptr || run.keep_queries.data != nullptr);
  bool adds[kKeyBlock];
  const int64_t kv_head = task.head / run.heads_per_kv;
  const int64_t first_visible = task.q_begin - task.sequence_q_begin + task.causal_offset;
  for (int64_t key = 0; key < task.keys; key += kKeyBlock) {
    if (skip_hidden && key > 0 && key > first_visible + task.queries - 1 &&
        run.finite.covers(task.batch, kv_head, task.k_begin + key, task.k_begin + task.keys,
                          must_be_finite))
      break;
    const int64_t keys = std::min(kKeyBlock, task.keys - key);
    const bool pairs = kHasPairs && run.bf16_products;
    const StoredRows stored_k = head_rows(run.k, task.batch, task.k_begin + key, kv_head);
    const StoredRows stored_v = head_rows(run.v, task.batch, task.k_begin + key, kv_head);
    HeadView k{}, v{};
    PairView kv{};
    if (on_tiles) {
      kv = tile_view(stored_k, stored_v, keys, head_dim, value_dim, s);
    } else if (pairs) {
      kv = pair_view(stored_k, stored_v, keys, head_dim, value_dim, s);
    } else {
      k = block_view(stored_k, keys, head_dim, s.keys);
      v = block_view(stored_v, keys, value_dim, s.values);
    }
    const bool any_adds =
        may_add && find_not_finite(run, task.batch, kv_head, task.k_begin + key, keys, adds);
    const Hiding hide{run.fill, any_adds ? adds : nullptr};
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t first_query = t * tile, queries = std::min(tile, task.queries - first_query);
      const TilePlace place{
          .batch = task.batch,
          .head = task.head,
          .query = task.q_begin + first_query,
          .queries = queries,
          .key = task.k_begin + key,
          .visible = first_visible + first_query - key,
          .bucket = task.q_begin - task.sequence_q_begin + first_query - key + run.no_distance};
      if (on_tiles && queries > width)
        attend_tiles<2>(run, place, kv, keys, hide, s, t, key == 0);
      else if (on_tiles)
        attend_tiles<1>(run, place, kv, keys, hide, s, t, key == 0);
      else if (pairs && queries > width)
        attend_pairs<2>(run, place, kv, keys, hide, s, t, key == 0);
      else if (pairs)
        attend_pairs<1>(run, place, kv, keys, hide, s, t, key == 0);
      else if (queries > width)
        attend_block<2>(run, place, k, v, keys, hide, s, t, key == 0);
      else
        attend_block<1>(run, place, k, v, keys, hide, s, t, key == 0);
    }
  }
  for (int64_t t = 0; t < tiles; ++t) {
    store_tile(run, task, task.q_begin + t * tile, std::min(tile, task.queries - t * tile), s, t);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
