// Parts of attention on Hopper: room in shared memory, the ring of tiles that the copy engine
// fills, masks, softmax. Used by attention_sm90.cu only, whose head says how they work together.
// C++17.
#pragma once
#include "backend/cuda/device/wgmma_attention.cuh"
#include "backend/cuda/kernels/attention_device.cuh"

// For other architectures the kernels are empty, and nothing refers to what they call.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177
#endif

namespace vernier::backend::cuda {

constexpr int kGroupQueries = 64;  // of a warpgroup
constexpr int kKeys = 128;         // of a step: part of a row's bits
constexpr int kSlots = 5;          // tiles of the ring: k, v, k, v, …
constexpr float kLog2E = 1.4426950408889634f;
// Raw scores (before scaling) beyond it are brought to it: −3.4e38 times log2(e) would be −inf.
constexpr float kLargestRaw = 0x1p100f;

// Which masks a kernel knows; the others' code would only lie in the way. Keys past the last one
// are hidden in all of them.
enum class Masks { kNone, kByKey, kAny };  // kByKey: causal, and tables the same for all queries

// Columns of a box: a row of shared memory is one swizzle wide.
template <int kDim>
constexpr int kBoxCols = kDim < 64 ? kDim : 64;

struct Maps {
  CUtensorMap q, k, v;  // boxes of (64 queries | 128 keys) x kBoxCols columns
};
struct Sm90Launch {
  Maps maps;
  AttentionLaunch args;
  int64_t tiles;
};

// Where things lie in shared memory, from a 1024-byte aligned address on. The ring comes last, so
// that a launch of few keys takes only as many slots as it fills.
template <int kDim, int kGroups>
struct Room {
  static constexpr int kTileBytes = kKeys * kDim * 2;  // of k or v: columns 0 … 63, then 64 … 127
  static constexpr int kGroupBytes = kGroupQueries * kDim * 2;
  static constexpr int kQuery = 0;
  static constexpr int kBias = kQuery + kGroups * kGroupBytes;  // [group][parity][key]
  static constexpr int kBarriers = kBias + kGroups * 2 * kKeys * 4;
  static constexpr int kTile = kBarriers + (2 * kSlots + 1) * 8;  // a Tile
  static constexpr int kRing = (kTile + static_cast<int>(sizeof(Tile)) + 1023) / 1024 * 1024;
  static constexpr int bytes(int slots) { return kRing + slots * kTileBytes + 1024; }
};

// A score, bias or fill as it is before scaling. Finite stays finite.
__device__ inline float raw_score(float score, float inverse_scale) {
  const float raw = score * inverse_scale;
  return fabsf(raw) > kLargestRaw && fabsf(score) < kInfinity ? copysignf(kLargestRaw, score) : raw;
}

// A place in the ring and the parity of its present round.
struct Cursor {
  int slot = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    slot = slot + 1 == kSlots ? 0 : slot + 1;
    parity ^= slot == 0 ? 1u : 0u;
  }
};

// The ring of key and value tiles: k0 v0 k1 v1 …, or with kKeysAhead k0 k1 v0 k2 v1 … v(last).
// Every warp waits for the tiles in order and leaves them in order.
template <int kDim, bool kKeysAhead>
struct Ring {
  uint32_t base, full, empty;
  const Maps& maps;
  const Tile* tile;  // in shared memory
  int count;         // tiles in all
  Cursor waiting, leaving, refilled;
  int left = 0;  // tiles that this thread has left

  __device__ void load(int i, int slot) const {
    const bool is_keys = kKeysAhead ? i == 0 || (i % 2 == 1 && i != count - 1) : i % 2 == 0;
    const int step = !kKeysAhead || i == count - 1 ? i / 2 : is_keys ? (i + 1) / 2 : i / 2 - 1;
    load_rows(*tile, is_keys, step, slot);
  }
  __device__ void load_rows(const Tile& from, bool is_keys, int step, int slot) const {
    const uint32_t barrier = full + static_cast<uint32_t>(slot * 8);
    const uint32_t dst = base + static_cast<uint32_t>(slot * kKeys * kDim * 2);
    barrier_expect(barrier, kKeys * kDim * 2);
#pragma unroll
    for (int col = 0; col < kDim; col += kBoxCols<kDim>) {
      copy_box(dst + static_cast<uint32_t>(col * kKeys * 2), is_keys ? &maps.k : &maps.v, col,
               static_cast<int>(from.key) + step * kKeys, static_cast<int>(from.kv_head),
               static_cast<int>(from.batch), barrier);
    }
  }
  // The address of the next tile, once it is there.
  __device__ uint32_t next() {
    barrier_wait(full + static_cast<uint32_t>(waiting.slot * 8), waiting.parity);
    const uint32_t address = base + static_cast<uint32_t>(waiting.slot * kKeys * kDim * 2);
    waiting.advance();
    return address;
  }
  // Every thread that has read the next tile to leave calls it; one of them fills the slot of the
  // tile before it, which the other warps have left by then or soon will.
  __device__ void leave() {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty + static_cast<uint32_t>(leaving.slot * 8));
    leaving.advance();
    if (left++ > 0) {
      if (threadIdx.x == 0 && left - 2 + kSlots < count) {
        barrier_wait(empty + static_cast<uint32_t>(refilled.slot * 8), refilled.parity);
        load(left - 2 + kSlots, refilled.slot);
      }
      refilled.advance();
    }
    __syncwarp();
  }
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
// Bit 2n of word e: key 8n + 2t + e is kept (lane = 4g + t).
struct KeptKeys {
  uint32_t words[2];
  bool all;
};
__device__ inline KeptKeys spread_kept(uint32_t bytes) {
  uint32_t by_byte[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) by_byte[i] = __ballot_sync(~0u, (bytes >> (8 * i) & 0xff) != 0);
  const int t = static_cast<int>(threadIdx.x) % 4;
  KeptKeys kept;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    // Bit 2n + t / 2 of the ballot over byte 2t % 4 + e is that key.
    kept.words[e] = (t % 2 == 0 ? by_byte[e] : by_byte[2 + e]) >> (t / 2);
  }
  kept.all = (by_byte[0] & by_byte[1] & by_byte[2] & by_byte[3]) == ~0u;
  return kept;
}

// Element e of a fragment's eight columns: key 8n + 2t + e % 2 of row e / 2.
template <class Each>
__device__ inline void for_each_score(float (&scores)[64], const Each& each) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < 16; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) each(scores[4 * n + e], n, first + e % 2, e / 2);
  }
}

// Bias and masks that differ from query to query; `row` is the lane's first row of the tile.
__device__ inline void mask_by_query(const AttentionLaunch& args, const Tile& tile, int row,
                                     int key, float inverse_scale, float (&scores)[64]) {
  const QueryMasks masks[2] = {query_masks(args, tile, row), query_masks(args, tile, row + 8)};
  const float fill = raw_score(args.fill, inverse_scale);
  const bool bias = args.bias.data != nullptr && args.bias.query != 0;
  const bool keep = args.keep.data != nullptr && args.keep.query != 0;
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

// Bias and masks of the step that starts at `key`; scores are raw. bias_by_key: the step's biases
// in shared memory where all queries have the same, else null.
template <Masks kMasks>
__device__ inline void mask_scores(const AttentionLaunch& args, const Tile& tile, int row, int key,
                                   const KeptKeys& kept, const float* bias_by_key,
                                   float inverse_scale, float (&scores)[64]) {
  if (__builtin_expect(bias_by_key != nullptr, 0)) {
    for_each_score(scores, [&](float& score, int n, int within, int) {
      score += bias_by_key[8 * n + within];
    });
  }
  if constexpr (kMasks == Masks::kAny) {
    mask_by_query(args, tile, row, key, inverse_scale, scores);
  }
  const float fill = raw_score(args.fill, inverse_scale);
  if (__builtin_expect(!kept.all, 0)) {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      if ((kept.words[i % 2] >> (i / 4 * 2) & 1) == 0) scores[i] = fill;
    }
  }
  if (__builtin_expect(!args.causal, 1)) return;
  const int64_t left = tile.visible + row - key;  // the lane's first row sees keys up to it
  if (__all_sync(~0u, left >= kKeys - 1)) return;
  const int visible = left > kKeys ? kKeys : left < -16 ? -16 : static_cast<int>(left);
  for_each_score(scores, [&](float& score, int n, int within, int r) {
    if (8 * n + within > visible + 8 * r) score = fill;
  });
}

// The new maxima of both rows; `factor` is what sums and contexts so far are multiplied by and
// `shift` what exponents are lowered by: 2^(score·slope − shift).
__device__ inline void raise_maxima(const float (&scores)[64], float slope, Rows& rows,
                                    float (&shift)[2], float (&factor)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top[2] = {rows.max[r], -kInfinity};
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      top[n % 2] = fmaxf(top[n % 2], fmaxf(scores[4 * n + 2 * r], scores[4 * n + 2 * r + 1]));
    }
    float max = fmaxf(top[0], top[1]);
    max = fmaxf(max, __shfl_xor_sync(~0u, max, 1));
    max = fmaxf(max, __shfl_xor_sync(~0u, max, 2));
    // While every key so far is hidden with −inf, 2^(−inf − 0) = 0 keeps the sum at 0.
    shift[r] = max == -kInfinity ? 0.0f : __fmul_rn(max, slope);
    // Rounded alike, so that an unchanged maximum gives exactly 1: no multiply-add here.
    factor[r] = exp2_fast(__fsub_rn(__fmul_rn(rows.max[r], slope), shift[r]));
    rows.max[r] = max;
    rows.sum[r] *= factor[r];
  }
}

// Columns [8n, 8n + 8) of a step: 2^(scores·slope − shift) in place, added to `sums`.
__device__ inline void exponentiate(float (&scores)[64], int n, float slope,
                                    const float (&shift)[2], float (&sums)[2][2]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    float& score = scores[4 * n + e];
    score = exp2_fast(fmaf(score, slope, -shift[e / 2]));
    sums[e / 2][e % 2] += score;
  }
}
// The part of a step's probabilities that the product `step` of 16 keys takes, rounded to T.
template <class T>
__device__ inline void pack_part(const float (&p)[64], int step, uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack<T>(p[8 * step + 2 * i], p[8 * step + 2 * i + 1]);
}

// context += 2^(scores·slope − shift) · v, in kParts parts: each part's product runs while the next
// part's exponentials are taken. The order of every sum is the same for any kParts.
template <class T, int kDim, int kParts>
__device__ inline void attend_values(float (&scores)[64], float slope, const float (&shift)[2],
                                     uint32_t v, Rows& rows, float (&context)[kDim / 2]) {
  constexpr int kRowBytes = 2 * kBoxCols<kDim>;
  const TileDescriptor<kRowBytes> values(v, kKeys * kRowBytes);
  uint32_t p[8][4];
  float sums[2][2] = {};
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
#pragma unroll
    for (int n = 16 / kParts * part; n < 16 / kParts * (part + 1); ++n)
      exponentiate(scores, n, slope, shift, sums);
#pragma unroll
    for (int step = 8 / kParts * part; step < 8 / kParts * (part + 1); ++step)
      pack_part<T>(scores, step, p[step]);
    wgmma_fence();
#pragma unroll
    for (int step = 8 / kParts * part; step < 8 / kParts * (part + 1); ++step) {
      multiply_registers<T>(context, p[step],
                            values.after(static_cast<uint32_t>(step * 16 * kRowBytes)));
    }
    wgmma_commit();
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] += sums[r][0] + sums[r][1];
}

// context += p · v, issued and committed.
template <class T, int kDim>
__device__ inline void multiply_values(const uint32_t (&p)[8][4], uint32_t v,
                                       float (&context)[kDim / 2]) {
  constexpr int kRowBytes = 2 * kBoxCols<kDim>;
  const TileDescriptor<kRowBytes> values(v, kKeys * kRowBytes);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    multiply_registers<T>(context, p[step],
                          values.after(static_cast<uint32_t>(step * 16 * kRowBytes)));
  }
  wgmma_commit();
}

// Rows of a value tile from `keys` on become 0: they are another sequence's, and 0 · NaN is NaN.
template <int kDim>
__device__ inline void clear_rows(uint32_t tile, int keys, int group) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  constexpr int kChunks = kBoxCols<kDim> / 8;
  for (int i = keys * kChunks + thread; i < kKeys * kChunks; i += 128) {
#pragma unroll
    for (int col = 0; col < kDim; col += kBoxCols<kDim>) {
      const uint32_t at = tile + static_cast<uint32_t>(col * kKeys * 2 + i * 16);
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
    }
  }
  fence_shared_to_async();
  warpgroup_sync(group + 1);
}

// Rows of the warp whose probabilities are all 0, which are rare: a loop, so that what is always run
// stays short. `which` has bit r where the lane's row g + 8r is such a row; all lanes call it.
template <class T, int kDim>
__device__ inline void store_empty_rows(const AttentionLaunch& args, const Tile& tile, int row,
                                        unsigned which, T* out) {
  __syncwarp();  // other lanes have stored into these rows
#pragma unroll 1
  for (int i = 0; i < 2 * kDim / 8; ++i) {
    const int r = i % 2, col = i / 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
    if ((which >> r & 1) == 0 || row + 8 * r >= tile.queries) continue;
    const uint32_t pair =
        pack<T>(empty_context(args, tile, col), empty_context(args, tile, col + 1));
    *reinterpret_cast<uint32_t*>(out + (row + 8 * r) * args.out.row + col) = pair;
  }
}

// context / sum in type T, through the group's room for its queries so that memory is written in
// whole rows.
template <class T, int kDim>
__device__ inline void store_rows(const AttentionLaunch& args, const Tile& tile, Rows& rows,
                                  float (&context)[kDim / 2], unsigned char* room, int first_row,
                                  int group) {
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32 % 4;
  warpgroup_sync(group + 1);  // every warp's products have read the queries
  unsigned char* own = room + warp * 16 * kDim * 2;
  // 16-byte chunks are so permuted that 8 rows of one column lie in different banks.
  const auto place = [](int row, int chunk) {
    return row * kDim * 2 + (chunk ^ (kDim < 64 ? row / 2 & 3 : row & 7)) * 16;
  };
  unsigned empty = 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = rows.sum[r];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (tile.keys == 0 || is_empty_row(args, sum, true)) empty |= 1u << r;
    const float inverse = 1.0f / sum;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      *reinterpret_cast<uint32_t*>(own + place(lane / 4 + 8 * r, n) + lane % 4 * 4) =
          pack<T>(context[4 * n + 2 * r] * inverse, context[4 * n + 2 * r + 1] * inverse);
    }
  }
  __syncwarp();
  auto* out = static_cast<T*>(args.out.data) + tile.batch * args.out.batch +
              tile.query * args.out.row + tile.head * args.out.head;
  constexpr int kChunks = kDim / 8;
  first_row += warp * 16;
#pragma unroll
  for (int i = 0; i < kChunks / 2; ++i) {
    const int row = (i * 32 + lane) / kChunks, chunk = lane % kChunks;
    if (first_row + row >= tile.queries) break;
    *reinterpret_cast<uint4*>(out + (first_row + row) * args.out.row + chunk * 8) =
        *reinterpret_cast<const uint4*>(own + place(row, chunk));
  }
  if (__any_sync(~0u, empty != 0))
    store_empty_rows<T, kDim>(args, tile, first_row + lane / 4, empty, out);
}

}  // namespace vernier::backend::cuda
