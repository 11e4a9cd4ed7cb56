// A step of attention on Hopper: 64 queries of a warpgroup against 128 keys, or 64 where no more
// are left: kCount scores a thread, 64 or 32, whose bits are the same. Products on wgmma, masks,
// softmax, and what stores a finished row. Shared by attention_sm90.cu and attention_short.cu,
// whose rows have the same bits. C++17.
#pragma once
#include "backend/cuda/device/quantize_row.cuh"
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/device/wgmma_attention.cuh"
#include "backend/cuda/kernels/attention/attention_positions.cuh"

// For other architectures the kernels are empty, and nothing refers to what they call.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177
#endif

namespace vernier::backend::cuda {

// Which masks a kernel knows; the code of the others would cost time, and the registers it
// takes are missing in the loop. Keys past the last one are hidden in all of them.
enum class Masks {
  kNone,
  kKeep,    // a keep table that is the same for all queries
  kCausal,  // causal alone
  kByKey,   // causal, and tables that are the same for all queries
  kAny,
  kPositions  // and relative positions, masks of queries, hidden rows
};
// What a kernel looks for: keep tables, causal, biases.
template <Masks kMasks>
constexpr bool kMayKeep = kMasks != Masks::kNone&& kMasks != Masks::kCausal;
template <Masks kMasks>
constexpr bool kMayCause = kMasks != Masks::kNone&& kMasks != Masks::kKeep;
template <Masks kMasks>
constexpr bool kMayDiffer = kMasks == Masks::kAny || kMasks == Masks::kPositions;
template <Masks kMasks>
constexpr bool kMayAdd = kMasks == Masks::kByKey || kMayDiffer<kMasks>;

// Columns of a box: a row of shared memory is one swizzle wide.
template <int kDim>
constexpr int kBoxCols = kDim < 64 ? kDim : 64;

// Boxes of (64 queries | 128 keys) x kBoxCols columns; of sequences, whose rows stand beside those
// of others, also of kPartKeys keys.
constexpr int kPartKeys = 32;
struct Maps {
  CUtensorMap q, k, v, k_part, v_part;
};

// What a lane carries of its rows g and g + 8 of the warp (lane = 4g + t).
struct Rows {
  float max[2] = {-kInfinity, -kInfinity};  // of raw scores
  float sum[2] = {0, 0};                    // this lane's part
};

// Which of a step's 128 keys are kept where all queries have the same mask: lane l holds the bytes
// of keys 4l … 4l + 3, which exist or count as kept. Loaded a step ahead.
__device__ inline uint32_t load_kept(const AttentionLaunch& args, const Tile& tile, int key) {
  const AttentionTable& keep = args.keep;
  const auto* data = static_cast<const uint8_t*>(keep.data) + tile.batch * keep.batch +
                     tile.head * keep.head + tile.key * keep.key;
  const int first = key + static_cast<int>(threadIdx.x) % 32 * 4;
  const int left = static_cast<int>(tile.keys) - first;
  if (left >= 4 && keep.key == 1 && reinterpret_cast<uintptr_t>(data + first) % 4 == 0)
    return *reinterpret_cast<const uint32_t*>(data + first);
  uint32_t bytes = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool kept = i >= left || data[(first + i) * keep.key] != 0;
    bytes |= static_cast<uint32_t>(kept) << (8 * i);
  }
  return bytes;
}
// The same as bits: bit l of element i is key 4l + i.
__device__ inline uint4 kept_bits(uint32_t bytes) {
  return {__ballot_sync(~0u, (bytes & 0xff) != 0), __ballot_sync(~0u, (bytes >> 8 & 0xff) != 0),
          __ballot_sync(~0u, (bytes >> 16 & 0xff) != 0), __ballot_sync(~0u, bytes >> 24 != 0)};
}
// Bit 2n of word e: key 8n + 2t + e is kept (lane = 4g + t).
struct KeptKeys {
  uint32_t words[2];
  bool all, none;
};
__device__ inline KeptKeys spread_kept(const uint4& bits) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  KeptKeys kept;
  // Bit 2n + t / 2 of element 2t % 4 + e is that key.
  kept.words[0] = (t % 2 == 0 ? bits.x : bits.z) >> (t / 2);
  kept.words[1] = (t % 2 == 0 ? bits.y : bits.w) >> (t / 2);
  kept.all = (bits.x & bits.y & bits.z & bits.w) == ~0u;
  kept.none = (bits.x | bits.y | bits.z | bits.w) == 0;
  return kept;
}

// Element e of a fragment's eight columns: key 8n + 2t + e % 2 of row e / 2.
template <int kCount, class Each>
__device__ inline void for_each_score(float (&scores)[kCount], const Each& each) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < kCount / 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) each(scores[4 * n + e], n, first + e % 2, e / 2);
  }
}

// Bias and masks that differ from query to query; `row` is the lane's first row of the tile.
__device__ inline void mask_by_query(const AttentionLaunch& args, const Tile& tile, int row,
                                     int key, float inverse_scale, float (&scores)[64]) {
  const bool bias = args.bias.data != nullptr && args.bias.query != 0;
  const bool keep = args.keep.data != nullptr && args.keep.query != 0;
  if (!bias && !keep) return;
  const QueryMasks masks[2] = {query_masks(args, tile, row), query_masks(args, tile, row + 8)};
  const float fill = raw_score(args.fill, inverse_scale);
  for_each_score(scores, [&](float& score, int n, int within, int r) {
    const int64_t j = key + 8 * n + within;
    if (j >= tile.keys) return;
    if (bias) {
      const int64_t at = masks[r].bias + j * args.bias.key;
      score += raw_score(load_float(args.bias.data, at, args.bias.type), inverse_scale);
    }
    const auto* kept = static_cast<const uint8_t*>(args.keep.data);
    if (keep && kept[masks[r].keep + j * args.keep.key] == 0) score = fill;
  });
}

// The lane's rows that keep_queries hides: bit r is row + 8r.
__device__ inline unsigned hidden_queries(const AttentionLaunch& args, const Tile& tile, int row) {
  unsigned hidden = 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) hidden |= keeps_query(args, tile, row + 8 * r) ? 0u : 1u << r;
  return hidden;
}
// Every key of these rows that exists has the score of a hidden one.
__device__ inline void hide_queries(unsigned hidden, float fill, float (&scores)[64]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if ((hidden >> r & 1) == 0) continue;
#pragma unroll
    for (int i = 0; i < 64; ++i) scores[i] = i / 2 % 2 == r ? fill : scores[i];
  }
}
// The keys that a keep table hides, the same for all queries.
__device__ inline void hide_keys(const KeptKeys& kept, float fill, float (&scores)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    if ((kept.words[i % 2] >> (i / 4 * 2) & 1) == 0) scores[i] = fill;
  }
}

// Bias and masks of the step that starts at `key`; scores are raw, with what relative positions
// add. bias_by_key: the step's biases in shared memory where all queries have the same, else null.
template <Masks kMasks>
__device__ inline void mask_scores(const AttentionLaunch& args, const Tile& tile, int row, int key,
                                   const KeptKeys& kept, const float* bias_by_key,
                                   float inverse_scale, float (&scores)[64]) {
  if (kMayAdd<kMasks> && __builtin_expect(bias_by_key != nullptr, 0)) {
    for_each_score(scores, [&](float& score, int n, int within, int) {
      score += bias_by_key[8 * n + within];
    });
  }
  if constexpr (kMayDiffer<kMasks>) {
    mask_by_query(args, tile, row, key, inverse_scale, scores);
  }
  if constexpr (kMasks == Masks::kPositions) {
    if (args.keep_queries.data != nullptr)
      hide_queries(hidden_queries(args, tile, row), raw_score(args.fill, inverse_scale), scores);
  }
  if (kMayKeep<kMasks> && __builtin_expect(!kept.all, 0))
    hide_keys(kept, raw_score(args.fill, inverse_scale), scores);
  if (!kMayCause<kMasks> || (kMasks != Masks::kCausal && __builtin_expect(!args.causal, 1))) return;
  const int64_t left = tile.visible + row - key;  // the lane's first row sees keys up to it
  if (__all_sync(~0u, left >= kKeys - 1)) return;
  const float fill = raw_score(args.fill, inverse_scale);
  const int visible = left > kKeys ? kKeys : left < -16 ? -16 : static_cast<int>(left);
  for_each_score(scores, [&](float& score, int n, int within, int r) {
    if (8 * n + within > visible + 8 * r) score = fill;
  });
}

// The largest of a row's scores and of `max`, in all four lanes of the row.
template <int kCount>
__device__ inline float row_maximum(const float (&scores)[kCount], int r, float max) {
  float top[2] = {max, -kInfinity};
#pragma unroll
  for (int n = 0; n < kCount / 4; ++n) {
    top[n % 2] = fmaxf(top[n % 2], fmaxf(scores[4 * n + 2 * r], scores[4 * n + 2 * r + 1]));
  }
  max = fmaxf(top[0], top[1]);
  max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
  return fmaxf(max, __shfl_xor_sync(~0u, max, 2));
}
// While every key so far is hidden with −inf, 2^(−inf − 0) = 0 keeps the sum at 0.
__device__ inline float shift_of(float max, float slope) {
  return max == -kInfinity ? 0.0f : __fmul_rn(max, slope);
}
// The new maxima of both rows; `factor` is what sums and contexts so far are multiplied by and
// `shift` what exponents are lowered by: 2^(score·slope − shift).
template <int kCount>
__device__ inline void raise_maxima(const float (&scores)[kCount], float slope, Rows& rows,
                                    float (&shift)[2], float (&factor)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float max = row_maximum(scores, r, rows.max[r]);
    shift[r] = shift_of(max, slope);
    // Rounded equally, so that an unchanged maximum gives exactly 1: no multiply-add here.
    factor[r] = exp2_fast(__fsub_rn(__fmul_rn(rows.max[r], slope), shift[r]));
    rows.max[r] = max;
    rows.sum[r] = __fmul_rn(rows.sum[r], factor[r]);  // not part of a multiply-add below
  }
}

// Columns [8n, 8n + 8) of a step: 2^(scores·slope − shift) in place, added to `sums`.
template <int kCount>
__device__ inline void exponentiate(float (&scores)[kCount], int n, float slope,
                                    const float (&shift)[2], float (&sums)[2][2]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    float& score = scores[4 * n + e];
    score = exp2_fast(fmaf(score, slope, -shift[e / 2]));
    sums[e / 2][e % 2] += score;
  }
}
// The part of a step's probabilities that the product `step` of 16 keys takes, rounded to T.
template <class T, int kCount>
__device__ inline void pack_part(const float (&p)[kCount], int step, uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack<T>(p[8 * step + 2 * i], p[8 * step + 2 * i + 1]);
}

// context += 2^(scores·slope − shift) · v, in kParts parts: each part's product runs while the next
// part's exponentials are taken. The order of every sum is the same for any kParts.
template <class T, int kDim, int kParts, int kCount>
__device__ inline void attend_values(float (&scores)[kCount], float slope, const float (&shift)[2],
                                     uint32_t v, Rows& rows, float (&context)[kDim / 2]) {
  constexpr int kRowBytes = 2 * kBoxCols<kDim>;
  const TileDescriptor<kRowBytes> values(v, kKeys * kRowBytes);
  constexpr int kSteps = kCount / 8;  // of 16 keys
  uint32_t p[kSteps][4];
  float sums[2][2] = {};
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int n = 2 * kSteps / kParts * part; n < 2 * kSteps / kParts * (part + 1); ++n)
      exponentiate(scores, n, slope, shift, sums);
#pragma unroll
    for (int step = kSteps / kParts * part; step < kSteps / kParts * (part + 1); ++step)
      pack_part<T>(scores, step, p[step]);
    wgmma_fence();
#pragma unroll
    for (int step = kSteps / kParts * part; step < kSteps / kParts * (part + 1); ++step) {
      multiply_registers<T>(context, p[step],
                            values.after(static_cast<uint32_t>(step * 16 * kRowBytes)));
    }
    wgmma_commit();
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] += sums[r][0] + sums[r][1];
}

// Raw scores of 64 queries with 128 keys, or 64, issued and committed.
template <class T, int kDim, int kCount>
__device__ inline void multiply_keys(uint32_t query, uint32_t keys, float (&scores)[kCount]) {
  constexpr int kRowBytes = 2 * kBoxCols<kDim>;
  const TileDescriptor<kRowBytes> a(query, 16), b(keys, 16);
  wgmma_fence();
#pragma unroll
  for (int d = 0; d < kDim; d += 16) {
    const uint32_t within = static_cast<uint32_t>(d % 64 * 2);
    const uint32_t part = static_cast<uint32_t>(d / 64);
    const uint64_t queries = a.after(part * kGroupQueries * kRowBytes + within);
    const uint64_t rows = b.after(part * kKeys * kRowBytes + within);
    if constexpr (kCount != 64) {
      Wgmma<2 * kCount, T>::run(scores, queries, rows, d != 0);
    } else if (d == 0) {
      multiply_shared<T>(scores, queries, rows);
    } else {
      multiply_add_shared<T>(scores, queries, rows);
    }
  }
  wgmma_commit();
}

// Brings what the result is quantized by, constants, into the second-level cache. By one thread.
__device__ inline void fetch_scaling(const AttentionLaunch& args) {
  const AttentionQuantized& by = args.quantized;
  if (by.q == nullptr) return;
  fetch_line(by.scale);
  if (by.zero != nullptr) fetch_line(by.zero);
}
// How the result is quantized, where it is.
__device__ inline RowScaling scaling_of(const AttentionQuantized& by) {
  return by.q == nullptr ? RowScaling{} : given_scaling(by.scale, by.zero, by.to_f8);
}
// The factors of eight neighbors of the context's row, from column `col` of the head on; 1 where
// there are none.
struct EightFactors {
  float of[8];
};
__device__ inline EightFactors factors_of(const AttentionLaunch& args, const Tile& tile, int col) {
  EightFactors eight;
  fill_vector(1.0f, eight.of);
  if (args.quantized.q != nullptr)
    multiply_factors(args.quantized.factors, static_cast<int>(tile.head) * args.value_dim + col, 8,
                     eight.of);
  return eight;
}
// What the context is quantized by: read when it is needed, or, where registers are left, ahead,
// so that no latency is left at the end of a tile. A lane's chunk number `chunk` begins at column
// `col` of the head.
struct QuantizingBehind {
  __device__ RowScaling scaling(const AttentionLaunch& args) const {
    return scaling_of(args.quantized);
  }
  __device__ void read(const AttentionLaunch&, const Tile&) {}
  __device__ EightFactors factors(const AttentionLaunch& args, const Tile& tile, int,
                                  int col) const {
    return factors_of(args, tile, col);
  }
};
template <int kDim>
struct QuantizingAhead {
  RowScaling by;
  EightFactors of_chunk[kDim / 32];
  __device__ RowScaling scaling(const AttentionLaunch&) const { return by; }
  __device__ void read(const AttentionLaunch& args, const Tile& tile) {
    by = scaling_of(args.quantized);
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int chunk = 0; chunk < kDim / 32; ++chunk)
      of_chunk[chunk] = factors_of(args, tile, 32 * chunk + lane % 4 * 8);
  }
  __device__ const EightFactors& factors(const AttentionLaunch&, const Tile&, int chunk,
                                         int) const {
    return of_chunk[chunk];
  }
};

// Eight neighbors of a row of the context, quantized; `to`: where they would stand in out.
template <class T>
__device__ inline void quantize_eight(const AttentionLaunch& args, const RowScaling& by,
                                      const EightFactors& factors, const T* to,
                                      const uint4& eight) {
  const T* from = reinterpret_cast<const T*>(&eight);
  float v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = static_cast<float>(from[i]) * factors.of[i];
  store_bytes(args.quantized.q, to - static_cast<const T*>(args.out.data), 8, true, v, by);
}

// Rows of the warp whose probabilities are all 0, which are rare: a loop, so that what is always
// run stays short. `which` has bit r where the lane's row g + 8r is such a row; all lanes call it.
template <class T, int kDim>
__device__ inline void store_empty_rows(const AttentionLaunch& args, const Tile& tile, int row,
                                        unsigned which, T* out) {
  __syncwarp();  // other lanes have stored into these rows
#pragma unroll 1
  for (int i = 0; i < 2 * kDim / 8; ++i) {
    const int r = i % 2, col = i / 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
    if ((which >> r & 1) == 0 || row + 8 * r >= tile.queries) continue;
    T* to = out + (row + 8 * r) * args.out.row + col;
    const uint32_t pair =
        pack<T>(empty_context(args, tile, col), empty_context(args, tile, col + 1));
    if (args.quantized.q == nullptr) {
      *reinterpret_cast<uint32_t*>(to) = pair;
      continue;
    }
    const RowScaling by = scaling_of(args.quantized);
    const float* factors = args.quantized.factors;
    for (int j = 0; j < 2; ++j) {
      const float factor =
          factors == nullptr ? 1.0f : factors[tile.head * args.value_dim + col + j];
      const float v = static_cast<float>(reinterpret_cast<const T*>(&pair)[j]) * factor;
      args.quantized.q[to + j - static_cast<const T*>(args.out.data)] = by.byte(v);
    }
  }
}

// Lane t of four has elements 2t, 2t + 1 of 16-byte chunks 0 … 3; gives it chunk t.
__device__ inline uint4 gather_chunk(uint32_t (&x)[4]) {
  const bool odd = threadIdx.x % 2 != 0, high = threadIdx.x % 4 >= 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(~0u, odd ? x[i] : x[i + 1], 1);
    if (odd) {
      x[i] = got;
    } else {
      x[i + 1] = got;
    }
  }
  // Now x[i], x[i + 1] are the pair's words of chunk i + odd.
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(~0u, high ? x[i] : x[i + 2], 2);
    if (high) {
      x[i] = got;
    } else {
      x[i + 2] = got;
    }
  }
  return {x[0], x[1], x[2], x[3]};
}

// context / sum in type T, or quantized; `row` is the lane's first row of the tile. kHidden: rows
// may be hidden.
template <class T, int kDim, bool kHidden, class Quantizing>
__device__ inline void store_rows(const AttentionLaunch& args, const Tile& tile, const Rows& rows,
                                  const float (&context)[kDim / 2], int row,
                                  const Quantizing& quantizing) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto* out = static_cast<T*>(args.out.data) + tile.batch * args.out.batch +
              tile.query * args.out.row + tile.head * args.out.head;
  float sum[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] = rows.sum[r] + __shfl_xor_sync(~0u, rows.sum[r], 1);
    sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
  }
  unsigned empty = 0;
  constexpr int kChunks = kDim / 32;  // of a lane in a row
  uint4 chunks[2 * kChunks];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (row + 8 * r < tile.queries && (tile.keys == 0 || is_empty_row(args, sum[r], true) ||
                                       (kHidden && is_hidden_row(args, tile, row + 8 * r))))
      empty |= 1u << r;
    const float inverse = 1.0f / sum[r];
#pragma unroll
    for (int n = 0; n < kChunks; ++n) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = context + 4 * (4 * n + i) + 2 * r;
        words[i] = pack<T>(pair[0] * inverse, pair[1] * inverse);
      }
      chunks[r * kChunks + n] = gather_chunk(words);
    }
  }
  const auto place = [&](int r, int n) {
    return out + (row + 8 * r) * args.out.row + lane % 4 * 8 + n * 32;
  };
  if (args.quantized.q == nullptr) {
#pragma unroll
    for (int i = 0; i < 2 * kChunks; ++i) {
      if (row + i / kChunks * 8 < tile.queries)
        *reinterpret_cast<uint4*>(place(i / kChunks, i % kChunks)) = chunks[i];
    }
  } else {
    const RowScaling by = quantizing.scaling(args);
    // A loop: with few rows the time is that in which instructions arrive, once each.
#pragma unroll 1
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int n = 0; n < kChunks; ++n) {
        const uint4 chunk = r == 0 ? chunks[n] : chunks[kChunks + n];
        if (row + r * 8 < tile.queries)
          quantize_eight(args, by, quantizing.factors(args, tile, n, n * 32 + lane % 4 * 8),
                         place(r, n), chunk);
      }
    }
  }
  if (__any_sync(~0u, empty != 0)) store_empty_rows<T, kDim>(args, tile, row, empty, out);
}

}  // namespace vernier::backend::cuda
