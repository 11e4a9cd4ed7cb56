// What masks, biases and relative positions add to the scores of a tile, or replace in them. Part
// of attention-inl.h. Included once per target.
#if defined(VERNIER_CPU_ATTENTION_MASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_ATTENTION_MASKS_INL_H_
#undef VERNIER_CPU_ATTENTION_MASKS_INL_H_
#else
#define VERNIER_CPU_ATTENTION_MASKS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/simd/convert-inl.h"
#include "backend/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

using I32 = hn::Rebind<int32_t, F32>;
using VI32 = hn::Vec<I32>;

HWY_INLINE int64_t lanes_of_f32() { return static_cast<int64_t>(hn::Lanes(F32())); }
HWY_INLINE int64_t tile_queries() { return 2 * lanes_of_f32(); }

/// The position of a tile's queries in the mask tables.
struct TilePlace {
  int64_t batch, head, query, queries;  // query: row of q of lane 0
  int64_t key;                          // row of k of the block's first key
  int64_t visible;                      // lane l sees key j of the block iff j <= visible + l
  int64_t bucket;                       // of lane 0 and the block's first key
};

template <class Lane>
HWY_INLINE void gather_lanes(const ScoreTable& table, const TilePlace& place, int64_t key,
                             const Lane& lane) {
  const int64_t at = place.batch * table.batch + place.head * table.head +
                     place.query * table.query + (place.key + key) * table.key;
  for (int64_t l = 0; l < place.queries; ++l) lane(l, at + l * table.query);
}

/// Element `at` of a bias.
HWY_INLINE float bias_at(const ScoreTable& bias, int64_t at) {
  if (bias.dtype == DType::kF32) return reinterpret_cast<const float*>(bias.data)[at];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(bias.data)[at];
  return bias.dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

/// part[key][lane] = bias of `count` keys (at most kBiasKeys) from element `at` of lane 0 on.
constexpr int64_t kBiasKeys = 16;
HWY_INLINE void transpose_bias(const ScoreTable& bias, int64_t at, int64_t queries, int64_t count,
                               float* part) {
  const int64_t tile = tile_queries();
  if (bias.key == 1 && bias.dtype == DType::kF32) {
    return transpose_block(reinterpret_cast<const float*>(bias.data) + at, bias.query, part, tile,
                           queries, count);
  }
  if (bias.key == 1) {
    HWY_ALIGN float rows[32 * kBiasKeys];
    for (int64_t l = 0; l < queries; ++l) {
      const int64_t offset = (at + l * bias.query) * static_cast<int64_t>(size_bytes(bias.dtype));
      widen_elems(bias.dtype, bias.data + offset, rows + l * kBiasKeys, count);
    }
    return transpose_block(rows, kBiasKeys, part, tile, queries, count);
  }
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t l = 0; l < queries; ++l)
      part[j * tile + l] = bias_at(bias, at + j * bias.key + l * bias.query);
  }
}

/// scores[key][lane] += bias.
HWY_INLINE void add_bias(const ScoreTable& bias, const TilePlace& place, int64_t keys,
                         float* scores) {
  const F32 d;
  const int64_t tile = tile_queries(), width = lanes_of_f32();
  const int64_t base = place.batch * bias.batch + place.head * bias.head + place.query * bias.query;
  if (bias.query == 0) {
    for (int64_t j = 0; j < keys; ++j) {
      const VF32 b = hn::Set(d, bias_at(bias, base + (place.key + j) * bias.key));
      for (int64_t l = 0; l < tile; l += width) {
        float* s = scores + j * tile + l;
        hn::StoreU(hn::Add(hn::LoadU(d, s), b), d, s);
      }
    }
    return;
  }
  // [query][key] in memory: transposed a few keys at a time.
  HWY_ALIGN float part[kBiasKeys * 32] = {};
  for (int64_t j0 = 0; j0 < keys; j0 += kBiasKeys) {
    const int64_t count = std::min(kBiasKeys, keys - j0);
    transpose_bias(bias, base + (place.key + j0) * bias.key, place.queries, count, part);
    for (int64_t i = 0; i < count * tile; i += width) {
      float* s = scores + j0 * tile + i;
      hn::StoreU(hn::Add(hn::LoadU(d, s), hn::LoadU(d, part + i)), d, s);
    }
  }
}

/// Elements `at` of each lane, stored as `type`.
HWY_INLINE VF32 gather_floats(DType type, const std::byte* data, VI32 at) {
  const F32 d;
  const I32 di;
  if (type == DType::kF32) return hn::GatherIndex(d, reinterpret_cast<const float*>(data), at);
  // Whole aligned words, each with the half that is wanted: nothing outside them is read.
  const bool odd = reinterpret_cast<uintptr_t>(data) % sizeof(float) != 0;
  const VI32 half = odd ? hn::Add(at, hn::Set(di, 1)) : at;
  const auto* words = reinterpret_cast<const int32_t*>(data - (odd ? sizeof(uint16_t) : 0));
  const U32 du;
  const VU32 word = hn::BitCast(du, hn::GatherIndex(di, words, hn::ShiftRight<1>(half)));
  const VU32 shift = hn::ShiftLeft<4>(hn::And(hn::BitCast(du, half), hn::Set(du, 1u)));
  const VU16 bits = hn::TruncateTo(U16(), hn::Shr(word, shift));
  return type == DType::kBF16 ? widen_bf16(d, bits) : widen_f16(d, bits);
}

/// scores[key][lane] += scale · (what relative positions add).
HWY_INLINE void add_positions(const AttentionRun& run, const TilePlace& place, int64_t keys,
                              float* scores) {
  const F32 d;
  const I32 di;
  const int64_t tile = tile_queries(), width = lanes_of_f32();
  const PositionTable &of_query = run.query_positions, &of_key = run.key_positions;
  const auto row = [&](const PositionTable& table, int64_t token) {
    const int64_t at = place.batch * table.batch + token * table.row + place.head * table.head;
    return table.data + at * static_cast<int64_t>(size_bytes(table.dtype));
  };
  const VF32 scale = hn::Set(d, run.scale);
  for (int64_t l = 0; l < place.queries; l += width) {
    // Lanes behind the last query read its row.
    const VI32 lane = hn::Min(hn::Iota(di, static_cast<int32_t>(l)),
                              hn::Set(di, static_cast<int32_t>(place.queries - 1)));
    const VI32 rows = hn::Mul(lane, hn::Set(di, static_cast<int32_t>(of_query.row)));
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t at = place.bucket + l - j;
      VF32 added = hn::Zero(d);
      if (of_query.data != nullptr) {
        const VI32 bucket = hn::LoadU(di, of_query.buckets + at);
        added = gather_floats(of_query.dtype, row(of_query, place.query), hn::Add(rows, bucket));
      }
      if (of_key.data != nullptr) {
        const VI32 bucket = hn::LoadU(di, of_key.buckets + at);
        added = hn::Add(added, gather_floats(of_key.dtype, row(of_key, place.key + j), bucket));
      }
      float* s = scores + j * tile + l;
      hn::StoreU(hn::Add(hn::LoadU(d, s), hn::Mul(scale, added)), d, s);
    }
  }
}

/// How the scores of hidden keys are changed.
struct Hiding {
  float fill;
  /// By key of the block; null: none. True: -inf is added to the score, which keeps NaN. Only for
  /// keys that are not finite: the f32 score of a finite key may overflow to infinity, while the
  /// exact score plus -inf is -inf.
  const bool* adds;
  void operator()(float* scores, int64_t count, int64_t key) const {
    if (adds == nullptr || !adds[key]) return std::fill(scores, scores + count, fill);
    for (int64_t i = 0; i < count; ++i) scores[i] -= std::numeric_limits<float>::infinity();
  }
};

/// Hides scores[key][lane] where keep is false.
HWY_INLINE void apply_keep(const ScoreTable& keep, const TilePlace& place, int64_t keys,
                           const Hiding& hide, float* scores) {
  const int64_t tile = tile_queries();
  const auto* data = reinterpret_cast<const uint8_t*>(keep.data);
  for (int64_t j = 0; j < keys; ++j) {
    float* row = scores + j * tile;
    if (keep.query == 0) {
      const int64_t at =
          place.batch * keep.batch + place.head * keep.head + (place.key + j) * keep.key;
      if (data[at] == 0) hide(row, tile, j);
      continue;
    }
    gather_lanes(keep, place, j, [&](int64_t l, int64_t at) {
      if (data[at] == 0) hide(row + l, 1, j);
    });
  }
}

/// Hides scores[key][lane] of all keys where keep_queries is false.
HWY_INLINE void apply_keep_queries(const ScoreTable& keep, const TilePlace& place, int64_t keys,
                                   const Hiding& hide, float* scores) {
  const int64_t tile = tile_queries();
  gather_lanes(keep, place, 0, [&](int64_t l, int64_t at) {
    if (keep.data[at] != std::byte{0}) return;
    for (int64_t j = 0; j < keys; ++j) hide(scores + j * tile + l, 1, j);
  });
}

/// Hides scores[key][lane] where key > visible + lane.
HWY_INLINE void apply_causal(int64_t visible, int64_t keys, const Hiding& hide, float* scores) {
  const int64_t tile = tile_queries();
  for (int64_t j = std::max<int64_t>(visible + 1, 0); j < keys; ++j) {
    const int64_t hidden_lanes = std::min(tile, j - visible);  // lanes l < j − visible
    hide(scores + j * tile, hidden_lanes, j);
  }
}

HWY_INLINE void add_masks(const AttentionRun& run, const TilePlace& place, int64_t keys,
                          const Hiding& hide, float* scores) {
  if (run.query_positions.data != nullptr || run.key_positions.data != nullptr)
    add_positions(run, place, keys, scores);
  if (run.bias.data != nullptr) add_bias(run.bias, place, keys, scores);
  if (run.keep_queries.data != nullptr)
    apply_keep_queries(run.keep_queries, place, keys, hide, scores);
  if (run.keep.data != nullptr) apply_keep(run.keep, place, keys, hide, scores);
  if (run.causal) apply_causal(place.visible, keys, hide, scores);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
