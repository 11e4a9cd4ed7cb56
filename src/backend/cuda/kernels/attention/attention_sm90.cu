// Attention in 16 bit on Hopper (sm_90a): one block of 1 or 2 warpgroups, each with 64 queries of a
// head, and steps of 128 keys from key 0 on that the copy engine brings into a ring of tiles. Both
// products are wgmma. Head sizes 32 and 64: two blocks share a multiprocessor, so that one's
// products run beside the other's softmax; steps whose keys are all hidden are left out where that
// changes nothing, and two heads of a sequence of at most 64 tokens share a block, a warpgroup
// each. Head size 128: P·V of a step runs beside the softmax of the next one. Scores by relative
// position: attention_positions.cuh. A row's bits depend on its query, keys and masks alone: the
// number of warpgroups changes none. At most 128 keys: attention_short.cu; many sequences:
// attention_sequences.cu. Contract: attention.h. C++17. Source: Shah et al., FlashAttention-3,
// arXiv:2407.08608.
#include <algorithm>

#include "backend/cuda/kernels/attention/attention_sm90.cuh"

namespace vernier::backend::cuda {
namespace {

// One thread's work before the kernel ahead has ended.
template <int kGroups>
__device__ inline void start_barriers(const Maps& maps, uint32_t barriers) {
  prefetch_map(&maps.q);
  prefetch_map(&maps.k);
  prefetch_map(&maps.v);
  for (int i = 0; i < kSlots; ++i) {
    barrier_init(barriers + static_cast<uint32_t>(i * 8), 1);
    barrier_init(barriers + static_cast<uint32_t>((kSlots + i) * 8), kGroups * 4);
  }
  barrier_init(barriers + 2 * kSlots * 8, 1);
  fence_shared_to_async();
}
// The warpgroups that have queries: of one head, or of a head each.
template <int kGroups>
__device__ inline int groups_of(const Tile& tile) {
  return kGroups == 2 && (tile.queries > kGroupQueries || tile.heads == 2) ? 2 : 1;
}
// The first query of a warpgroup in its tile.
__device__ inline int first_row(const Tile& tile, int group) {
  return tile.heads == 2 ? 0 : group * kGroupQueries;
}
// Whether blocks may have two heads. A block of head size 128 has its registers full.
template <int kDim, int kGroups>
constexpr bool kTwoHeads = kDim <= 64 && kGroups == 2;

// The tile of the warpgroup `group` in a block that has `first`.
__device__ inline Tile tile_of_group(const AttentionLaunch& args, const Tile& first, int group) {
  Tile tile = first;
  if (first.heads == 2 && group == 1) {
    tile.head = first.head + 1;
    tile.kv_head = tile.head / (args.heads / args.kv_heads);
  }
  return tile;
}
// And after it: queries and the first tiles of the ring. `tile` is in registers. Of two heads the
// second one's keys and values are the third and fourth tile.
template <int kDim, int kGroups, class TileRing>
__device__ inline void start_loads(const AttentionLaunch& args, const Maps& maps, const Tile& tile,
                                   const TileRing& ring, uint32_t base) {
  using Places = Room<kDim, kGroups>;
  const uint32_t query_barrier = base + Places::kBarriers + 2 * kSlots * 8;
  const int groups = groups_of<kGroups>(tile);
  barrier_expect(query_barrier, static_cast<uint32_t>(groups * Places::kGroupBytes));
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (g == groups) break;
    const bool next_head = tile.heads == 2 && g == 1;
#pragma unroll
    for (int col = 0; col < kDim; col += kBoxCols<kDim>) {
      copy_box(base + Places::kQuery +
                   static_cast<uint32_t>(g * Places::kGroupBytes + col * kGroupQueries * 2),
               &maps.q, col, static_cast<int>(tile.query) + (next_head ? 0 : g * kGroupQueries),
               static_cast<int>(tile.head) + next_head, static_cast<int>(tile.batch),
               query_barrier);
    }
  }
  if (ring.count == 0) return;
  ring.load_rows(tile, true, 0, 0);
  if (ring.count == 2) {
    ring.load_rows(tile, false, 0, 1);
    if (kTwoHeads<kDim, kGroups> && tile.heads == 2) {
      const Tile second = tile_of_group(args, tile, 1);
      ring.load_rows(second, true, 0, 2);
      ring.load_rows(second, false, 0, 3);
    }
    return;
  }
  for (int i = 1; i < TileRing::kSlots && i < ring.count; ++i) ring.load(i, i);
}

// Two parts are the best of 1, 2 and 4 with masks and where there is one step (13.2 against 14.1 µs
// at 32 x 16 x 128 x 64 on an H200); one part where several steps follow (392 against 407 µs at 128
// x 16 x 512 x 64).
template <int kDim, int kGroups>
constexpr int kLongParts = kDim <= 64 && kGroups == 2 ? 1 : 2;

// Where a tile all of whose keys are kept runs as one without masks. The staged keys are read
// before the first step.
template <int kDim, Masks kMasks>
constexpr bool kLooksAhead = kMasks == Masks::kKeep&& kDim <= 64;
// Whether they are; of more steps than are staged at a time: false.
__device__ inline bool keeps_all(const AttentionLaunch& args, const Tile& tile, int steps,
                                 uint4* room, int group) {
  if (steps > kStagedSteps) return false;
  stage_kept(args, tile, 0, steps, room, group);
  uint32_t all = ~0u;
  for (int step = 0; step < steps; ++step)
    all &= room[step].x & room[step].y & room[step].z & room[step].w;
  return all == ~0u;
}

// One thread's part of a tile: its two queries' scores, maxima, sums and context.
template <class T, int kDim, int kGroups, Masks kMasks, int kParts>
struct TileAttention {
  using Places = Room<kDim, kGroups, kMasks>;
  static constexpr bool kMasked = kMasks != Masks::kNone;
  static constexpr bool kOverlap = kDim == 128;  // where a block has a multiprocessor's registers

  const AttentionLaunch& args;
  const Tile& tile;
  Ring<kDim, kOverlap, kSlotsOf<kDim, kMasks>>& ring;
  const int steps, keys, group, thread, row;
  const uint32_t query;
  const float slope, inverse_scale;
  const bool bias_by_key, keep_by_key;
  float* const bias;              // of two steps, in shared memory
  uint4* const kept_room;         // of kStagedSteps steps, in shared memory
  StepBuckets* const buckets;     // of two steps, in shared memory
  StagedPositions* const staged;  // in shared memory
  const bool may_stage;
  PositionsOfStep positions{};  // of this step
  OwnBuckets own_buckets{};     // of the next step
  float key_bias = 0;
  Rows rows{};
  float context[kDim / 2] = {}, shift[2], factor[2];

  // Masks that are the same for all queries: a bias is loaded a step ahead and spread while a
  // product runs.
  __device__ __forceinline__ KeptKeys kept_keys(int step) {
    if (!keep_by_key) return KeptKeys{{}, true, false};
    const bool is_staged = kLooksAhead<kDim, kMasks> && steps <= kStagedSteps;
    if (step % kStagedSteps == 0 && !is_staged)
      stage_kept(args, tile, step, steps, kept_room, group);
    return spread_kept(kept_room[step % kStagedSteps]);
  }
  __device__ __forceinline__ void load_bias(int step) {
    if (!bias_by_key) return;
    const int j = step * kKeys + thread;
    const int64_t at = query_masks(args, tile, row).bias + j * args.bias.key;
    key_bias = j < keys ? load_float(args.bias.data, at, args.bias.type) : 0.0f;
  }
  __device__ __forceinline__ void spread_bias(int step) {
    if (!bias_by_key) return;
    bias[step % 2 * kKeys + thread] = raw_score(key_bias, inverse_scale);
    warpgroup_sync(group + 1);
    if (step + 1 < steps) load_bias(step + 1);
  }
  // Buckets are loaded a step ahead.
  __device__ __forceinline__ void load_next_buckets(int step) {
    if constexpr (kMasks != Masks::kPositions) return;
    if (step < steps) own_buckets = load_buckets(args, tile, first_row(tile, group), step * kKeys);
  }
  // The buckets of a step, and copies of its positions where they lie close together.
  __device__ __forceinline__ void spread_buckets(int step) {
    if constexpr (kMasks != Masks::kPositions) return;
    if (step >= steps) return;
    store_buckets(own_buckets, buckets[step % 2]);
    warpgroup_sync(group + 1);  // the step before has been read
    if constexpr (kStagesPositions<kDim, kMasks>) {
      const BucketChange change = change_of(args, buckets[step % 2]);
      if (!may_stage || !warpgroup_all(group + 1, change.near)) {
        positions = {};
        return;
      }
      positions = {staged, warpgroup_all(group + 1, change.by_one)};
      stage_positions(args, tile, first_row(tile, group), step * kKeys, buckets[step % 2], *staged);
    }
  }
  __device__ __forceinline__ void wait_for_positions() {
    if constexpr (kStagesPositions<kDim, kMasks>) {
      if (positions.staged == nullptr) return;
      wait_for_copies();
      warpgroup_sync(group + 1);  // those of the other threads
    }
  }
  // Bias, masks and the new maxima.
  template <int kCount>
  __device__ __forceinline__ void finish_scores(int step, const KeptKeys& kept,
                                                float (&scores)[kCount]) {
    const int key = step * kKeys;
    if constexpr (kMasks == Masks::kPositions)
      add_positions(args, tile, row, key, buckets[step % 2], positions, scores);
    if constexpr (kMasked) {
      mask_scores<kMasks>(args, tile, row, key, kept,
                          bias_by_key ? bias + step % 2 * kKeys : nullptr, inverse_scale, scores);
    }
    if (keys - key < 2 * kCount) {
      for_each_score(scores, [&](float& score, int n, int within, int) {
        if (8 * n + within >= keys - key) score = -kInfinity;
      });
    }
    raise_maxima(scores, slope, rows, shift, factor);
  }
  __device__ __forceinline__ void rescale() {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) context[i] *= factor[i / 2 % 2];
  }
  // Of a step of kStepKeys keys.
  template <int kStepKeys = kKeys>
  __device__ __forceinline__ uint32_t next_values(int step) {
    const uint32_t values = ring.next();
    if (keys - step * kKeys < kStepKeys && args.starts_q != nullptr)
      clear_rows<kDim>(values, keys - step * kKeys, kStepKeys, group);
    return values;
  }
  __device__ __forceinline__ void take_exponentials(float (&scores)[64]) {
    float sums[2][2] = {};
#pragma unroll
    for (int n = 0; n < 16; ++n) exponentiate(scores, n, slope, shift, sums);
    rows.sum[0] += sums[0][0] + sums[0][1];
    rows.sum[1] += sums[1][0] + sums[1][1];
  }
  // Two warpgroups take turns with their products, so that one's run beside the other's softmax.
  __device__ __forceinline__ void my_turn() const {
    if constexpr (kGroups == 2) turn_wait(group + 3);
  }
  __device__ __forceinline__ void your_turn(bool last) const {
    if constexpr (kGroups == 2) {
      if (!last || group == 0) turn_give(4 - group);
    }
  }

  // The last step where at most 64 keys are left and there are no masks.
  __device__ __forceinline__ void attend_half_step() {
    float scores[32];
    multiply_keys<T, kDim>(query, ring.next(), scores);
    wgmma_wait<0>();
    ring.leave();
    finish_scores(steps - 1, {}, scores);
    rescale();
    attend_values<T, kDim, kParts>(scores, slope, shift, next_values<kKeys / 2>(steps - 1), rows,
                                   context);
    wgmma_wait<0>();
    ring.leave();
  }
  // Head sizes 32 and 64: a step's two products and its softmax one after the other.
  __device__ __forceinline__ void attend_step_by_step() {
    const bool half = !kMasked && steps > 0 && keys - (steps - 1) * kKeys <= kKeys / 2;
    for (int step = 0; step < (half ? steps - 1 : steps); ++step) {
      const uint32_t step_keys = ring.next();
      uint32_t values = 0;
      const KeptKeys kept = kept_keys(step);
      if (kept.none) {
        values = next_values(step);
        if (is_void_step<T, kDim>(rows, raw_score(args.fill, inverse_scale), slope, values,
                                  group)) {
          if (step + 1 < steps) load_bias(step + 1);
          load_next_buckets(step + 1);
          wait_for_positions();
          spread_buckets(step + 1);
          ring.leave();
          ring.leave();
          continue;
        }
      }
      float scores[64];
      multiply_keys<T, kDim>(query, step_keys, scores);
      spread_bias(step);
      load_next_buckets(step + 1);
      wait_for_positions();
      wgmma_wait<0>();
      ring.leave();
      finish_scores(step, kept, scores);
      spread_buckets(step + 1);
      rescale();
      if (!kMasked || values == 0) values = next_values(step);
      attend_values<T, kDim, kParts>(scores, slope, shift, values, rows, context);
      wgmma_wait<0>();
      ring.leave();
    }
    if constexpr (!kMasked) {
      if (half) attend_half_step();
    }
  }

  // Head size 128: P·V of a step runs beside the softmax of the next one.
  __device__ __forceinline__ void attend_overlapped() {
    if (kGroups == 2 && group == 1 && steps > 0) turn_give(3);
    uint32_t p[8][4];
    const auto pack_all = [&](const float(&scores)[64]) {
#pragma unroll
      for (int step = 0; step < 8; ++step) pack_part<T>(scores, step, p[step]);
    };
    if (steps > 0) {
      float scores[64];
      my_turn();
      multiply_keys<T, kDim>(query, ring.next(), scores);
      your_turn(steps == 1);
      const KeptKeys kept = kept_keys(0);
      spread_bias(0);
      load_next_buckets(0);
      spread_buckets(0);
      wgmma_wait<0>();
      ring.leave();
      finish_scores(0, kept, scores);
      take_exponentials(scores);
      pack_all(scores);
    }
    for (int step = 1; step < steps; ++step) {
      float scores[64];
      const uint32_t next_keys = ring.next();
      my_turn();
      multiply_keys<T, kDim>(query, next_keys, scores);
      multiply_values<T, kDim>(p, ring.next(), context);
      your_turn(step + 1 == steps);
      const KeptKeys kept = kept_keys(step);
      spread_bias(step);
      load_next_buckets(step);
      spread_buckets(step);
      wgmma_wait<1>();
      ring.leave();
      finish_scores(step, kept, scores);
      take_exponentials(scores);
      wgmma_wait<0>();
      ring.leave();
      rescale();
      pack_all(scores);
    }
    if (steps > 0) multiply_values<T, kDim>(p, next_values(steps - 1), context);
    wgmma_wait<0>();
  }
};

// Where a block's things lie, and what a thread is in it.
struct BlockPlaces {
  uint32_t base;
  unsigned char* shared;
  uint32_t barriers;
  int steps, group, thread;
  bool may_stage;  // relative positions
};
// All steps of a group's tile, and its rows stored.
template <class T, int kDim, int kGroups, Masks kMasks, int kParts>
__device__ __forceinline__ void attend_keys(const AttentionLaunch& args, const Tile& tile,
                                            Ring<kDim, kDim == 128, kSlotsOf<kDim, kMasks>>& ring,
                                            const BlockPlaces& block) {
  using Attention = TileAttention<T, kDim, kGroups, kMasks, kParts>;
  using Places = typename Attention::Places;
  const int group = block.group, thread = block.thread;
  unsigned char* const shared = block.shared;
  Attention attention{
      args,
      tile,
      ring,
      block.steps,
      /*keys=*/static_cast<int>(tile.keys),
      group,
      thread,
      /*row=*/first_row(tile, group) + thread / 32 * 16 + thread % 32 / 4,
      /*query=*/block.base + Places::kQuery + static_cast<uint32_t>(group * Places::kGroupBytes),
      /*slope=*/args.scale * kLog2E,
      /*inverse_scale=*/1.0f / args.scale,
      /*bias_by_key=*/kMayAdd<kMasks> && args.bias.data != nullptr && args.bias.query == 0,
      /*keep_by_key=*/kMasks == Masks::kKeep ||
          (kMayKeep<kMasks> && args.keep.data != nullptr && args.keep.query == 0),
      reinterpret_cast<float*>(shared + Places::kBias) + group * 2 * kKeys,
      reinterpret_cast<uint4*>(shared + Places::kKept) + group * kStagedSteps,
      reinterpret_cast<StepBuckets*>(shared + Places::kBuckets) + group * 2,
      reinterpret_cast<StagedPositions*>(shared + Places::kStaged) + group,
      block.may_stage};
  if (Attention::kMasked && block.steps > 0) attention.load_bias(0);
  if constexpr (!Attention::kOverlap) {
    attention.load_next_buckets(0);
    attention.spread_buckets(0);
  }
  barrier_wait(block.barriers + 2 * kSlots * 8, 0);
  if constexpr (Attention::kOverlap) {
    attention.attend_overlapped();
    store_rows<T, kDim, kMasks == Masks::kPositions>(args, tile, attention.rows, attention.context,
                                                     attention.row, QuantizingBehind());
  } else {
    attention.attend_step_by_step();
    store_rows_staged<T, kDim, kMasks == Masks::kPositions>(
        args, tile, attention.rows, attention.context,
        shared + Places::kQuery + group * Places::kGroupBytes, first_row(tile, group), group);
  }
}

template <class T, int kDim, int kGroups, Masks kMasks, int kParts>
__device__ inline void attend_tile(const Sm90Launch& launch) {
  using Attention = TileAttention<T, kDim, kGroups, kMasks, kParts>;
  using Places = typename Attention::Places;
  const AttentionLaunch& args = launch.args;
  extern __shared__ unsigned char dynamic[];
  unsigned char* shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const uint32_t base = shared_address(shared), barriers = base + Places::kBarriers;
  const int group = static_cast<int>(threadIdx.x) / 128,
            thread = static_cast<int>(threadIdx.x) % 128;
  Tile& tile = reinterpret_cast<Tile*>(shared + Places::kTile)[group];
  Ring<kDim, Attention::kOverlap, kSlotsOf<kDim, kMasks>> ring{base + Places::kRing,
                                                               barriers,
                                                               barriers + kSlots * 8,
                                                               launch.maps,
                                                               &tile,
                                                               args.starts_q != nullptr,
                                                               0,
                                                               {},
                                                               {},
                                                               {}};
  // Barriers, the tile of this block and the first copies. As a function of its own this part makes
  // the compiler spill registers in the loops below.
  int steps;
  allow_next_kernel();
  {
    if (threadIdx.x == 32) start_barriers<kGroups>(launch.maps, barriers);
    if (threadIdx.x == 64) fetch_scaling(args);
    if (args.starts_q != nullptr) wait_for_previous_kernel();
    const Tile found = find_tile<kGroups * kGroupQueries, kTwoHeads<kDim, kGroups>>(
        args, launch.tiles, blockIdx.x);
    steps = static_cast<int>((found.keys + kKeys - 1) / kKeys);
    if (thread == 0) tile = tile_of_group(args, found, group);
    __syncthreads();
    wait_for_previous_kernel();
    if (found.queries == 0) return;
    if (kMayCause<kMasks> && args.causal && found.heads == 1)
      steps = static_cast<int>((keys_to_visit(args, found, kGroups * 128) + kKeys - 1) / kKeys);
    ring.count = 2 * steps;
    if (threadIdx.x == 0) start_loads<kDim, kGroups>(args, launch.maps, found, ring, base);
  }

  if (!Attention::kOverlap &&
      group >= groups_of<kGroups>(tile)) {  // it leaves tiles with the other
    for (int i = 0; ring.count > ring.kSlots && i < ring.count; ++i) {
      ring.next();
      ring.leave();
    }
    return;
  }
  const bool own_head = kTwoHeads<kDim, kGroups> && tile.heads == 2;
  if (own_head) ring.waiting.slot = ring.leaving.slot = 2 * group;
  const BlockPlaces places{base, shared, barriers, steps, group, thread, launch.may_stage};
  if constexpr (kLooksAhead<kDim, kMasks>) {
    auto* kept = reinterpret_cast<uint4*>(shared + Places::kKept) + group * kStagedSteps;
    if (keeps_all(args, tile, steps, kept, group))
      return attend_keys<T, kDim, kGroups, Masks::kNone, kLongParts<kDim, kGroups>>(args, tile,
                                                                                    ring, places);
  }
  attend_keys<T, kDim, kGroups, kMasks, kParts>(args, tile, ring, places);
}

// Blocks that the compiler leaves registers for. Those that read relative positions take all that a
// thread can have, and two of one warpgroup still fit.
template <int kDim, Masks kMasks>
constexpr int kBlocks = kDim <= 64 && kMasks != Masks::kPositions ? 2 : 1;

template <class T, int kDim, int kGroups, Masks kMasks, int kParts>
__global__ void __launch_bounds__(kGroups * 128, kBlocks<kDim, kMasks>)
    sm90_kernel(const __grid_constant__ Sm90Launch launch) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  attend_tile<T, kDim, kGroups, kMasks, kParts>(launch);
#else
  __trap();  // hopper_kernels_usable() is false for such code
#endif
}

// ---- host

// Blocks that a grid must hold. Of sequences an upper bound, the lengths being on the device: with
// two heads in a block one of up to 64 tokens takes heads / 2 blocks, and a longer one at most
// heads / 86 more for each of its tokens (129 tokens take 2 · heads).
template <int kDim, int kGroups>
int64_t blocks_of(const AttentionLaunch& args, int64_t tiles) {
  const int64_t most = tiles * args.heads * args.batch;
  if (!kTwoHeads<kDim, kGroups> || args.starts_q == nullptr || args.starts_q != args.starts_k)
    return most;
  const int64_t pairs = (args.heads + 1) / 2;
  return std::min(most, (args.sequences + 1) * pairs + args.queries * args.heads / 86);
}

// Of a sequence.
int64_t most_keys(const AttentionLaunch& args) {
  return args.longest > 0 && args.longest < args.keys ? args.longest : args.keys;
}

// Whether runs of these positions can be copied: of a 16-bit type, from multiples of 16 bytes.
bool may_stage(const AttentionPositions& x, int run, AttentionType type) {
  return x.data == nullptr ||
         (x.type == type && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.batch % 8 == 0 &&
          x.row % 8 == 0 && x.head % 8 == 0 && x.size % 8 == 0 && x.size >= run);
}

template <class T, int kDim, int kGroups, Masks kMasks, int kParts>
cudaError_t launch_kernel(const AttentionLaunch& args, cudaStream_t stream) {
  Sm90Launch launch{{},
                    args,
                    attention_tiles(args, kGroups * kGroupQueries),
                    may_stage(args.query_positions, kQueryRun, args.q.type) &&
                        may_stage(args.key_positions, kKeyRun, args.q.type)};
  cudaError_t status = make_maps(args, launch.maps);
  if (status != cudaSuccess) return status;
  using Places = Room<kDim, kGroups, kMasks>;
  const auto kernel = &sm90_kernel<T, kDim, kGroups, kMasks, kParts>;
  constexpr int kMost = Places::kMost;
  status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMost);
  if (status != cudaSuccess) return status;
  const int64_t tiles = 2 * ((most_keys(args) + kKeys - 1) / kKeys);
  const bool two_heads = kTwoHeads<kDim, kGroups> && args.starts_q != nullptr;
  const int bytes =
      two_heads || tiles >= kSlotsOf<kDim, kMasks> ? kMost : Places::bytes(static_cast<int>(tiles));
  return launch_overlapped(kernel,
                           static_cast<unsigned>(blocks_of<kDim, kGroups>(args, launch.tiles)),
                           kGroups * 128, static_cast<size_t>(bytes), stream, launch);
}

// The warpgroups of a block that reads relative positions: where they are staged one, so that two
// blocks have room in a multiprocessor and one's copies run beside the other's softmax.
template <int kDim>
constexpr int kPositionGroups = kStagesPositions<kDim, Masks::kPositions> ? 1 : 2;

template <class T, int kDim, int kGroups>
cudaError_t launch_groups(const AttentionLaunch& args, cudaStream_t stream) {
  const auto differs = [](const AttentionTable& t) { return t.data != nullptr && t.query != 0; };
  if constexpr (kGroups == kPositionGroups<kDim>) {
    if (args.by_position)
      return launch_kernel<T, kDim, kGroups, Masks::kPositions, 2>(args, stream);
  }
  if (differs(args.bias) || differs(args.keep))
    return launch_kernel<T, kDim, kGroups, Masks::kAny, 2>(args, stream);
  const bool bias = args.bias.data != nullptr, keep = args.keep.data != nullptr;
  if (bias || (keep && args.causal))
    return launch_kernel<T, kDim, kGroups, Masks::kByKey, 2>(args, stream);
  if (keep) return launch_kernel<T, kDim, kGroups, Masks::kKeep, 2>(args, stream);
  if (args.causal) return launch_kernel<T, kDim, kGroups, Masks::kCausal, 2>(args, stream);
  if (args.keys > kKeys)
    return launch_kernel<T, kDim, kGroups, Masks::kNone, kLongParts<kDim, kGroups>>(args, stream);
  return launch_kernel<T, kDim, kGroups, Masks::kNone, 2>(args, stream);
}

// Two warpgroups share the loads of keys and values; one where that would leave multiprocessors
// without work.
template <class T, int kDim>
cudaError_t launch_dim(const AttentionLaunch& args, cudaStream_t stream) {
  const int64_t blocks = attention_tiles(args, 2 * kGroupQueries) * args.heads * args.batch;
  const bool two = args.by_position ? kPositionGroups<kDim> == 2
                                    : args.queries > kGroupQueries && blocks >= kMultiprocessors;
  return two ? launch_groups<T, kDim, 2>(args, stream) : launch_groups<T, kDim, 1>(args, stream);
}

constexpr int64_t kMaxRows = (int64_t{1} << 31) - 1024;  // coordinates are 32 bits
bool is_mappable(const AttentionRows& x, int64_t batch, int64_t rows, int64_t heads) {
  const auto good = [](int64_t stride, int64_t size) {
    return size == 1 || (stride > 0 && stride % 8 == 0 && stride < int64_t{1} << 38);
  };
  // Of a batch of 1 too: with other kernels for it than for more rows it would have other bits.
  return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && x.batch % 8 == 0 &&
         good(x.batch, batch) && good(x.row, rows) && good(x.head, heads);
}

}  // namespace

bool attention_sm90_takes(const AttentionLaunch& args) {
  return args.keys > 0 && args.keys <= kMaxRows && args.queries <= kMaxRows &&
         is_mappable(args.q, args.batch, args.queries, args.heads) &&
         is_mappable(args.k, args.batch, args.keys, args.kv_heads) &&
         is_mappable(args.v, args.batch, args.keys, args.kv_heads);
}

cudaError_t launch_attention_sm90(const AttentionLaunch& args, cudaStream_t stream) {
  if (attention_short_takes(args)) return launch_attention_short(args, stream);
  if (attention_sequences_takes(args)) return launch_attention_sequences(args, stream);
  const bool half = args.q.type == AttentionType::kF16;
  if (args.head_dim == 32)
    return half ? launch_dim<__half, 32>(args, stream)
                : launch_dim<__nv_bfloat16, 32>(args, stream);
  if (args.head_dim == 64)
    return half ? launch_dim<__half, 64>(args, stream)
                : launch_dim<__nv_bfloat16, 64>(args, stream);
  return half ? launch_dim<__half, 128>(args, stream)
              : launch_dim<__nv_bfloat16, 128>(args, stream);
}

}  // namespace vernier::backend::cuda
