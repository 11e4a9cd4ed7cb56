// Parts of attention_sm90.cu, whose head says how they work together: room in shared memory, the
// ring of tiles that the copy engine fills, steps that may be left out. C++17.
#pragma once
#include <type_traits>

#include "backend/cuda/kernels/attention/attention_maps.cuh"

namespace vernier::backend::cuda {

constexpr int kSlots = 5;         // most tiles of the ring: k, v, k, v, …
constexpr int kStagedSteps = 64;  // whose kept keys a group reads at a time

struct Sm90Launch {
  Maps maps;
  AttentionLaunch args;
  int64_t tiles;
  bool may_stage;  // relative positions: attention_positions.cuh
};

// Where relative positions are copied to shared memory, a step ahead. Head size 128 has no room.
template <int kDim, Masks kMasks>
constexpr bool kStagesPositions = kMasks == Masks::kPositions&& kDim <= 64;

// Tiles of the ring. Where positions are staged too, as many as leave room for a second block.
template <int kDim, Masks kMasks>
constexpr int kSlotsOf = kStagesPositions<kDim, kMasks> ? 4 : kSlots;

constexpr int aligned(int at, int to) { return (at + to - 1) / to * to; }
// Where things lie in shared memory, from a 1024-byte aligned address on. The ring comes last, so
// that a launch of few keys takes only as many slots as it fills.
template <int kDim, int kGroups, Masks kMasks = Masks::kNone>
struct Room {
  static constexpr int kTileBytes = kKeys * kDim * 2;  // of k or v: columns 0 … 63, then 64 … 127
  static constexpr int kGroupBytes = kGroupQueries * kDim * 2;
  static constexpr int kQuery = 0;
  static constexpr int kBias = kQuery + kGroups * kGroupBytes;   // [group][parity][key]
  static constexpr int kKept = kBias + kGroups * 2 * kKeys * 4;  // [group][step]
  static constexpr int kBarriers = kKept + kGroups * kStagedSteps * 16;
  static constexpr int kTile = kBarriers + (2 * kSlots + 1) * 8;  // a Tile for each group
  // Of kPositions: [group][parity] and [group].
  static constexpr int kBuckets = aligned(kTile + kGroups * static_cast<int>(sizeof(Tile)), 16);
  static constexpr int kStaged =
      kBuckets +
      (kMasks == Masks::kPositions ? kGroups * 2 * static_cast<int>(sizeof(StepBuckets)) : 0);
  static constexpr int kRing =
      aligned(kStaged + (kStagesPositions<kDim, kMasks>
                             ? kGroups * static_cast<int>(sizeof(StagedPositions))
                             : 0),
              1024);
  static constexpr int bytes(int slots) { return kRing + slots * kTileBytes + 1024; }
  static_assert(kStaged % 16 == 0);
  static constexpr int kMost = bytes(kSlotsOf<kDim, kMasks>);
  static_assert(kMost <= 232448, "more than a block can have");
};

// A place in the ring and the parity of its present round.
template <int kSlotCount>
struct Cursor {
  int slot = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    slot = slot + 1 == kSlotCount ? 0 : slot + 1;
    parity ^= slot == 0 ? 1u : 0u;
  }
};

// The ring of key and value tiles: k0 v0 k1 v1 …, or with kKeysAhead k0 k1 v0 k2 v1 … v(last).
// Every warp waits for the tiles in order and leaves them in order.
template <int kDim, bool kKeysAhead, int kSlotCount>
struct Ring {
  static constexpr int kSlots = kSlotCount;
  uint32_t base, full, empty;
  const Maps& maps;
  const Tile* tile;  // in shared memory
  bool in_parts;     // of a tile's rows only those of the sequence are loaded, kPartKeys at a time
  int count;         // tiles in all
  Cursor<kSlotCount> waiting, leaving, refilled;
  int left = 0;  // tiles that this thread has left

  __device__ void load(int i, int slot) const {
    const bool is_keys = kKeysAhead ? i == 0 || (i % 2 == 1 && i != count - 1) : i % 2 == 0;
    const int step = !kKeysAhead || i == count - 1 ? i / 2 : is_keys ? (i + 1) / 2 : i / 2 - 1;
    load_rows(*tile, is_keys, step, slot);
  }
  __device__ void load_rows(const Tile& from, bool is_keys, int step, int slot) const {
    const uint32_t barrier = full + static_cast<uint32_t>(slot * 8);
    const uint32_t dst = base + static_cast<uint32_t>(slot * kKeys * kDim * 2);
    const int left = static_cast<int>(from.keys) - step * kKeys;
    if (in_parts && left <= kKeys - kPartKeys) {
      const int parts = (left + kPartKeys - 1) / kPartKeys;
      barrier_expect(barrier, static_cast<uint32_t>(parts * kPartKeys * kDim * 2));
#pragma unroll 1
      for (int part = 0; part < parts; ++part) {
#pragma unroll
        for (int col = 0; col < kDim; col += kBoxCols<kDim>) {
          const int within = col * kKeys * 2 + part * kPartKeys * kBoxCols<kDim> * 2;
          copy_box(dst + static_cast<uint32_t>(within), is_keys ? &maps.k_part : &maps.v_part, col,
                   static_cast<int>(from.key) + step * kKeys + part * kPartKeys,
                   static_cast<int>(from.kv_head), static_cast<int>(from.batch), barrier);
        }
      }
      return;
    }
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

// True in all kThreads that share a barrier if it is in each.
template <int kThreads = 128>
__device__ inline bool warpgroup_all(int id, bool predicate) {
  uint32_t all;
  asm volatile(
      "{\n.reg .pred mine, every;\nsetp.ne.b32 mine, %1, 0;\n"
      "barrier.cta.red.and.aligned.pred every, %2, %3, mine;\n"
      "selp.b32 %0, 1, 0, every;\n}"
      : "=r"(all)
      : "r"(static_cast<uint32_t>(predicate)), "r"(id), "n"(kThreads)
      : "memory");
  return all != 0;
}

// True if no element of a value tile is NaN or infinite, of those that the thread looks at.
template <class T, int kDim>
__device__ inline bool is_finite_tile(uint32_t tile) {
  constexpr uint32_t kExponent = std::is_same<T, __half>::value ? 0x7c00 : 0x7f80;
  bool finite = true;
#pragma unroll 2
  for (uint32_t at = threadIdx.x % 128 * 16; at < kKeys * kDim * 2; at += 128 * 16) {
    const uint4 v = load_shared_16_bytes(tile + at);
    for (uint32_t pair : {v.x, v.y, v.z, v.w}) {
      finite = finite && (pair & kExponent) != kExponent && (pair >> 16 & kExponent) != kExponent;
    }
  }
  return finite;
}

// Which keys of the steps from `first` on are kept, into the group's room. Not loaded a step ahead:
// with no register left to hold it in, every step waits for such a load (with kernels that know
// their masks, 116 -> 102 us at 32 x 16 x 512 x 64).
__device__ inline void stage_kept(const AttentionLaunch& args, const Tile& tile, int first,
                                  int steps, uint4* room, int group) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int end = steps - first < kStagedSteps ? steps - first : kStagedSteps;
  warpgroup_sync(group + 1);  // the steps before have been read
  for (int i = warp; i < end; i += 4) {
    const uint4 bits = kept_bits(load_kept(args, tile, (first + i) * kKeys));
    if (threadIdx.x % 32 == 0) room[i] = bits;
  }
  warpgroup_sync(group + 1);
}

// Whether a step whose keys are all hidden changes nothing: their probabilities are 0 beside the
// row's maximum so far, and 0 times their values is 0. All threads of the group call it.
template <class T, int kDim>
__device__ inline bool is_void_step(const Rows& rows, float raw_fill, float slope, uint32_t values,
                                    int group) {
  bool nothing = true;
#pragma unroll
  for (float max : rows.max) {
    const bool known = max > -kInfinity || raw_fill == -kInfinity;
    nothing = nothing && known && exp2_fast(fmaf(raw_fill, slope, -shift_of(max, slope))) == 0;
  }
  return warpgroup_all(group + 1, nothing && is_finite_tile<T, kDim>(values));
}

// Rows `keys` to `end` of a value tile become 0: they are another sequence's, and 0 · NaN is NaN.
template <int kDim>
__device__ inline void clear_rows(uint32_t tile, int keys, int end, int group) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  constexpr int kChunks = kBoxCols<kDim> / 8;
  for (int i = keys * kChunks + thread; i < end * kChunks; i += 128) {
#pragma unroll
    for (int col = 0; col < kDim; col += kBoxCols<kDim>) {
      const uint32_t at = tile + static_cast<uint32_t>(col * kKeys * 2 + i * 16);
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
    }
  }
  fence_shared_to_async();
  warpgroup_sync(group + 1);
}

// context / sum in type T, through the group's room for its queries so that memory is written in
// whole rows. kHidden: rows may be hidden.
template <class T, int kDim, bool kHidden>
__device__ inline void store_rows_staged(const AttentionLaunch& args, const Tile& tile, Rows& rows,
                                         float (&context)[kDim / 2], unsigned char* room,
                                         int first_row, int group) {
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32 % 4;
  constexpr int kChunks = kDim / 8;
  const RowScaling by = scaling_of(args.quantized);
  const EightFactors factors = factors_of(args, tile, lane % kChunks * 8);
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
    if (tile.keys == 0 || is_empty_row(args, sum, true) ||
        (kHidden && is_hidden_row(args, tile, first_row + warp * 16 + lane / 4 + 8 * r)))
      empty |= 1u << r;
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
  first_row += warp * 16;
#pragma unroll
  for (int i = 0; i < kChunks / 2; ++i) {
    const int row = (i * 32 + lane) / kChunks, chunk = lane % kChunks;
    if (first_row + row >= tile.queries) break;
    T* to = out + (first_row + row) * args.out.row + chunk * 8;
    const uint4 eight = *reinterpret_cast<const uint4*>(own + place(row, chunk));
    if (args.quantized.q == nullptr)
      *reinterpret_cast<uint4*>(to) = eight;
    else
      quantize_eight(args, by, factors, to, eight);
  }
  if (__any_sync(~0u, empty != 0))
    store_empty_rows<T, kDim>(args, tile, first_row + lane / 4, empty, out);
}

}  // namespace vernier::backend::cuda
