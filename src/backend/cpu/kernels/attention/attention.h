// Arguments of the attention tile code. Contract of the operator: AttentionAttrs in core/attrs.h;
// of the kernel: attention.cpp.
#pragma once
#include <cstdint>

#include "backend/cpu/body.h"
#include "backend/cpu/kernels/elementwise/quantize_rows.h"

namespace vernier::backend::cpu {

/// Keys per step of the running softmax. A constant, because a row's bits depend on it.
inline constexpr int64_t kKeyBlock = 96;
/// Query tiles that share one copy of a key block.
inline constexpr int64_t kTilesPerGroup = 4;
/// Extra floats between copied key and value rows, which spread them over the cache sets.
inline constexpr int64_t kRowSpread = 16;

/// A float or bool array broadcast to [batch, heads, queries, keys]; stride 0 where it repeats.
struct ScoreTable {
  const std::byte* data = nullptr;
  int64_t batch = 0, head = 0, query = 0, key = 0;  // strides in elements
  DType dtype = DType::kF32;                        // of a bias: f32, f16 or bf16
};

/// Scores by relative position: rows [batch, seq, heads] of `width` elements.
struct PositionTable {
  const std::byte* data = nullptr;
  int64_t batch = 0, row = 0, head = 0;  // strides in elements
  DType dtype = DType::kF32;             // f32, f16 or bf16
  /// Of i − j at element i − j + AttentionRun::no_distance; behind the last one kBucketSpread more.
  const int32_t* buckets = nullptr;
};
/// Buckets that lanes behind the last query of a tile may read.
inline constexpr int64_t kBucketSpread = 64;

/// Rotary tables as rows of `width` (D or D/2) values per position.
struct RotaryTable {
  const float *cos = nullptr, *sin = nullptr;
  int64_t cos_batch = 0, cos_position = 0, sin_batch = 0, sin_position = 0;
  int64_t width = 0;
  bool interleaved = false;
};

/// Which chunks of kKeyBlock rows of k and v are known to be finite.
struct FiniteRows {
  static constexpr uint8_t kKeys = 1, kValues = 2;
  uint8_t* flags = nullptr;  ///< by [batch, key head, chunk]; null: not known
  int64_t heads = 0, chunks = 0;
  uint8_t& at(int64_t batch, int64_t head, int64_t chunk) const {
    return flags[(batch * heads + head) * chunks + chunk];
  }
  /// True if all of `what` is finite in rows [begin, end) of a head; partial chunks at the ends are
  /// tested as a whole.
  bool covers(int64_t batch, int64_t head, int64_t begin, int64_t end, uint8_t what) const {
    if (flags == nullptr) return false;
    for (int64_t chunk = begin / kKeyBlock; chunk * kKeyBlock < end; ++chunk) {
      if ((at(batch, head, chunk) & what) != what) return false;
    }
    return true;
  }
};

/// The arguments of one launch, the same for all tiles.
struct AttentionRun {
  TensorArg q, k, v, out;  // [batch, seq, heads, width], last axis contiguous; f32, f16 or bf16
  ScoreTable bias, keep, keep_queries;
  PositionTable query_positions = {}, key_positions = {};
  int64_t no_distance = 0;  ///< the element of buckets for i − j = 0
  float scale = 1, fill = 0;
  bool causal = false, zero_nan_rows = false, masks_add = false, zero_hidden_rows = false;
  int64_t heads_per_kv = 1;
  bool bf16_products = false;  ///< q, k and v are bf16, and the CPU multiplies pairs of them
  bool on_tiles = false;       ///< the same in tile registers (simd/tiles.h); bf16_products is true
  FiniteRows finite = {};  ///< known if a mask depends on it: causal with fill = -inf, or masks_add
  GivenRows next = {};     ///< of the step behind, which quantizes out; null q: there is none
  float* scratch = nullptr;  ///< TileScratch per part
  int64_t scratch_step = 0;
};

/// A group of queries of one head against the keys of their sequence.
struct AttentionTask {
  int64_t batch = 0, head = 0;
  int64_t q_begin = 0, queries = 0;  ///< rows of q; at most kTilesPerGroup tiles
  int64_t sequence_q_begin = 0;      ///< first row of the sequence, for causal masks
  int64_t k_begin = 0, keys = 0;
  int64_t causal_offset = 0;  ///< keys − queries of the sequence
  /// What the thread does next, whose rows are fetched meanwhile: they are too far apart for the
  /// CPU to foresee. Null: nothing.
  const AttentionTask* next = nullptr;
};

/// The launch of cpu.attention.blocked, for kernels that join it (KernelBody::joins).
void launch_attention_blocked(const LaunchCall& call);

}  // namespace vernier::backend::cpu
