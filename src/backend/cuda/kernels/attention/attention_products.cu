// Attention in 16 bits on Hopper (sm_90a) whose scores by relative position are products of queries
// and keys with tables (disentangled attention: He et al., DeBERTa, arXiv:2006.03654). The tables
// of a head stay in shared memory, and a step computes the products that it needs itself: of 64
// queries and 64 keys at most 127 distances occur, whose buckets are neighbors, so a product with
// 128 rows of the table is enough. It is rounded to the operands' type, stored, and read at each
// score's distance. wgmma sums as mma.sync does, 16 terms at a time from the first on: the bits are
// those of a MatMul whose result attention_sm90.cu reads. A block has a multiprocessor, one warp
// that loads, and 1 or 2 warpgroups with 64 queries each; it walks over tiles of one head after the
// other. Contract: attention.h. C++17.
#include <algorithm>

#include "backend/cuda/kernels/attention/attention_sm90.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kDim = 64, kHalf = 64;      // of a step's keys
constexpr int kWindow = 128;              // rows of a table in one product
constexpr int kTableBox = 64;             // rows of a table in one copy
constexpr uint32_t kRowBytes = kDim * 2;  // of a table, queries, keys
constexpr uint32_t kTableBytes = kMostTableRows * kRowBytes;
// A product's rows in shared memory: 8 rows of one column lie in different banks.
constexpr uint32_t kPitch = kWindow * 2 + 16;

struct ProductsLaunch {
  Maps maps;
  CUtensorMap of_queries, of_keys;  // tables
  AttentionLaunch args;
  AttentionLaunch one_head;  // args as if there was one head: where tiles of sequences lie
  int64_t tiles;             // of a batch item and head
  int boxes;                 // of a table
};

template <int kGroups>
struct Places {
  static constexpr int kGroupBytes = kGroupQueries * kDim * 2, kTileBytes = kKeys * kDim * 2;
  static constexpr int kTables = 0;  // of queries, of keys
  static constexpr int kQuery = kTables + 2 * static_cast<int>(kTableBytes);
  static constexpr int kRing = kQuery + kGroups * kGroupBytes;  // keys, values
  static constexpr int kProducts = kRing + 2 * kTileBytes;      // [group]
  static constexpr int kProductBytes = kHalf * static_cast<int>(kPitch);
  static constexpr int kKept = kProducts + kGroups * kProductBytes;     // [group][step]
  static constexpr int kBuckets = kKept + kGroups * kStagedSteps * 16;  // [group][parity]
  static constexpr int kTile = kBuckets + kGroups * 2 * static_cast<int>(sizeof(StepBuckets));
  static constexpr int kBarriers = aligned(kTile + kGroups * static_cast<int>(sizeof(Tile)), 8);
  static constexpr int kBytes = kBarriers + 6 * 8 + 1024;
  static_assert(kBytes <= 232448, "more than a block can have");
};
// Each is filled again and again by the loading warp, and emptied by all others.
enum Filled { kKeyTile, kValueTile, kQueryTile };
struct Barriers {
  uint32_t base;
  __device__ uint32_t full(int what) const { return base + static_cast<uint32_t>(what) * 8; }
  __device__ uint32_t empty(int what) const { return base + static_cast<uint32_t>(3 + what) * 8; }
  __device__ void leave(int what) const {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty(what));
  }
};

// Tiles of a head. All lanes of a warp call it.
template <int kRows>
__device__ inline unsigned tiles_of_head(const ProductsLaunch& launch) {
  const AttentionLaunch& args = launch.args;
  if (args.starts_q == nullptr) return static_cast<unsigned>(args.batch * launch.tiles);
  unsigned count = 0;
  for (int i = static_cast<int>(threadIdx.x) % 32; i <= args.sequences; i += 32) {
    const int64_t begin = sequence_start(args, args.starts_q, i, args.queries),
                  end = i < args.sequences
                            ? sequence_start(args, args.starts_q, i + 1, args.queries)
                            : args.queries;
    if (end > begin) count += static_cast<unsigned>((end - begin + kRows - 1) / kRows);
  }
  return __reduce_add_sync(~0u, count);
}
// Tile `index` of all heads, those of one head after the other. All lanes of a warp call it.
template <int kRows>
__device__ inline Tile tile_at(const ProductsLaunch& launch, unsigned index, unsigned per_head) {
  const AttentionLaunch& args = launch.args;
  const unsigned head = index / per_head, within = index - head * per_head;
  Tile tile{};
  if (args.starts_q != nullptr) {
    place_in_sequences<kRows, false>(launch.one_head, within, tile);
    tile.batch = 0;
  } else {
    const auto tiles = static_cast<unsigned>(launch.tiles);
    const unsigned batch = within / tiles;
    tile.batch = batch;
    tile.query = static_cast<int64_t>(within - batch * tiles) * kRows;
    tile.queries =
        static_cast<int>(args.queries - tile.query < kRows ? args.queries - tile.query : kRows);
    tile.keys = args.keys;
    tile.heads = 1;
  }
  tile.head = tile.kv_head = head;
  return tile;
}
__device__ inline int steps_of(const Tile& tile) {
  return static_cast<int>((tile.keys + kKeys - 1) / kKeys);
}

// The warp that loads. `begin` to `end`: the block's tiles.
template <int kGroups>
__device__ inline void load_tiles(const ProductsLaunch& launch, uint32_t base, unsigned begin,
                                  unsigned end, unsigned per_head) {
  using P = Places<kGroups>;
  const Maps& maps = launch.maps;
  const Barriers barriers{base + P::kBarriers};
  const Ring<kDim, false, 2> ring{base + P::kRing,
                                  barriers.full(kKeyTile),
                                  0,
                                  maps,
                                  nullptr,
                                  launch.args.starts_q != nullptr,
                                  0,
                                  {},
                                  {},
                                  {}};
  int64_t head_there = -1;
  uint32_t tiles = 0, steps = 0;  // so far
  for (unsigned index = begin; index < end; ++index) {
    const Tile tile = tile_at<kGroups * kGroupQueries>(launch, index, per_head);
    if (tile.queries == 0) continue;
    if (threadIdx.x % 32 == 0) {
      if (tiles > 0) barrier_wait(barriers.empty(kQueryTile), (tiles - 1) & 1);
      const int groups = kGroups == 2 && tile.queries > kGroupQueries ? 2 : 1;
      const bool other_head = tile.head != head_there;
      const uint32_t tables =
          other_head ? static_cast<uint32_t>(launch.boxes) * kTableBox * kRowBytes : 0;
      barrier_expect(barriers.full(kQueryTile),
                     static_cast<uint32_t>(groups * P::kGroupBytes) + 2 * tables);
      for (int g = 0; g < groups; ++g)
        copy_box(base + P::kQuery + static_cast<uint32_t>(g * P::kGroupBytes), &maps.q, 0,
                 static_cast<int>(tile.query) + g * kGroupQueries, static_cast<int>(tile.head),
                 static_cast<int>(tile.batch), barriers.full(kQueryTile));
      for (int box = 0; other_head && box < launch.boxes; ++box) {
        const uint32_t to = base + static_cast<uint32_t>(box) * kTableBox * kRowBytes;
        for (const bool of_keys : {false, true})
          copy_box(to + (of_keys ? kTableBytes : 0), of_keys ? &launch.of_keys : &launch.of_queries,
                   0, box * kTableBox, static_cast<int>(tile.head), 0, barriers.full(kQueryTile));
      }
      head_there = tile.head;
      ++tiles;
      for (int step = 0; step < steps_of(tile); ++step, ++steps) {
        if (steps > 0) barrier_wait(barriers.empty(kKeyTile), (steps - 1) & 1);
        ring.load_rows(tile, true, step, 0);
        if (steps > 0) barrier_wait(barriers.empty(kValueTile), (steps - 1) & 1);
        ring.load_rows(tile, false, step, 1);
      }
    }
    __syncwarp();
  }
}

// The first row of the table that a half's products take, given the bucket of its first distance.
__device__ __forceinline__ int window_of(int bucket, int size) {
  return max(min(bucket, size - kWindow), 0);
}
// A product [64, 128] in type T into the group's room.
template <class T>
__device__ __forceinline__ void store_product(const float (&sums)[64], uint32_t room) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const uint32_t to = room + (warp * 16 + lane % 16) * kPitch + lane / 16 * 16;
#pragma unroll
  for (int n = 0; n < 16; n += 2) {
    const float* s = sums + 4 * n;
    store_matrices(to + static_cast<uint32_t>(n) * 16, pack<T>(s[0], s[1]), pack<T>(s[2], s[3]),
                   pack<T>(s[4], s[5]), pack<T>(s[6], s[7]));
  }
}

// What one half of a step reads: buckets of its 127 distances from query 0 and its last key on.
template <int kWhich>
__device__ __forceinline__ const uint16_t* half_of(const uint16_t (&buckets)[kDistances + 1]) {
  return buckets + kHalf * (1 - kWhich);
}
constexpr int kHalfDistances = kGroupQueries + kHalf - 1;

// Adds the stored product of the group's queries or a half's keys to its scores. `first`: the row
// of the table that column 0 is of; `row`: the lane's first of the group.
template <class T, int kWhich>
__device__ __forceinline__ void add_products_of_queries(uint32_t room, int first, int row,
                                                        const StepBuckets& buckets,
                                                        float (&scores)[64]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const uint16_t* own = half_of<kWhich>(buckets.of_query);
  const uint32_t low =
                     room + static_cast<uint32_t>(row) * kPitch - 2 * static_cast<uint32_t>(first),
                 high = low + 8 * kPitch, of = shared_address(own + row - 2 * t + kHalf - 1);
  if (own[kHalfDistances - 1] - own[0] == kHalfDistances - 1)
    add_rows_of_queries<T, true, 8 * kWhich, 8>(low, high, of, scores);
  else
    add_rows_of_queries<T, false, 8 * kWhich, 8>(low, high, of, scores);
}
template <class T, int kWhich>
__device__ __forceinline__ void add_products_of_keys(uint32_t room, int first, int row,
                                                     const StepBuckets& buckets,
                                                     float (&scores)[64]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const uint16_t* own = half_of<kWhich>(buckets.of_key);
  const uint32_t key = room + static_cast<uint32_t>(2 * t) * kPitch -
                       2 * static_cast<uint32_t>(first),
                 of = shared_address(own + row - 2 * t + kHalf - 1);
  const auto pair_of = [&](int n) {
    const uint32_t at = key + static_cast<uint32_t>(8 * n) * kPitch;
    return uint2{at, at + kPitch};
  };
  if (own[kHalfDistances - 1] - own[0] == kHalfDistances - 1)
    add_rows_of_keys<T, true, 8 * kWhich, 8>(of, pair_of, scores);
  else
    add_rows_of_keys<T, false, 8 * kWhich, 8>(of, pair_of, scores);
}
// The same where buckets may be any: of those in [first, first + kWindow) only. kOfKeys: else of
// queries.
template <class T, int kWhich, bool kOfKeys>
__device__ __forceinline__ void add_products_inside(uint32_t room, int first, int row,
                                                    const StepBuckets& buckets,
                                                    float (&scores)[64]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const uint16_t* own = half_of<kWhich>(kOfKeys ? buckets.of_key : buckets.of_query);
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int query = row + i / 2 % 2 * 8, key = i / 4 * 8 + 2 * t + i % 2;
    const int at = own[query - key + kHalf - 1] - first;
    if (static_cast<unsigned>(at) >= static_cast<unsigned>(kWindow)) continue;
    const uint32_t from = room + static_cast<uint32_t>(kOfKeys ? key : query) * kPitch;
    scores[32 * kWhich + i] +=
        raw_position_of(load_shared_16_bits(from + 2 * static_cast<uint32_t>(at)), T());
  }
}

// One thread's part of the block's tiles.
template <class T, int kGroups>
struct ProductsAttention {
  using P = Places<kGroups>;
  const ProductsLaunch& launch;
  const AttentionLaunch& args;
  const uint32_t base;
  unsigned char* const shared;
  const int group, thread, row;  // row: the lane's first of the group
  const Barriers barriers;
  const float slope, inverse_scale;
  Tile& tile;                    // in shared memory, like what follows
  uint4* const kept_room;        // of kStagedSteps steps
  StepBuckets* const buckets;    // of two steps
  uint32_t tiles = 0, done = 0;  // so far; steps
  bool near = true;              // in this step neighboring distances have neighboring buckets
  OwnBuckets own_buckets{};      // of the next step
  Rows rows{};
  float context[kDim / 2] = {}, shift[2], factor[2];

  __device__ __forceinline__ int first_row() const { return group * kGroupQueries; }
  __device__ __forceinline__ uint32_t room() const {
    return base + P::kProducts + static_cast<uint32_t>(group * P::kProductBytes);
  }
  __device__ __forceinline__ void load_next_buckets(int step, int steps) {
    if (step < steps) own_buckets = load_buckets(args, tile, first_row(), step * kKeys);
  }
  // Behind it no warp of the group reads what the step before has left in shared memory.
  __device__ __forceinline__ void spread_buckets(int step) {
    store_buckets(own_buckets, buckets[step % 2]);
    warpgroup_sync(group + 1);
    near = warpgroup_all(group + 1, change_of(args, buckets[step % 2]).near);
  }

  // Products with the rows of a table from `first` on.
  __device__ __forceinline__ void multiply_table(uint32_t operand, uint32_t table, int first,
                                                 float (&sums)[64]) {
    multiply_keys<T, kDim>(operand, table + static_cast<uint32_t>(first) * kRowBytes, sums);
  }
  template <int kWhich>
  __device__ __forceinline__ void add_any(uint32_t query, uint32_t keys, const StepBuckets& own,
                                          float (&scores)[64]) {
    const auto add_all = [&](const AttentionPositions& positions, uint32_t operand, uint32_t table,
                             auto of_keys) {
#pragma unroll 1
      for (int first = 0; first < positions.size; first += kWindow) {
        float sums[64];
        multiply_table(operand, table, first, sums);
        wgmma_wait<0>();
        warpgroup_sync(group + 1);
        store_product<T>(sums, room());
        warpgroup_sync(group + 1);
        add_products_inside<T, kWhich, decltype(of_keys)::value>(room(), first, row, own, scores);
      }
    };
    add_all(args.query_positions, query, base + P::kTables, std::false_type());
    add_all(args.key_positions, keys + kWhich * kHalf * kRowBytes, base + P::kTables + kTableBytes,
            std::true_type());
  }
  // What relative positions add to the scores, whose product is under way. Products run while what
  // the one before has left is added.
  __device__ __forceinline__ void add_positions(uint32_t query, uint32_t keys,
                                                const StepBuckets& own, float (&scores)[64]) {
    if (!near) {
      wgmma_wait<0>();
      add_any<0>(query, keys, own, scores);
      add_any<1>(query, keys, own, scores);
      return;
    }
    const uint32_t query_table = base + P::kTables, key_table = query_table + kTableBytes;
    const int query_first = window_of(half_of<0>(own.of_query)[0], args.query_positions.size),
              key_first = window_of(half_of<0>(own.of_key)[0], args.key_positions.size);
    float sums[64];
    multiply_table(query, query_table, query_first, sums);
    wgmma_wait<0>();
    store_product<T>(sums, room());
    multiply_table(keys, key_table, key_first, sums);
    __syncwarp();  // a warp reads the rows of its own queries
    add_products_of_queries<T, 0>(room(), query_first, row, own, scores);
    wgmma_wait<0>();
    warpgroup_sync(group + 1);
    store_product<T>(sums, room());
    const int next_query_first = window_of(half_of<1>(own.of_query)[0], args.query_positions.size),
              next_key_first = window_of(half_of<1>(own.of_key)[0], args.key_positions.size);
    multiply_table(query, query_table, next_query_first, sums);
    warpgroup_sync(group + 1);
    add_products_of_keys<T, 0>(room(), key_first, row, own, scores);
    wgmma_wait<0>();
    warpgroup_sync(group + 1);
    store_product<T>(sums, room());
    multiply_table(keys + kHalf * kRowBytes, key_table, next_key_first, sums);
    __syncwarp();
    add_products_of_queries<T, 1>(room(), next_query_first, row, own, scores);
    wgmma_wait<0>();
    warpgroup_sync(group + 1);
    store_product<T>(sums, room());
    warpgroup_sync(group + 1);
    add_products_of_keys<T, 1>(room(), next_key_first, row, own, scores);
  }

  __device__ __forceinline__ KeptKeys kept_keys(int step, int steps) {
    if (args.keep.data == nullptr) return KeptKeys{{}, true, false};
    if (step % kStagedSteps == 0) stage_kept(args, tile, step, steps, kept_room, group);
    return spread_kept(kept_room[step % kStagedSteps]);
  }
  __device__ __forceinline__ uint32_t next_values(int left) {
    barrier_wait(barriers.full(kValueTile), done & 1);
    const uint32_t values = base + P::kRing + P::kTileBytes;
    if (left < kKeys && args.starts_q != nullptr) clear_rows<kDim>(values, left, group);
    return values;
  }

  __device__ __forceinline__ void attend_tile() {
    const int steps = steps_of(tile), keys = static_cast<int>(tile.keys);
    const uint32_t query = base + P::kQuery + static_cast<uint32_t>(group * P::kGroupBytes),
                   step_keys = base + P::kRing;
    const float fill = raw_score(args.fill, inverse_scale);
    const unsigned hidden = hidden_queries(args, tile, first_row() + row);
    rows = {};
#pragma unroll
    for (float& x : context) x = 0;
    if (steps > 0) {
      load_next_buckets(0, steps);
      spread_buckets(0);
    }
    barrier_wait(barriers.full(kQueryTile), tiles & 1);
    if (steps == 0) barriers.leave(kQueryTile);
    for (int step = 0; step < steps; ++step, ++done) {
      const int left = keys - step * kKeys;
      const bool last = step + 1 == steps;
      barrier_wait(barriers.full(kKeyTile), done & 1);
      const KeptKeys kept = kept_keys(step, steps);
      load_next_buckets(step + 1, steps);
      uint32_t values = 0;
      if (kept.none) {
        values = next_values(left);
        if (is_void_step<T, kDim>(rows, fill, slope, values, group)) {
          if (!last) spread_buckets(step + 1);
          barriers.leave(kKeyTile);
          if (last) barriers.leave(kQueryTile);
          barriers.leave(kValueTile);
          continue;
        }
      }
      float scores[64];
      multiply_keys<T, kDim>(query, step_keys, scores);
      add_positions(query, step_keys, buckets[step % 2], scores);
      barriers.leave(kKeyTile);
      if (last) barriers.leave(kQueryTile);
      if (hidden != 0) hide_queries(hidden, fill, scores);
      if (!kept.all) hide_keys(kept, fill, scores);
      if (left < kKeys) {
        for_each_score(scores, [&](float& score, int n, int within, int) {
          if (8 * n + within >= left) score = -kInfinity;
        });
      }
      raise_maxima(scores, slope, rows, shift, factor);
      if (!last) spread_buckets(step + 1);
#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) context[i] *= factor[i / 2 % 2];
      if (values == 0) values = next_values(left);
      attend_values<T, kDim, 2>(scores, slope, shift, values, rows, context);
      wgmma_wait<0>();
      barriers.leave(kValueTile);
    }
    store_rows_staged<T, kDim, true>(args, tile, rows, context,
                                     shared + P::kProducts + group * P::kProductBytes, first_row(),
                                     group);
  }
  // A group without queries of the tile leaves what is loaded with the other.
  __device__ __forceinline__ void pass_tile() {
    barrier_wait(barriers.full(kQueryTile), tiles & 1);
    barriers.leave(kQueryTile);
    for (int step = 0; step < steps_of(tile); ++step, ++done) {
      for (const int what : {kKeyTile, kValueTile}) {
        barrier_wait(barriers.full(what), done & 1);
        barriers.leave(what);
      }
    }
  }
  __device__ __forceinline__ void run(unsigned begin, unsigned end, unsigned per_head) {
    for (unsigned index = begin; index < end; ++index) {
      warpgroup_sync(group + 1);  // the tile before has been read
      if (thread < 32) {
        const Tile found = tile_at<kGroups * kGroupQueries>(launch, index, per_head);
        if (thread == 0) tile = found;
      }
      warpgroup_sync(group + 1);
      if (tile.queries == 0) continue;
      if (tile.queries > first_row())
        attend_tile();
      else
        pass_tile();
      ++tiles;
    }
  }
};

// Of a thread; what two warpgroups take the loading one leaves.
constexpr int kRegisters = 232, kLoadRegisters = 40;
template <class T, int kGroups>
__device__ inline void attend_tiles(const ProductsLaunch& launch) {
  using P = Places<kGroups>;
  extern __shared__ unsigned char dynamic[];
  unsigned char* const shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const uint32_t base = shared_address(shared);
  const Barriers barriers{base + P::kBarriers};
  allow_next_kernel();
  if (threadIdx.x == 0) {
    for (int what = 0; what < 3; ++what) {
      barrier_init(barriers.full(what), 1);
      barrier_init(barriers.empty(what), kGroups * 4);
    }
    fence_shared_to_async();
  }
  __syncthreads();
  wait_for_previous_kernel();
  const unsigned per_head = tiles_of_head<kGroups * kGroupQueries>(launch);
  const auto total = static_cast<uint64_t>(per_head) * static_cast<unsigned>(launch.args.heads);
  const auto begin = static_cast<unsigned>(total * blockIdx.x / gridDim.x),
             end = static_cast<unsigned>(total * (blockIdx.x + 1) / gridDim.x);
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group == kGroups) {
    give_registers<kLoadRegisters>();
    if (threadIdx.x / 32 % 4 == 0) load_tiles<kGroups>(launch, base, begin, end, per_head);
    return;
  }
  if constexpr (kGroups == 2) take_registers<kRegisters>();
  const int thread = static_cast<int>(threadIdx.x) % 128;
  ProductsAttention<T, kGroups> attention{
      launch,
      launch.args,
      base,
      shared,
      group,
      thread,
      /*row=*/thread / 32 * 16 + thread % 32 / 4,
      barriers,
      /*slope=*/launch.args.scale * kLog2E,
      /*inverse_scale=*/1.0f / launch.args.scale,
      reinterpret_cast<Tile*>(shared + P::kTile)[group],
      reinterpret_cast<uint4*>(shared + P::kKept) + group * kStagedSteps,
      reinterpret_cast<StepBuckets*>(shared + P::kBuckets) + group * 2};
  attention.run(begin, end, per_head);
}

template <class T, int kGroups>
__global__ void __launch_bounds__((kGroups + 1) * 128, 1)
    products_kernel(const __grid_constant__ ProductsLaunch launch) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  attend_tiles<T, kGroups>(launch);
#else
  __trap();  // hopper_kernels_usable() is false for such code
#endif
}

// ---- host

// A table [heads, rows, 64] of the operands' type.
cudaError_t make_table_map(const AttentionLaunch& args, const void* data, int rows,
                           CUtensorMap& map) {
  const AttentionRows table{const_cast<void*>(data), 0, kDim, int64_t{rows} * kDim, args.q.type};
  return make_map(table, {1, args.heads, rows, kDim, kTableBox}, map);
}

constexpr int64_t kMultiprocessors = 132;
template <class T, int kGroups>
cudaError_t launch_groups(const AttentionLaunch& args, const AttentionTables& tables,
                          cudaStream_t stream) {
  ProductsLaunch launch{{},
                        {},
                        {},
                        args,
                        args,
                        attention_tiles(args, kGroups * kGroupQueries),
                        (tables.rows + kTableBox - 1) / kTableBox};
  launch.one_head.heads = launch.one_head.kv_heads = 1;
  launch.one_head.backwards = false;
  cudaError_t status = make_maps(args, launch.maps);
  if (status == cudaSuccess)
    status = make_table_map(args, tables.of_queries, tables.rows, launch.of_queries);
  if (status == cudaSuccess)
    status = make_table_map(args, tables.of_keys, tables.rows, launch.of_keys);
  if (status != cudaSuccess) return status;
  const auto kernel = &products_kernel<T, kGroups>;
  constexpr int kBytes = Places<kGroups>::kBytes;
  status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  const int64_t blocks = std::min(kMultiprocessors, launch.tiles * args.heads * args.batch);
  return launch_overlapped(kernel, static_cast<unsigned>(blocks), (kGroups + 1) * 128,
                           static_cast<size_t>(kBytes), stream, launch);
}
// Two warpgroups share keys, values and tables; one where that leaves multiprocessors without work.
template <class T>
cudaError_t launch_type(const AttentionLaunch& args, const AttentionTables& tables,
                        cudaStream_t stream) {
  const int64_t tiles = attention_tiles(args, kGroupQueries) * args.heads * args.batch;
  return tiles <= kMultiprocessors ? launch_groups<T, 1>(args, tables, stream)
                                   : launch_groups<T, 2>(args, tables, stream);
}

}  // namespace

bool attention_products_takes(const AttentionLaunch& args, const AttentionTables& tables) {
  return attention_sm90_takes(args) && args.head_dim == kDim && args.value_dim == kDim &&
         args.heads == args.kv_heads && args.bias.data == nullptr && !args.causal &&
         (args.keep.data == nullptr || args.keep.query == 0) && args.quantized.q == nullptr &&
         tables.rows > 0 && tables.rows <= kMostTableRows && args.batch * args.heads < 1 << 20;
}

cudaError_t launch_attention_products(const AttentionLaunch& args, const AttentionTables& tables,
                                      cudaStream_t stream) {
  return args.q.type == AttentionType::kF16 ? launch_type<__half>(args, tables, stream)
                                            : launch_type<__nv_bfloat16>(args, tables, stream);
}

}  // namespace vernier::backend::cuda
