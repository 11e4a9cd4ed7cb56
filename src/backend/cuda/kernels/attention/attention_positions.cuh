// Raw scores of a step of attention on Hopper, 64 queries of a warpgroup against 128 keys, and what
// relative positions add to them. C++17.
#pragma once
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/device/wgmma_attention.cuh"
#include "backend/cuda/kernels/attention/attention_device.cuh"

namespace vernier::backend::cuda {

constexpr int kGroupQueries = 64;  // of a warpgroup
constexpr int kKeys = kSm90StepKeys;
constexpr float kLog2E = 1.4426950408889634f;
// Biases and fills as raw scores (before scaling): −3.4e38 times log2(e) would be −inf, so that
// what is beyond the largest is brought to it. From 2^28 on they are powers of two: where every key
// is hidden, 2^(score·slope − shift) takes the difference of an exact and a rounded product, which
// is 0 for those; the rounding of −1e20·slope would be 2^42, and its power infinite.
constexpr float kAbsorbingRaw = 0x1p28f, kLargestRaw = 0x1p100f;

// A score, bias or fill as it is before scaling. Finite stays finite.
__device__ inline float raw_score(float score, float inverse_scale) {
  const float raw = score * inverse_scale;
  if (fabsf(raw) <= kAbsorbingRaw || !(fabsf(score) < kInfinity)) return raw;
  const float power = __uint_as_float(__float_as_uint(raw) & 0x7f800000u);  // toward 0
  return copysignf(fminf(power, kLargestRaw), score);
}

// The buckets of the distances i - j of a group's 64 queries and a step's 128 keys, in shared
// memory: that of query 0 and key 0 is element kKeys - 1. Buckets are below 2^16.
constexpr int kDistances = kGroupQueries + kKeys - 1;
struct StepBuckets {
  uint16_t of_query[kDistances + 1], of_key[kDistances + 1];
};
// A thread's own: of distances thread and thread + 128, that of queries in the low half.
struct OwnBuckets {
  uint32_t of[2];
};
// `first` is the group's first row of the tile.
__device__ inline OwnBuckets load_buckets(const AttentionLaunch& args, const Tile& tile, int first,
                                          int key) {
  const int64_t least = tile.query - tile.first + first - key - (kKeys - 1);
  const AttentionPositions &q = args.query_positions, &k = args.key_positions;
  OwnBuckets own{};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = static_cast<int>(threadIdx.x) % 128 + i * 128;
    if (at >= kDistances) break;
    if (q.data != nullptr) own.of[i] = static_cast<uint32_t>(bucket_at(q, least + at));
    if (k.data != nullptr) own.of[i] |= static_cast<uint32_t>(bucket_at(k, least + at)) << 16;
  }
  return own;
}
// All threads of the group, which synchronize before they read.
__device__ inline void store_buckets(const OwnBuckets& own, StepBuckets& buckets) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = static_cast<int>(threadIdx.x) % 128 + i * 128;
    if (at >= kDistances) break;
    buckets.of_query[at] = static_cast<uint16_t>(own.of[i]);
    buckets.of_key[at] = static_cast<uint16_t>(own.of[i] >> 16);
  }
}

// Of f16 as it is; others may be so large that powers must do, as for biases.
__device__ __forceinline__ float raw_position(__half x) { return __half2float(x); }
template <class P>
__device__ __forceinline__ float raw_position(P x) {
  return raw_score(static_cast<float>(x), 1.0f);
}
// What relative positions add to the raw scores of the step that starts at `key`; `row` is the
// lane's first row of the tile. P: the type of the positions.
template <class P>
__device__ __forceinline__ void add_query_positions(const AttentionLaunch& args, const Tile& tile,
                                                    int row, const uint16_t* buckets,
                                                    float (&scores)[64]) {
  const AttentionPositions& positions = args.query_positions;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int of = row + 8 * r < tile.queries ? row + 8 * r : tile.queries - 1;
    const P* own =
        static_cast<const P*>(positions.data) + positions_of(positions, tile, tile.query + of);
    const uint16_t* own_buckets = buckets + row % kGroupQueries + 8 * r - 2 * t + kKeys - 1;
#pragma unroll
    for (int n = 0; n < 16; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e)
        scores[4 * n + 2 * r + e] += raw_position(own[own_buckets[-(8 * n + e)]]);
    }
  }
}
template <class P>
__device__ __forceinline__ void add_key_positions(const AttentionLaunch& args, const Tile& tile,
                                                  int row, int key, const uint16_t* buckets,
                                                  float (&scores)[64]) {
  const AttentionPositions& positions = args.key_positions;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int last = static_cast<int>(tile.keys) - 1 - key - 2 * t;
  const P* first =
      static_cast<const P*>(positions.data) + positions_of(positions, tile, tile.key + key + 2 * t);
  const uint16_t* own_buckets = buckets + row % kGroupQueries - 2 * t + kKeys - 1;
#pragma unroll
  for (int n = 0; n < 16; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int j = 8 * n + e < last ? 8 * n + e : last;
      const P* keys = first + j * positions.row;
#pragma unroll
      for (int r = 0; r < 2; ++r)
        scores[4 * n + 2 * r + e] += raw_position(keys[own_buckets[8 * r - (8 * n + e)]]);
    }
  }
}

// ---- positions of a step in shared memory

// Where neighboring distances have the same bucket or neighbors, a step reads at most kKeys
// neighbors of a query's positions and kGroupQueries of a key's. They are copied from 8 elements
// aligned on.
constexpr int kQueryRun = kKeys + 8, kKeyRun = kGroupQueries + 8;
constexpr uint32_t kQueryRunBytes = kQueryRun * 2, kKeyRunBytes = kKeyRun * 2;
struct StagedPositions {
  alignas(16) unsigned char of_query[kGroupQueries * kQueryRunBytes], of_key[kKeys * kKeyRunBytes];
  int key_start[kKeys];  // of bucket 0 of each key in of_key, in bytes: it may lie before the run
};
__device__ __forceinline__ int run_start(int bucket, int size, int run) {
  return min(bucket, size - run) & ~7;
}
// How the own buckets change from one distance to the next.
struct BucketChange {
  bool near = true, by_one = true;  // by 0 or 1; by 1
};
__device__ inline BucketChange change_of(const AttentionLaunch& args, const StepBuckets& buckets) {
  BucketChange change;
  const auto see = [&](const AttentionPositions& positions, int by) {
    if (positions.data == nullptr) return;
    change.near = change.near && (by == 0 || by == 1);
    change.by_one = change.by_one && by == 1;
  };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = static_cast<int>(threadIdx.x) % 128 + i * 128;
    if (at + 1 >= kDistances) break;
    see(args.query_positions, buckets.of_query[at + 1] - buckets.of_query[at]);
    see(args.key_positions, buckets.of_key[at + 1] - buckets.of_key[at]);
  }
  return change;
}
// Copies a run of kBytes for each of kCount rows, one after the other in shared memory: eight
// threads have a row, and neighbors of them 128 neighboring bytes. from(row): where it begins.
template <uint32_t kBytes, int kCount, class From>
__device__ __forceinline__ void copy_runs(uint32_t to, const From& from) {
  constexpr int kChunks = kBytes / 16;
  const int eighth = static_cast<int>(threadIdx.x) % 8;
#pragma unroll
  for (int i = 0; i < kCount; i += 16) {
    const int row = i + static_cast<int>(threadIdx.x) % 128 / 8;
    const uint16_t* own = from(row) + eighth * 8;
    const uint32_t at =
        to + static_cast<uint32_t>(row) * kBytes + static_cast<uint32_t>(eighth) * 16;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; chunk += 8) {
      if (chunk + eighth < kChunks)
        copy_16_async(at + static_cast<uint32_t>(chunk) * 16, own + chunk * 8, 16);
    }
  }
}
// Starts the copies of a step whose buckets are there. `first` is the group's first row of the
// tile. All threads of the group, after the last reads of the step before.
__device__ inline void stage_positions(const AttentionLaunch& args, const Tile& tile, int first,
                                       int key, const StepBuckets& buckets,
                                       StagedPositions& staged) {
  const AttentionPositions &q = args.query_positions, &k = args.key_positions;
  if (q.data != nullptr) {
    const auto* data =
        static_cast<const uint16_t*>(q.data) + positions_of(q, tile, tile.query + first);
    const int last = tile.queries - 1 - first;
    copy_runs<kQueryRunBytes, kGroupQueries>(shared_address(staged.of_query), [&](int row) {
      return data + min(row, last) * q.row + run_start(buckets.of_query[row], q.size, kQueryRun);
    });
  }
  if (k.data == nullptr) return;
  const auto start = [&](int row) {
    return run_start(buckets.of_key[kKeys - 1 - row], k.size, kKeyRun);
  };
  const int thread = static_cast<int>(threadIdx.x) % 128;
  staged.key_start[thread] = thread * static_cast<int>(kKeyRunBytes) - 2 * start(thread);
  const auto* data = static_cast<const uint16_t*>(k.data) + positions_of(k, tile, tile.key + key);
  const int last = static_cast<int>(tile.keys) - 1 - key;
  copy_runs<kKeyRunBytes, kKeys>(shared_address(staged.of_key), [&](int row) {
    return data + min(row, last) * k.row + start(row);
  });
}

// Of shared memory, by 32-bit addresses: the compiler's own take twice as many instructions.
__device__ __forceinline__ uint32_t load_shared_16_bits(uint32_t address) {
  uint16_t bits;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(address));
  return bits;
}
__device__ __forceinline__ float raw_position_of(uint32_t bits, __half) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ __forceinline__ float raw_position_of(uint32_t bits, __nv_bfloat16) {
  return raw_position(__ushort_as_bfloat16(static_cast<unsigned short>(bits)));
}
// As add_query_positions or add_key_positions, of positions of type P in shared memory, for the
// 8 · kCount keys from 8 · kFirst on. kByOne: from one distance to the next every bucket changes
// by 1.
// Of the lane's elements that of row r, i and e, key 8i + 2t + e, has distance 8·(r - i) - e from
// the first, so that those of r = 1, i and r = 0, i - 1 share a bucket. `of`: where the bucket of
// the first element, r = 0, is. at(i, e, r): where bucket 0 of an element's positions would be.
// Buckets are loaded three i ahead of the positions whose addresses they are.
template <class P, bool kByOne, int kFirst, int kCount, class At>
__device__ __forceinline__ void add_rows(uint32_t of, const At& at, float (&scores)[64]) {
  constexpr int kAhead = 3;
  uint32_t bucket[kCount + 1][2];
  const uint32_t first = kByOne ? 2 * load_shared_16_bits(of) + 16 : 0;
  const auto load = [&](int i) {
    if constexpr (!kByOne) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (i <= kCount)
          bucket[i][e] = load_shared_16_bits(of + 16 - 2 * static_cast<uint32_t>(8 * i + e));
      }
    }
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(i);
#pragma unroll
  for (int i = 0; i <= kCount; ++i) {
    load(i + kAhead);
    float* const own = scores + 4 * (kFirst + i);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint32_t by = kByOne ? first - 2 * static_cast<uint32_t>(8 * i + e) : 2 * bucket[i][e];
      if (i < kCount) own[2 + e] += raw_position_of(load_shared_16_bits(at(i, e, 1) + by), P());
      if (i > 0) own[e - 4] += raw_position_of(load_shared_16_bits(at(i - 1, e, 0) + by), P());
    }
  }
}
// Staged positions, whose rows begin where a step's first bucket says; `row` is the lane's first
// of the group.
template <class P, bool kByOne>
__device__ __forceinline__ void add_staged_queries(const AttentionLaunch& args, int row,
                                                   const StepBuckets& buckets,
                                                   const StagedPositions& staged,
                                                   float (&scores)[64]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const auto start = [&](int own) {
    return shared_address(staged.of_query) + static_cast<uint32_t>(own) * kQueryRunBytes -
           2 * static_cast<uint32_t>(
                   run_start(buckets.of_query[own], args.query_positions.size, kQueryRun));
  };
  const uint32_t low = start(row), high = start(row + 8);
  add_rows<P, kByOne, 0, 16>(
      shared_address(buckets.of_query + row - 2 * t + kKeys - 1),
      [&](int, int, int r) { return r == 0 ? low : high; }, scores);
}
template <class P, bool kByOne>
__device__ __forceinline__ void add_staged_keys(int row, const StepBuckets& buckets,
                                                const StagedPositions& staged,
                                                float (&scores)[64]) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const uint32_t base = shared_address(staged.of_key);
  const int* starts = staged.key_start + 2 * t;
  add_rows<P, kByOne, 0, 16>(
      shared_address(buckets.of_key + row - 2 * t + kKeys - 1),
      [&](int i, int e, int) { return base + static_cast<uint32_t>(starts[8 * i + e]); }, scores);
}
template <class P, bool kByOne>
__device__ __forceinline__ void add_staged(const AttentionLaunch& args, int row,
                                           const StepBuckets& buckets,
                                           const StagedPositions& staged, float (&scores)[64]) {
  if (args.query_positions.data != nullptr)
    add_staged_queries<P, kByOne>(args, row, buckets, staged, scores);
  if (args.key_positions.data != nullptr) add_staged_keys<P, kByOne>(row, buckets, staged, scores);
}

// Where a step's positions are.
struct PositionsOfStep {
  const StagedPositions* staged = nullptr;  // null: in memory
  bool by_one = false;                      // kByOne of those staged
};
// `row` is the lane's first row of the tile.
__device__ inline void add_positions(const AttentionLaunch& args, const Tile& tile, int row,
                                     int key, const StepBuckets& buckets, PositionsOfStep where,
                                     float (&scores)[64]) {
  const AttentionPositions &q = args.query_positions, &k = args.key_positions;
  if (where.staged != nullptr) {
    const int own = row % kGroupQueries;
    const AttentionType type = q.data != nullptr ? q.type : k.type;
    if (type == AttentionType::kBF16)
      add_staged<__nv_bfloat16, false>(args, own, buckets, *where.staged, scores);
    else if (where.by_one)
      add_staged<__half, true>(args, own, buckets, *where.staged, scores);
    else
      add_staged<__half, false>(args, own, buckets, *where.staged, scores);
    return;
  }
  const auto by_type = [](const AttentionPositions& positions, const auto& add) {
    if (positions.data == nullptr) return;
    if (positions.type == AttentionType::kF16) return add(__half());
    if (positions.type == AttentionType::kBF16) return add(__nv_bfloat16());
    add(float());
  };
  by_type(q, [&](auto p) {
    add_query_positions<decltype(p)>(args, tile, row, buckets.of_query, scores);
  });
  by_type(k, [&](auto p) {
    add_key_positions<decltype(p)>(args, tile, row, key, buckets.of_key, scores);
  });
}

}  // namespace vernier::backend::cuda
