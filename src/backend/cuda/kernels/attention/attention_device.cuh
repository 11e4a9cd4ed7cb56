// What the attention kernels share on the device: which queries and keys a block has, scores under
// bias and masks, loads with rotary tables. Contract: attention.h. C++17.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/kernels/attention/attention.h"

namespace vernier::backend::cuda {

constexpr float kInfinity = __builtin_huge_valf();

__device__ inline float load_float(const void* data, int64_t at, AttentionType type) {
  if (type == AttentionType::kF32) return static_cast<const float*>(data)[at];
  if (type == AttentionType::kF16) return __half2float(static_cast<const __half*>(data)[at]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
}
__device__ inline void store_float(void* data, int64_t at, AttentionType type, float value) {
  if (type == AttentionType::kF32) {
    static_cast<float*>(data)[at] = value;
  } else if (type == AttentionType::kF16) {
    static_cast<__half*>(data)[at] = __float2half_rn(value);
  } else {
    static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
  }
}

// Start `i` of a table of sequence starts, forced into [0, rows].
__device__ inline int64_t sequence_start(const AttentionLaunch& args, const void* starts, int i,
                                         int64_t rows) {
  const int64_t start = args.starts_are_i64 ? static_cast<const int64_t*>(starts)[i]
                                            : static_cast<const int32_t*>(starts)[i];
  return start < 0 ? 0 : start > rows ? rows : start;
}

// The queries of one block and the keys that they see.
struct Tile {
  int64_t batch, head, kv_head;
  int64_t query;    // row of q of the first query
  int queries;      // rows of the block that exist; 0: none, nothing to do
  int heads;        // of the block: 2 where each of its warpgroups has the queries of one
  int64_t key;      // row of k of the first key
  int64_t keys;     // of the sequence; 0: the rows are 0
  int64_t visible;  // causal: query i of the tile sees key j iff j <= visible + i
  int64_t first;    // row of q of the sequence's first query
};

// Inclusive, over the lanes of a warp, all of which call it.
__device__ inline unsigned prefix_sum(unsigned own) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const unsigned other = __shfl_up_sync(~0u, own, offset);
    if (lane >= offset) own += other;
  }
  return own;
}

// A sequence's rows of q, and which of its elements `index` is.
struct InSequence {
  int64_t begin, end;
  int sequence;
  unsigned within;
};
// Where element `index` lies if sequence i of `rows` rows has count_of(i, rows) elements; i =
// args.sequences: the rows of no sequence. False: there are not so many. Backwards, for a grid of a
// block for each element: element 0 is the last one, or where one pass does not see them all, that
// of the last block. All lanes of a warp call it: each takes kOwn sequences at a time, and a prefix
// sum of their elements finds the one.
template <class CountOf>
__device__ inline bool find_in_sequences(const AttentionLaunch& args, bool backwards,
                                         unsigned index, const CountOf& count_of,
                                         InSequence& result) {
  constexpr int kOwn = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned before = 0;
  const bool in_one_pass = args.sequences < 32 * kOwn;
  if (backwards && !in_one_pass) index = gridDim.x - 1 - index;
  for (int base = 0; base <= args.sequences; base += 32 * kOwn) {
    const int first = base + lane * kOwn;
    int64_t start[kOwn + 1];
    unsigned count[kOwn], own = 0;
#pragma unroll
    for (int i = 0; i <= kOwn; ++i) {
      start[i] = first + i <= args.sequences
                     ? sequence_start(args, args.starts_q, first + i, args.queries)
                     : args.queries;
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int64_t rows = start[i + 1] > start[i] ? start[i + 1] - start[i] : 0;
      count[i] = first + i <= args.sequences ? count_of(first + i, static_cast<unsigned>(rows)) : 0;
      own += count[i];
    }
    const unsigned through = prefix_sum(own);
    if (backwards && in_one_pass) {  // what is not there stays behind all others
      const unsigned all = __shfl_sync(~0u, through, 31);
      if (index >= all) return false;
      index = all - 1 - index;
    }
    const unsigned found = __ballot_sync(~0u, before + through > index);
    if (found == 0) {
      before += __shfl_sync(~0u, through, 31);
      continue;
    }
    // Of the lane that has it: which of its sequences, and the elements before that.
    unsigned ahead = before + through - own;
    int which = 0;
#pragma unroll
    for (int i = 0; i + 1 < kOwn; ++i) {
      const bool behind = which == i && ahead + count[i] <= index;
      ahead += behind ? count[i] : 0;
      which += behind ? 1 : 0;
    }
    result.begin = start[0], result.end = start[1];
#pragma unroll
    for (int i = 1; i < kOwn; ++i) {
      result.begin = which == i ? start[i] : result.begin;
      result.end = which == i ? start[i + 1] : result.end;
    }
    const int owner = __ffs(static_cast<int>(found)) - 1;
    result.begin = __shfl_sync(~0u, result.begin, owner);
    result.end = __shfl_sync(~0u, result.end, owner);
    result.sequence = __shfl_sync(~0u, first + which, owner);
    result.within = index - __shfl_sync(~0u, ahead, owner);
    return true;
  }
  return false;
}

// The block's tile of the sequences, which have ceil(queries / kRows) each, and after them of the
// rows of no sequence. All tiles of all heads of a sequence lie together, and within it those of a
// head, so that what is read is near what was read before. With kTwoHeads a sequence of queries for
// one warpgroup, kRows / 2, has a block for two heads. Every warp calls it with all lanes.
template <int kRows, bool kTwoHeads>
__device__ inline void place_in_sequences(const AttentionLaunch& args, unsigned block,
                                          Tile& result) {
  const auto heads = static_cast<unsigned>(args.heads);
  // Their keys are as few as their queries.
  const bool two_heads = kTwoHeads && args.starts_q == args.starts_k;
  const auto blocks_of = [&](int, unsigned rows) {
    return two_heads && rows != 0 && rows <= kRows / 2 ? (heads + 1) / 2
                                                       : (rows + kRows - 1) / kRows * heads;
  };
  result.queries = 0;
  InSequence in;
  if (!find_in_sequences(args, args.backwards, block, blocks_of, in)) return;
  const int64_t rows = in.end - in.begin;
  const bool pair = two_heads && rows <= kRows / 2;
  const unsigned count = (static_cast<unsigned>(rows) + kRows - 1) / kRows,
                 head = pair ? 2 * in.within : in.within / count;
  const int64_t tile = pair ? 0 : static_cast<int64_t>(in.within - head * count) * kRows;
  result.head = head;
  result.heads = pair && head + 1 < heads ? 2 : 1;
  result.query = in.begin + tile;
  result.first = in.begin;
  result.queries = static_cast<int>(rows - tile < kRows ? rows - tile : kRows);
  result.key = result.keys = 0;
  if (in.sequence < args.sequences) {
    result.key = sequence_start(args, args.starts_k, in.sequence, args.keys);
    const int64_t key_end = sequence_start(args, args.starts_k, in.sequence + 1, args.keys);
    result.keys = key_end > result.key ? key_end - result.key : 0;
    if (args.longest > 0 && result.keys > args.longest) result.keys = args.longest;
  }
  result.visible = tile + result.keys - rows;
}

// The tile of kRows queries of block `block` of gridDim.x: tiles of a head lie together, so that
// its keys stay in the L2 cache.
template <int kRows, bool kTwoHeads = false>
__device__ inline Tile find_tile(const AttentionLaunch& args, int64_t tiles, unsigned block) {
  if (args.backwards && args.starts_q == nullptr) block = gridDim.x - 1 - block;
  // A grid has less than 2^31 blocks, so 32 bits do; divisions of 64 are long.
  const auto tiles_of_head = static_cast<unsigned>(tiles),
             heads = static_cast<unsigned>(args.heads);
  const unsigned heads_per_kv = heads / static_cast<unsigned>(args.kv_heads);
  Tile result;
  if (args.starts_q != nullptr) {
    place_in_sequences<kRows, kTwoHeads>(args, block, result);
    if (result.queries == 0) return result;
    result.kv_head = result.head / heads_per_kv;
    result.batch = 0;
    return result;
  }
  const unsigned head_and_batch = block / tiles_of_head, head = head_and_batch % heads;
  const unsigned tile = block - head_and_batch * tiles_of_head;
  result.head = head;
  result.heads = 1;
  result.kv_head = head / heads_per_kv;
  result.batch = head_and_batch / heads;
  result.query = static_cast<int64_t>(tile) * kRows;
  result.first = 0;
  const int64_t left = args.queries - result.query;
  result.queries = static_cast<int>(left < kRows ? left : kRows);
  result.key = 0;
  result.keys = args.keys;
  result.visible = result.query + args.keys - args.queries;
  return result;
}

// Keys that a block of `threads` threads must look at: all of its sequence, or those up to the last
// one that a query of the tile sees, if the others are hidden with probability 0 and are finite: an
// addition of 0 · v then changes nothing. All threads call it.
__device__ inline int64_t keys_to_visit(const AttentionLaunch& args, const Tile& tile,
                                        int threads) {
  const bool zero = args.masks_add || args.fill == -kInfinity;
  if (!args.causal || !zero || args.finite == nullptr) return tile.keys;
  int64_t needed = tile.visible + tile.queries;
  needed = needed < 0 ? 0 : needed;
  if (needed >= tile.keys) return tile.keys;
  const int64_t chunks = (args.keys + kFiniteChunk - 1) / kFiniteChunk;
  const uint8_t* flags = args.finite + (tile.batch * args.kv_heads + tile.kv_head) * chunks;
  bool finite = true;
  const int64_t last = (tile.key + tile.keys - 1) / kFiniteChunk;
  for (int64_t c = (tile.key + needed) / kFiniteChunk + threadIdx.x; c <= last; c += threads)
    finite = finite && flags[c] != 0;
  return __syncthreads_and(finite) ? needed : tile.keys;
}

// One query's view of the tables: their elements for key row j are at bias + j·args.bias.key.
struct QueryMasks {
  int64_t bias, keep;
  int64_t visible;  // keys of the sequence after it are hidden
};
__device__ inline QueryMasks query_masks(const AttentionLaunch& args, const Tile& tile, int row) {
  // Rows past the last query read what the last one reads; their results are not used.
  const int64_t query = tile.query + (row < tile.queries ? row : tile.queries - 1);
  const AttentionTable &bias = args.bias, &keep = args.keep;
  int64_t bias_row = query, bias_key = tile.key;
  if (args.longest > 0) {
    bias_row = query - tile.first < args.longest ? query - tile.first : args.longest - 1;
    bias_key = 0;
  }
  return {
      tile.batch * bias.batch + tile.head * bias.head + bias_row * bias.query + bias_key * bias.key,
      tile.batch * keep.batch + tile.head * keep.head + query * keep.query + tile.key * keep.key,
      args.causal ? tile.visible + row : tile.keys};
}

// The element of `positions` for query i and key j of a sequence, i - j = distance.
__device__ inline int bucket_at(const AttentionPositions& positions, int64_t distance) {
  int64_t at = positions.zero + distance;
  at = at < 0 ? 0 : at < positions.count ? at : positions.count - 1;
  const int bucket =
      static_cast<const int32_t*>(positions.buckets)[positions.buckets_are_i64 ? 2 * at : at];
  return bucket < 0 ? 0 : bucket < positions.size ? bucket : positions.size - 1;
}
// Where the elements of a row of q or k begin.
__device__ inline int64_t positions_of(const AttentionPositions& positions, const Tile& tile,
                                       int64_t row) {
  return tile.batch * positions.batch + row * positions.row + tile.head * positions.head;
}
// Does keep_queries keep this row of the tile?
__device__ inline bool keeps_query(const AttentionLaunch& args, const Tile& tile, int row) {
  const AttentionTable& keep = args.keep_queries;
  if (keep.data == nullptr) return true;
  const int64_t query = tile.query + (row < tile.queries ? row : tile.queries - 1);
  return static_cast<const uint8_t*>(
             keep.data)[tile.batch * keep.batch + tile.head * keep.head + query * keep.query] != 0;
}
// With zero_hidden_rows: do keep and keep_queries hide every key of the row?
__device__ __noinline__ inline bool is_hidden_row(const AttentionLaunch& args, const Tile& tile,
                                                  int row) {
  if (!args.zero_hidden_rows) return false;
  if (!keeps_query(args, tile, row)) return true;
  if (args.keep.data == nullptr) return false;
  const auto* keep = static_cast<const uint8_t*>(args.keep.data);
  const int64_t at = query_masks(args, tile, row).keep;
  for (int64_t j = 0; j < tile.keys; ++j)
    if (keep[at + j * args.keep.key] != 0) return false;
  return true;
}

// Query i of the sequence and key j: what relative positions add to the raw score.
__device__ inline float position_score(const AttentionLaunch& args, const Tile& tile, int64_t i,
                                       int64_t j) {
  const AttentionPositions &q = args.query_positions, &k = args.key_positions;
  float score = 0;
  if (q.data != nullptr)
    score +=
        load_float(q.data, positions_of(q, tile, tile.first + i) + bucket_at(q, i - j), q.type);
  if (k.data != nullptr)
    score += load_float(k.data, positions_of(k, tile, tile.key + j) + bucket_at(k, i - j), k.type);
  return score;
}

// The score of key j (of the sequence) from the dot product; `seen` becomes true unless bias and
// masks add −inf to it.
__device__ inline float finish_score(const AttentionLaunch& args, const QueryMasks& masks,
                                     int64_t j, float dot, bool& seen) {
  float added = 0;
  if (args.bias.data != nullptr)
    added = load_float(args.bias.data, masks.bias + j * args.bias.key, args.bias.type);
  float score = fmaf(dot, args.scale, added);
  bool hidden = j > masks.visible;
  if (args.keep.data != nullptr)
    hidden =
        hidden || static_cast<const uint8_t*>(args.keep.data)[masks.keep + j * args.keep.key] == 0;
  if (hidden) {
    added -= kInfinity;
    score = args.masks_add ? score - kInfinity : args.fill;
  }
  seen = seen || added != -kInfinity;
  return score;
}

// A context without any probability: Σ 0 · v, which is 0 unless some v is NaN or infinite.
__device__ inline float empty_context(const AttentionLaunch& args, const Tile& tile, int col) {
  float sum = 0;
  for (int64_t j = 0; j < tile.keys; ++j) {
    const int64_t at =
        tile.batch * args.v.batch + (tile.key + j) * args.v.row + tile.kv_head * args.v.head + col;
    sum += 0.0f * load_float(args.v.data, at, args.v.type);
  }
  return sum;
}
// True if a row whose sum is not positive has probability 0 everywhere instead of NaN.
__device__ inline bool is_empty_row(const AttentionLaunch& args, float sum, bool seen) {
  return !(sum > 0) && (args.zero_nan_rows || (args.masks_add && !seen));
}

// Element d of a row of q or k that starts at `at`, rotated:
//   y[lo] = x[lo]·cos[lo] − x[hi]·sin[lo],  y[hi] = x[hi]·cos[hi] + x[lo]·sin[hi]
__device__ inline float load_rotated(const AttentionLaunch& args, const AttentionRows& x,
                                     int64_t at, int64_t batch, int64_t row, int d) {
  const AttentionRotary& table = args.rotary;
  const float own = load_float(x.data, at + d, x.type);
  const int half = args.head_dim / 2;
  if (table.cos == nullptr || d >= 2 * half) return own;
  const bool high = table.interleaved ? d % 2 == 1 : d >= half;
  const int pair = table.interleaved ? d / 2 : d % half;
  const int partner = table.interleaved ? d ^ 1 : high ? d - half : d + half;
  const float other = load_float(x.data, at + partner, x.type);
  const float cos = load_float(
      table.cos,
      batch * table.cos_batch + row * table.cos_row + (table.cos_width == args.head_dim ? d : pair),
      table.cos_type);
  const float sin = load_float(
      table.sin,
      batch * table.sin_batch + row * table.sin_row + (table.sin_width == args.head_dim ? d : pair),
      table.sin_type);
  return high ? own * cos + other * sin : own * cos - other * sin;
}

}  // namespace vernier::backend::cuda
