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

// The buckets of all distances, with as many at both ends as rows and keys that do not exist may
// read.
constexpr int kMargin = kKeys, kMostDistances = 2 * kMostProductKeys;
struct AllBuckets {
  uint16_t of_query[kMostDistances + 2 * kMargin], of_key[kMostDistances + 2 * kMargin];
};

template <int kGroups>
struct Places {
  static constexpr int kGroupBytes = kGroupQueries * kDim * 2, kTileBytes = kKeys * kDim * 2;
  static constexpr int kTables = 0;  // of queries, of keys
  static constexpr int kQuery = kTables + 2 * static_cast<int>(kTableBytes);
  static constexpr int kRing = kQuery + kGroups * kGroupBytes;  // keys, values
  static constexpr int kProducts = kRing + 2 * kTileBytes;      // [group]
  static constexpr int kProductBytes = kHalf * static_cast<int>(kPitch);
  static constexpr int kKept = kProducts + kGroups * kProductBytes;  // [group][step]
  static constexpr int kBuckets = kKept + kGroups * kStagedSteps * 16;
  static constexpr int kTile = kBuckets + static_cast<int>(sizeof(AllBuckets));
  static constexpr int kBarriers = aligned(kTile + kGroups * static_cast<int>(sizeof(Tile)), 8);
  static constexpr int kBytes = kBarriers + 7 * 8 + 1024;
  static_assert(kBytes <= 232448, "more than a block can have");
};
// Each is filled again and again by the loading warp, and emptied by all others.
// Tables are left with the queries.
enum Filled { kKeyTile, kValueTile, kQueryTile, kHeadTables };
struct Barriers {
  uint32_t base;
  __device__ uint32_t full(int what) const { return base + static_cast<uint32_t>(what) * 8; }
  __device__ uint32_t empty(int what) const { return base + static_cast<uint32_t>(4 + what) * 8; }
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
  for (int offset = 16; offset > 0; offset /= 2) count += __shfl_xor_sync(~0u, count, offset);
  return count;
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

// The head of a block's first tile, whatever the number of tiles of each.
__device__ inline int64_t first_head(const AttentionLaunch& args) {
  return static_cast<int64_t>(args.heads) * blockIdx.x / gridDim.x;
}
// By one thread. Constants: they may be read before the kernel ahead has ended.
template <int kGroups>
__device__ inline void load_tables(const ProductsLaunch& launch, uint32_t base, int64_t head) {
  using P = Places<kGroups>;
  const uint32_t barrier = Barriers{base + P::kBarriers}.full(kHeadTables);
  barrier_expect(barrier, 2 * static_cast<uint32_t>(launch.boxes) * kTableBox * kRowBytes);
  for (int box = 0; box < launch.boxes; ++box) {
    const uint32_t to = base + static_cast<uint32_t>(box) * kTableBox * kRowBytes;
    copy_box(to + P::kTables, &launch.of_queries, 0, box * kTableBox, static_cast<int>(head), 0,
             barrier);
    copy_box(to + P::kTables + kTableBytes, &launch.of_keys, 0, box * kTableBox,
             static_cast<int>(head), 0, barrier);
  }
}

// The warp that loads, `begin` to `end` being the block's tiles. The tables of the first head are
// under way.
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
  int64_t head = first_head(launch.args);
  uint32_t tiles = 0, steps = 0;  // so far
  for (unsigned index = begin; index < end; ++index) {
    const Tile tile = tile_at<kGroups * kGroupQueries>(launch, index, per_head);
    if (tile.queries == 0) continue;
    if (threadIdx.x % 32 == 0) {
      if (tiles > 0) barrier_wait(barriers.empty(kQueryTile), (tiles - 1) & 1);
      const int groups = kGroups == 2 && tile.queries > kGroupQueries ? 2 : 1;
      barrier_expect(barriers.full(kQueryTile), static_cast<uint32_t>(groups * P::kGroupBytes));
      for (int g = 0; g < groups; ++g)
        copy_box(base + P::kQuery + static_cast<uint32_t>(g * P::kGroupBytes), &maps.q, 0,
                 static_cast<int>(tile.query) + g * kGroupQueries, static_cast<int>(tile.head),
                 static_cast<int>(tile.batch), barriers.full(kQueryTile));
      if (tile.head != head) {
        if (tiles == 0) barrier_wait(barriers.full(kHeadTables), 0);
        head = tile.head;
        load_tables<kGroups>(launch, base, head);
      }
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
  if (threadIdx.x % 32 == 0 && tiles == 0) barrier_wait(barriers.full(kHeadTables), 0);
}

// All buckets into shared memory, by kThreads that share barrier 3. Are those of neighboring
// distances the same or neighbors, upwards?
template <int kThreads>
__device__ inline bool spread_buckets(const AttentionLaunch& args, AllBuckets& buckets) {
  const AttentionPositions &q = args.query_positions, &k = args.key_positions;
  const int all = static_cast<int>(q.count) + 2 * kMargin;
  constexpr int kAtOnce = 4;
  for (int first = static_cast<int>(threadIdx.x); first < all; first += kThreads * kAtOnce) {
    int of_query[kAtOnce], of_key[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t distance = first + i * kThreads - kMargin - q.zero;
      of_query[i] = bucket_at(q, distance);
      of_key[i] = bucket_at(k, distance);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kThreads >= all) break;
      buckets.of_query[first + i * kThreads] = static_cast<uint16_t>(of_query[i]);
      buckets.of_key[first + i * kThreads] = static_cast<uint16_t>(of_key[i]);
    }
  }
  warpgroup_all<kThreads>(3, true);
  bool near = true;
  for (int i = static_cast<int>(threadIdx.x); i + 1 < all; i += kThreads) {
    const int of_query = buckets.of_query[i + 1] - buckets.of_query[i],
              of_key = buckets.of_key[i + 1] - buckets.of_key[i];
    near = near && (of_query == 0 || of_query == 1) && (of_key == 0 || of_key == 1);
  }
  return warpgroup_all<kThreads>(3, near);
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

// What one half of a step reads: the buckets of its 127 distances, from that of query 0 and the
// last key on.
constexpr int kHalfDistances = kGroupQueries + kHalf - 1;
struct HalfBuckets {
  const uint16_t *of_query, *of_key;
};
__device__ __forceinline__ bool changes_by_one(const uint16_t* half) {
  return half[kHalfDistances - 1] - half[0] == kHalfDistances - 1;
}

// Adds the stored product of the group's queries or of a half's keys to its scores. `first`: the
// row of the table that column 0 is of; `row`: the lane's first of the group.
template <class T, int kWhich>
__device__ __forceinline__ void add_products_of_queries(uint32_t room, int first, int row,
                                                        const uint16_t* half, float (&scores)[64]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const uint32_t low =
                     room + static_cast<uint32_t>(row) * kPitch - 2 * static_cast<uint32_t>(first),
                 high = low + 8 * kPitch, of = shared_address(half + row - 2 * t + kHalf - 1);
  const auto at = [&](int, int, int r) { return r == 0 ? low : high; };
  if (changes_by_one(half))
    add_rows<T, true, 8 * kWhich, 8>(of, at, scores);
  else
    add_rows<T, false, 8 * kWhich, 8>(of, at, scores);
}
template <class T, int kWhich>
__device__ __forceinline__ void add_products_of_keys(uint32_t room, int first, int row,
                                                     const uint16_t* half, float (&scores)[64]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const uint32_t key = room + static_cast<uint32_t>(2 * t) * kPitch -
                       2 * static_cast<uint32_t>(first),
                 of = shared_address(half + row - 2 * t + kHalf - 1);
  const auto at = [&](int i, int e, int) {
    return key + static_cast<uint32_t>(8 * i + e) * kPitch;
  };
  if (changes_by_one(half))
    add_rows<T, true, 8 * kWhich, 8>(of, at, scores);
  else
    add_rows<T, false, 8 * kWhich, 8>(of, at, scores);
}
// The same where buckets may be any: of those in [first, first + kWindow) only. kOfKeys: else of
// queries.
template <class T, int kWhich, bool kOfKeys>
__device__ __forceinline__ void add_products_inside(uint32_t room, int first, int row,
                                                    const uint16_t* half, float (&scores)[64]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int query = row + i / 2 % 2 * 8, key = i / 4 * 8 + 2 * t + i % 2;
    const int at = half[query - key + kHalf - 1] - first;
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
  Tile& tile;              // in shared memory, like what follows
  uint4* const kept_room;  // of kStagedSteps steps
  const AllBuckets& buckets;
  const bool near;               // neighboring distances have the same bucket or neighboring ones
  int64_t head;                  // whose tables are there or under way
  uint32_t heads = 0;            // so far, behind the first
  uint32_t tiles = 0, done = 0;  // so far; steps
  Rows rows{};
  float context[kDim / 2] = {}, shift[2], factor[2];

  __device__ __forceinline__ int first_row() const { return group * kGroupQueries; }
  __device__ __forceinline__ uint32_t room() const {
    return base + P::kProducts + static_cast<uint32_t>(group * P::kProductBytes);
  }
  // Of the half that begins at `key`. Sequences longer than was said read some bucket.
  __device__ __forceinline__ HalfBuckets half_of(int key) const {
    const int64_t least = tile.query - tile.first + first_row() - key - (kHalf - 1),
                  most = args.query_positions.count + 2 * kMargin - kHalfDistances,
                  wanted = args.query_positions.zero + least + kMargin;
    const auto at = static_cast<int>(wanted < 0 ? 0 : wanted < most ? wanted : most);
    return {buckets.of_query + at, buckets.of_key + at};
  }

  // Products with the rows of a table from `first` on.
  __device__ __forceinline__ void multiply_table(uint32_t operand, uint32_t table, int first,
                                                 float (&sums)[64]) {
    multiply_keys<T, kDim>(operand, table + static_cast<uint32_t>(first) * kRowBytes, sums);
  }
  template <int kWhich>
  __device__ __forceinline__ void add_any(uint32_t query, uint32_t keys, const HalfBuckets& half,
                                          float (&scores)[64]) {
    const auto add_all = [&](int size, uint32_t operand, uint32_t table, const uint16_t* of,
                             auto of_keys) {
#pragma unroll 1
      for (int first = 0; first < size; first += kWindow) {
        float sums[64];
        multiply_table(operand, table, first, sums);
        wgmma_wait<0>();
        warpgroup_sync(group + 1);
        store_product<T>(sums, room());
        warpgroup_sync(group + 1);
        add_products_inside<T, kWhich, decltype(of_keys)::value>(room(), first, row, of, scores);
      }
    };
    const uint32_t table = base + P::kTables;
    add_all(args.query_positions.size, query, table, half.of_query, std::false_type());
    add_all(args.key_positions.size, keys + kWhich * kHalf * kRowBytes, table + kTableBytes,
            half.of_key, std::true_type());
  }
  // What relative positions add to the scores of the step that begins at `key`, whose product is
  // under way. Products run while what the one before has left is added.
  __device__ __forceinline__ void add_positions(uint32_t query, uint32_t keys, int key,
                                                float (&scores)[64]) {
    const HalfBuckets low = half_of(key), high = half_of(key + kHalf);
    if (!near) {
      wgmma_wait<0>();
      add_any<0>(query, keys, low, scores);
      add_any<1>(query, keys, high, scores);
      return;
    }
    const uint32_t query_table = base + P::kTables, key_table = query_table + kTableBytes;
    const int size = args.query_positions.size;
    const int low_query = window_of(low.of_query[0], size),
              low_key = window_of(low.of_key[0], size);
    float sums[64];
    multiply_table(query, query_table, low_query, sums);
    wgmma_wait<0>();
    store_product<T>(sums, room());  // the step before has been read: attend_tile()
    multiply_table(keys, key_table, low_key, sums);
    __syncwarp();  // a warp reads the rows of its own queries
    add_products_of_queries<T, 0>(room(), low_query, row, low.of_query, scores);
    wgmma_wait<0>();
    warpgroup_sync(group + 1);
    store_product<T>(sums, room());
    const int high_query = window_of(high.of_query[0], size),
              high_key = window_of(high.of_key[0], size);
    multiply_table(query, query_table, high_query, sums);
    warpgroup_sync(group + 1);
    add_products_of_keys<T, 0>(room(), low_key, row, low.of_key, scores);
    wgmma_wait<0>();
    warpgroup_sync(group + 1);
    store_product<T>(sums, room());
    multiply_table(keys + kHalf * kRowBytes, key_table, high_key, sums);
    __syncwarp();
    add_products_of_queries<T, 1>(room(), high_query, row, high.of_query, scores);
    wgmma_wait<0>();
    warpgroup_sync(group + 1);
    store_product<T>(sums, room());
    warpgroup_sync(group + 1);
    add_products_of_keys<T, 1>(room(), high_key, row, high.of_key, scores);
  }

  __device__ __forceinline__ KeptKeys kept_keys(int step, int steps) {
    if (args.keep.data == nullptr) return KeptKeys{{}, true, false};
    if (step % kStagedSteps == 0) stage_kept(args, tile, step, steps, kept_room, group);
    return spread_kept(kept_room[step % kStagedSteps]);
  }
  __device__ __forceinline__ uint32_t next_values(int left) {
    barrier_wait(barriers.full(kValueTile), done & 1);
    const uint32_t values = base + P::kRing + P::kTileBytes;
    if (left < kKeys && args.starts_q != nullptr) clear_rows<kDim>(values, left, kKeys, group);
    return values;
  }

  __device__ __forceinline__ void wait_for_queries() {
    if (tiles == 0) barrier_wait(barriers.full(kHeadTables), 0);
    if (tile.head != head) barrier_wait(barriers.full(kHeadTables), ++heads & 1);
    head = tile.head;
    barrier_wait(barriers.full(kQueryTile), tiles & 1);
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
    wait_for_queries();
    if (steps == 0) barriers.leave(kQueryTile);
    for (int step = 0; step < steps; ++step, ++done) {
      const int left = keys - step * kKeys;
      const bool last = step + 1 == steps;
      barrier_wait(barriers.full(kKeyTile), done & 1);
      const KeptKeys kept = kept_keys(step, steps);
      uint32_t values = 0;
      if (kept.none) {
        values = next_values(left);
        if (is_void_step<T, kDim>(rows, fill, slope, values, group)) {
          barriers.leave(kKeyTile);
          if (last) barriers.leave(kQueryTile);
          barriers.leave(kValueTile);
          continue;
        }
      }
      float scores[64];
      multiply_keys<T, kDim>(query, step_keys, scores);
      add_positions(query, step_keys, step * kKeys, scores);
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
      warpgroup_sync(group + 1);  // every warp has read the products
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
    wait_for_queries();
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
    for (const int what : {kKeyTile, kValueTile, kQueryTile}) {
      barrier_init(barriers.full(what), 1);
      barrier_init(barriers.empty(what), kGroups * 4);
    }
    barrier_init(barriers.full(kHeadTables), 1);
    fence_shared_to_async();
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == kGroups * 128) load_tables<kGroups>(launch, base, first_head(launch.args));
  wait_for_previous_kernel();
  const unsigned per_head = tiles_of_head<kGroups * kGroupQueries>(launch);
  const auto total = static_cast<uint64_t>(per_head) * static_cast<unsigned>(launch.args.heads);
  const auto begin = static_cast<unsigned>(total * blockIdx.x / gridDim.x),
             end = static_cast<unsigned>(total * (blockIdx.x + 1) / gridDim.x);
  if (group == kGroups) {
    give_registers<kLoadRegisters>();
    if (threadIdx.x / 32 % 4 == 0) load_tiles<kGroups>(launch, base, begin, end, per_head);
    return;
  }
  if constexpr (kGroups == 2) take_registers<kRegisters>();
  const int thread = static_cast<int>(threadIdx.x) % 128;
  auto& buckets = *reinterpret_cast<AllBuckets*>(shared + P::kBuckets);
  const bool near = spread_buckets<kGroups * 128>(launch.args, buckets);
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
      buckets,
      near,
      first_head(launch.args)};
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
  constexpr int64_t kMostTiles = int64_t{1} << 31;
  const AttentionPositions &q = args.query_positions, &k = args.key_positions;
  return attention_sm90_takes(args) && args.head_dim == kDim && args.value_dim == kDim &&
         args.heads == args.kv_heads && args.bias.data == nullptr && !args.causal &&
         (args.keep.data == nullptr || args.keep.query == 0) && args.quantized.q == nullptr &&
         tables.rows > 0 && tables.rows <= kMostTableRows && q.count <= kMostDistances &&
         k.count == q.count &&
         attention_tiles(args, kGroupQueries) < kMostTiles / (args.batch * args.heads);
}

cudaError_t launch_attention_products(const AttentionLaunch& args, const AttentionTables& tables,
                                      cudaStream_t stream) {
  return args.q.type == AttentionType::kF16 ? launch_type<__half>(args, tables, stream)
                                            : launch_type<__nv_bfloat16>(args, tables, stream);
}

}  // namespace vernier::backend::cuda
