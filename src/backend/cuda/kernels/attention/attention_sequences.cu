// Attention in 16 bits on Hopper over many sequences without masks, head sizes 32 and 64. The
// operations on a row, and so its bits, are those of attention_sm90.cu. There a block has one tile
// of queries; here a block stays, has a multiprocessor, and knows all of its tiles at its begin: of
// short sequences finding the next one takes as long as a step. Two pairs of warpgroups take tiles
// from one list, those of long sequences first. A tile is 128 queries of a head, 64 for each group,
// or a sequence of up to 64 tokens in two heads, one for each. Contract: attention.h. C++17.
#include <algorithm>

#include "backend/cuda/kernels/attention/attention_sm90.cuh"

namespace vernier::backend::cuda {
namespace {

constexpr int kPairs = 2, kPairThreads = 256, kThreads = kPairs * kPairThreads;
constexpr int kRows = 2 * kGroupQueries;
constexpr unsigned kClasses = 32;  // of sequences by their steps of 64 keys: one for each lane
constexpr int kListed = 64;        // tiles of a block that are found at a time
constexpr unsigned kPlaces = 4;    // of the ring of keys and values

struct SequencesLaunch {
  Maps maps;
  AttentionLaunch args;
};

// A tile of queries. Rows are of all sequences together.
struct Entry {
  int key, keys;       // of its sequence: the first row, rows
  int query, queries;  // the first row, rows
  int head;            // the first
  int kv_head[2];      // of each head
  bool pair;           // of two heads, 64 queries each
  int loads;           // places that its keys and values take
  __device__ bool is_short() const { return loads <= static_cast<int>(kPlaces / 2); }
};

// Where things lie in shared memory, from a 1024-byte aligned address on.
template <int kDim>
struct Places {
  static constexpr int kTileBytes = kKeys * kDim * 2, kGroupBytes = kGroupQueries * kDim * 2;
  // Of a pair: queries of each group, of two entries in turns, and the ring of keys and values.
  static constexpr int kRing = 2 * 2 * kGroupBytes,
                       kPairBytes = kRing + static_cast<int>(kPlaces) * kTileBytes;
  static constexpr int kList = kPairs * kPairBytes;
  static constexpr int kCounts = kList + kListed * static_cast<int>(sizeof(Entry));
  static constexpr int kNext =
      kCounts + static_cast<int>(kClasses) * 4;  // of the list, and of each pair in turns
  static constexpr int kBarriers = aligned(kNext + (1 + 2 * kPairs) * 4, 8);
  static constexpr int kBarrierBytes = (2 * static_cast<int>(kPlaces) + 2) * 8;  // of a pair
  static constexpr int kBytes = kBarriers + kPairs * kBarrierBytes + 1024;
  static_assert(kBytes <= 232448, "more than a block can have");
};

// ---- tiles --------------------------------------------------------------------------------------

// Of a sequence, for one head or two.
__device__ inline unsigned tiles_of(const AttentionLaunch& args, unsigned rows) {
  const auto heads = static_cast<unsigned>(args.heads);
  if (rows == 0) return 0;
  return rows <= kGroupQueries ? (heads + 1) / 2 : (rows + kRows - 1) / kRows * heads;
}
// The rows of no sequence have no keys.
__device__ inline unsigned class_of(const AttentionLaunch& args, int sequence, unsigned rows) {
  const unsigned steps = sequence < args.sequences ? (rows + kKeys / 2 - 1) / (kKeys / 2) : 0;
  return steps < kClasses ? steps : kClasses - 1;
}
// Tiles of each class, by all threads.
__device__ inline void count_tiles(const AttentionLaunch& args, unsigned* counts) {
  if (threadIdx.x < kClasses) counts[threadIdx.x] = 0;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i <= args.sequences; i += kThreads) {
    const int64_t begin = sequence_start(args, args.starts_q, i, args.queries),
                  end = i < args.sequences
                            ? sequence_start(args, args.starts_q, i + 1, args.queries)
                            : args.queries;
    const auto rows = static_cast<unsigned>(end > begin ? end - begin : 0);
    if (rows > 0) atomicAdd(counts + class_of(args, i, rows), tiles_of(args, rows));
  }
  __syncthreads();
}

// Tile `rank` of all, those of most keys first. All lanes of a warp call it.
__device__ inline Entry find_entry(const AttentionLaunch& args, const unsigned* counts,
                                   unsigned rank) {
  const unsigned of_class = counts[kClasses - 1 - threadIdx.x % 32], through = prefix_sum(of_class);
  const int owner = __ffs(static_cast<int>(__ballot_sync(~0u, through > rank))) - 1;
  const auto wanted = kClasses - 1 - static_cast<unsigned>(owner);
  unsigned index = rank - __shfl_sync(~0u, through - of_class, owner);
  if (args.backwards) index = __shfl_sync(~0u, of_class, owner) - 1 - index;
  InSequence in{};
  find_in_sequences(
      args, false, index,
      [&](int sequence, unsigned rows) {
        return class_of(args, sequence, rows) == wanted ? tiles_of(args, rows) : 0;
      },
      in);
  const int rows = static_cast<int>(in.end - in.begin), within = static_cast<int>(in.within);
  const bool is_short = rows <= kGroupQueries;
  const int of_head = (rows + kRows - 1) / kRows;
  Entry entry;
  entry.head = is_short ? 2 * within : within / of_head;
  entry.pair = is_short && entry.head + 1 < args.heads;
  const int first = is_short ? 0 : (within - entry.head * of_head) * kRows;
  entry.key = static_cast<int>(in.begin);
  entry.keys = in.sequence < args.sequences ? rows : 0;
  if (args.longest > 0 && entry.keys > args.longest) entry.keys = static_cast<int>(args.longest);
  entry.query = entry.key + first;
  entry.queries = rows - first < kRows ? rows - first : kRows;
  entry.loads = (entry.keys + kKeys / 2 - 1) / (kKeys / 2) * (entry.pair ? 2 : 1);
  for (int i = 0; i < 2; ++i) entry.kv_head[i] = (entry.head + i) / (args.heads / args.kv_heads);
  return entry;
}

// ---- a pair of warpgroups -----------------------------------------------------------------------

__device__ inline void pair_sync(int pair) {
  asm volatile("bar.sync %0, %1;" ::"r"(pair + 5), "n"(kPairThreads) : "memory");
}

// The ring of keys and values of a pair: the keys of 128 tokens, then their values, take a place
// each; of at most 64 tokens both have one place. Every warp waits for all places in order and
// leaves them in order.
template <int kDim>
struct PairRing {
  using P = Places<kDim>;
  const SequencesLaunch& launch;
  uint32_t base, barriers;
  bool loads;          // this thread does
  const Entry* entry;  // in shared memory
  unsigned left;       // places that this thread has left, of all entries
  unsigned first;      // of this entry

  __device__ uint32_t full(unsigned i) const { return barriers + i % kPlaces * 8; }
  __device__ uint32_t empty(unsigned i) const { return full(i) + kPlaces * 8; }
  __device__ uint32_t place(unsigned i) const {
    return base + i % kPlaces * static_cast<uint32_t>(P::kTileBytes);
  }
  __device__ static uint32_t parity(unsigned i) { return i / kPlaces & 1; }

  // Place `i` of an entry whose places begin at `from`.
  __device__ __forceinline__ void load(const Entry& e, unsigned from, int i) const {
    const int of_head = e.pair ? 0 : i, kv_head = e.kv_head[e.pair ? i : 0];
    const int row = e.key + of_head / 2 * kKeys, rest = e.keys - of_head / 2 * kKeys;
    const bool is_keys = of_head % 2 == 0, is_both = rest <= kKeys / 2;
    const uint32_t barrier = full(from + static_cast<unsigned>(i)),
                   to = place(from + static_cast<unsigned>(i));
    const Maps& maps = launch.maps;
    if (rest > kKeys - kPartKeys) {
      barrier_expect(barrier, P::kTileBytes);
      copy_box(to, is_keys ? &maps.k : &maps.v, 0, row, kv_head, 0, barrier);
      return;
    }
    const int parts = (rest + kPartKeys - 1) / kPartKeys;
    barrier_expect(barrier,
                   static_cast<uint32_t>((is_both ? 2 : 1) * parts * kPartKeys * kDim * 2));
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      const int within = part * kPartKeys * kDim * 2, first_row = row + part * kPartKeys;
      copy_box(to + static_cast<uint32_t>(within), is_keys ? &maps.k_part : &maps.v_part, 0,
               first_row, kv_head, 0, barrier);
      if (is_both)
        copy_box(to + static_cast<uint32_t>(P::kTileBytes / 2 + within), &maps.v_part, 0, first_row,
                 kv_head, 0, barrier);
    }
  }
  // The first places of an entry, when those that they had before have been left.
  __device__ __forceinline__ void load_first(const Entry& e, unsigned from) const {
#pragma unroll 1
    for (int i = 0; i < static_cast<int>(kPlaces) && i < e.loads; ++i) load(e, from, i);
  }
  // Behind a step that is not the entry's last: two more places, the second one where this step's
  // keys were, which the other warps have left by then or soon will.
  __device__ __forceinline__ void refill() const {
    if (loads) {
      const int i = static_cast<int>(left - first) + 1;
#pragma unroll 1
      for (int j = i; j < i + 2 && j < entry->loads; ++j) {
        if (j < static_cast<int>(kPlaces)) continue;  // of the first
        const unsigned before = first + static_cast<unsigned>(j) - kPlaces;
        barrier_wait(empty(before), parity(before));
        load(*entry, first, j);
      }
    }
    __syncwarp();
  }
  // The address of the next place, once it is there.
  __device__ __forceinline__ uint32_t next() const {
    barrier_wait(full(left), parity(left));
    return place(left);
  }
  // Every thread that has read it calls it.
  __device__ __forceinline__ void leave() {
    if (threadIdx.x % 32 == 0) barrier_arrive(empty(left));
    ++left;
  }
  __device__ __forceinline__ void skip(int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      next();
      leave();
    }
  }
};

// One thread's part of a tile: its two queries' maxima, sums and context.
template <class T, int kDim>
struct Attention {
  PairRing<kDim>& ring;
  const uint32_t query;
  const float slope;
  const int group;  // of the block
  Rows rows{};
  float context[kDim / 2] = {};

  // A step of 2 · kCount keys of which `keys` are there.
  template <int kCount>
  __device__ __forceinline__ void attend_step(int keys) {
    float scores[kCount], shift[2], factor[2];
    constexpr bool kBoth = kCount == 32;  // in one place
    const uint32_t step_keys = ring.next();
    multiply_keys<T, kDim>(query, step_keys, scores);
    wgmma_wait<0>();
    if (!kBoth) ring.leave();
    if (keys < 2 * kCount) {
      for_each_score(scores, [&](float& score, int n, int within, int) {
        if (8 * n + within >= keys) score = -kInfinity;
      });
    }
    raise_maxima(scores, slope, rows, shift, factor);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) context[i] *= factor[i / 2 % 2];
    const uint32_t values = kBoth ? step_keys + Places<kDim>::kTileBytes / 2 : ring.next();
    if (keys < 2 * kCount) clear_rows<kDim>(values, keys, 2 * kCount, group);
    attend_values<T, kDim, 1>(scores, slope, shift, values, rows, context);
    wgmma_wait<0>();
    ring.leave();
  }
  __device__ __forceinline__ void attend(int keys) {
#pragma unroll 1
    for (; keys > kKeys / 2; keys -= kKeys) {
      attend_step<64>(keys);
      ring.refill();
    }
    if (keys > 0) attend_step<32>(keys);
  }
};

// The entry's queries, by one thread.
template <int kDim>
__device__ __forceinline__ void load_queries(const SequencesLaunch& launch, const Entry& entry,
                                             uint32_t to, uint32_t barrier) {
  if (entry.keys == 0) return;
  const int groups = entry.pair || entry.queries > kGroupQueries ? 2 : 1;
  barrier_expect(barrier, static_cast<uint32_t>(groups * Places<kDim>::kGroupBytes));
#pragma unroll 1
  for (int g = 0; g < groups; ++g)
    copy_box(to + static_cast<uint32_t>(g * Places<kDim>::kGroupBytes), &launch.maps.q, 0,
             entry.query + (entry.pair ? 0 : g * kGroupQueries), entry.head + (entry.pair ? g : 0),
             0, barrier);
}

template <class T, int kDim>
__device__ inline void attend_sequences(const SequencesLaunch& launch) {
  using P = Places<kDim>;
  const AttentionLaunch& args = launch.args;
  extern __shared__ unsigned char dynamic[];
  unsigned char* shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const int pair = static_cast<int>(threadIdx.x) / kPairThreads,
            group = static_cast<int>(threadIdx.x) / 128, of_pair = group % 2,
            warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t base = shared_address(shared) + static_cast<uint32_t>(pair * P::kPairBytes);
  const uint32_t barriers =
      shared_address(shared) + P::kBarriers + static_cast<uint32_t>(pair * P::kBarrierBytes);
  const uint32_t query_barriers = barriers + 2 * kPlaces * 8;
  const bool leads = threadIdx.x % kPairThreads == 0;
  auto* list = reinterpret_cast<Entry*>(shared + P::kList);
  auto* counts = reinterpret_cast<unsigned*>(shared + P::kCounts);
  int* const next = reinterpret_cast<int*>(shared + P::kNext);
  int* const taken = next + 1 + 2 * pair;  // in turns
  allow_next_kernel();
  if (leads) {
    for (unsigned i = 0; i < kPlaces; ++i) {
      barrier_init(barriers + i * 8, 1);
      barrier_init(barriers + (kPlaces + i) * 8, kPairThreads / 32);
    }
    for (int i = 0; i < 2; ++i) barrier_init(query_barriers + static_cast<uint32_t>(i * 8), 1);
    fence_shared_to_async();
  }
  if (threadIdx.x == 64) fetch_scaling(args);
  wait_for_previous_kernel();
  count_tiles(args, counts);
  const unsigned total = __shfl_sync(~0u, prefix_sum(counts[threadIdx.x % 32]), 31);
  const unsigned from_right = gridDim.x - 1 - blockIdx.x;
  // The block's tiles: one of each round, from left to right and back in turns, so that all blocks
  // have as much to do. In the last round, of fewer tiles, blocks on the right have them.
  const unsigned rounds = total / gridDim.x,
                 all = rounds + (from_right < total - rounds * gridDim.x ? 1 : 0);

  PairRing<kDim> ring{launch, base + P::kRing, barriers, leads, nullptr, 0, 0};
  uint32_t query_parities = 0;  // bit of a room of queries
  for (unsigned begin = 0; begin < all; begin += kListed) {
    const int count = static_cast<int>(all - begin < kListed ? all - begin : kListed);
    __syncthreads();  // the list before has been read
    for (int i = warp; i < count; i += kThreads / 32) {
      const unsigned round = begin + static_cast<unsigned>(i);
      const bool back = round == rounds || round % 2 != 0;
      const Entry found =
          find_entry(args, counts, round * gridDim.x + (back ? from_right : blockIdx.x));
      if (threadIdx.x % 32 == 0) list[i] = found;
    }
    if (threadIdx.x == 0) *next = kPairs;
    if (leads) taken[0] = pair;
    __syncthreads();
    bool is_loaded = false;  // the entry, by this thread
    for (int turn = 0;; turn ^= 1) {
      const int index = taken[turn];
      if (index >= count) break;
      const Entry& entry = list[index];
      ring.entry = &entry;
      ring.first = ring.left;
      const auto room_at = [&](int t) { return t * 2 * P::kGroupBytes; };
      if (leads) {
        const auto load = [&](const Entry& e, unsigned from, int t) {
          load_queries<kDim>(launch, e, base + static_cast<uint32_t>(room_at(t)),
                             query_barriers + static_cast<uint32_t>(t * 8));
          ring.load_first(e, from);
        };
        if (!is_loaded) load(entry, ring.first, turn);
        // Of short sequences the next entry too, beside which this one has room.
        const int next_index = atomicAdd(next, 1);
        taken[turn ^ 1] = next_index;
        is_loaded = next_index < count && entry.is_short() && list[next_index].is_short();
        if (is_loaded)
          load(list[next_index], ring.first + static_cast<unsigned>(entry.loads), turn ^ 1);
      }
      __syncwarp();
      if (of_pair == 1 && !entry.pair && entry.queries <= kGroupQueries) {
        ring.skip(entry.loads);
      } else {
        const int room = room_at(turn) + of_pair * P::kGroupBytes;
        Attention<T, kDim> attention{ring, base + static_cast<uint32_t>(room), args.scale * kLog2E,
                                     group};
        const int of_other = entry.pair ? entry.loads / 2 : 0;  // places of the other head
        if (of_pair == 1) ring.skip(of_other);
        if (entry.keys > 0)
          barrier_wait(query_barriers + static_cast<uint32_t>(turn * 8),
                       query_parities >> turn & 1);
        attention.attend(entry.keys);
        if (of_pair == 0) ring.skip(of_other);
        Tile tile{};
        tile.head = tile.kv_head = entry.head + (entry.pair ? of_pair : 0);
        tile.query = entry.query;
        tile.queries = entry.queries;
        tile.key = entry.key;
        tile.keys = entry.keys;
        store_rows_staged<T, kDim, false>(args, tile, attention.rows, attention.context,
                                          shared + pair * P::kPairBytes + room,
                                          entry.pair ? 0 : of_pair * kGroupQueries, group);
        fence_shared_to_async();  // other queries will lie there
      }
      if (entry.keys > 0) query_parities ^= 1u << turn;
      pair_sync(pair);
    }
  }
}

template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    sequences_kernel(const __grid_constant__ SequencesLaunch launch) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  attend_sequences<T, kDim>(launch);
#else
  __trap();  // hopper_kernels_usable() is false for such code
#endif
}

// ---- host

template <class T, int kDim>
cudaError_t launch_kernel(const AttentionLaunch& args, cudaStream_t stream) {
  SequencesLaunch launch{{}, args};
  cudaError_t status = make_maps(args, launch.maps);
  if (status != cudaSuccess) return status;
  const auto kernel = &sequences_kernel<T, kDim>;
  constexpr int kBytes = Places<kDim>::kBytes;
  status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  return launch_overlapped(kernel, static_cast<unsigned>(kMultiprocessors), kThreads,
                           static_cast<size_t>(kBytes), stream, launch);
}

}  // namespace

bool attention_sequences_takes(const AttentionLaunch& args) {
  // Fewer do not pay for finding them: with 8 a multiprocessor attention_sm90.cu is as fast.
  constexpr int64_t kLeastTiles = 10 * kMultiprocessors;
  const int64_t tiles = args.queries / kRows * args.heads;
  return args.starts_q != nullptr && args.starts_q == args.starts_k && args.head_dim <= 64 &&
         args.bias.data == nullptr && args.keep.data == nullptr && !args.causal &&
         !args.by_position && tiles >= kLeastTiles && attention_sm90_takes(args);
}

cudaError_t launch_attention_sequences(const AttentionLaunch& args, cudaStream_t stream) {
  const bool half = args.q.type == AttentionType::kF16;
  if (args.head_dim == 32)
    return half ? launch_kernel<__half, 32>(args, stream)
                : launch_kernel<__nv_bfloat16, 32>(args, stream);
  return half ? launch_kernel<__half, 64>(args, stream)
              : launch_kernel<__nv_bfloat16, 64>(args, stream);
}

}  // namespace vernier::backend::cuda
