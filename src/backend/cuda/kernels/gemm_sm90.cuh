// The sm_90a matrix product: device code of gemm_sm90.cu, contract in gemm_sm90.h. C++17.
//
// One block per multiprocessor stays and takes tile after tile. A producer thread fills a ring of
// stages through the copy engine; two warpgroups multiply out of it with wgmma, sums in registers.
// In turns (kTogether false) each warpgroup has a tile of its own: while one runs its epilogue the
// other multiplies, so bias, GELU and stores cost nothing while K is long enough. Together, both
// work on one tile of twice the rows. A cluster of two blocks, one below the other, shares the tile
// of w: each loads half of it into both.
#pragma once
#include "backend/cuda/device/activation.cuh"
#include "backend/cuda/device/hopper.cuh"
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/kernels/gemm_sm90.h"

namespace vernier::backend::cuda {

struct GemmArguments {
  const void *bias, *residual;
  void* y;
  int m, n;
  int k_blocks;              // steps of the ring per tile
  int row_tiles, col_tiles;  // row_tiles counts clusters
  int group_cols;            // column tiles walked before the next rows, so that w stays in L2
  uint32_t stage_bytes;      // what one stage receives
  GemmType bias_type, residual_type, y_type;
  int activation;
};

constexpr int kGemmThreads = 384;  // two consumer warpgroups, one producer
constexpr int kBlockK = 64;        // elements of K in one 128-byte row of a tile

/// T operand type; kRowBlocks·64 rows and kCols columns per warpgroup; kSub·64 elements of K per
/// stage of the ring.
template <class T_, int kRowBlocks_, int kCols_, int kSub_, int kStages_, int kCluster_,
          bool kTogether_>
struct GemmShape {
  using T = T_;
  static constexpr int kRowBlocks = kRowBlocks_, kCols = kCols_, kSub = kSub_, kStages = kStages_,
                       kCluster = kCluster_;
  static constexpr bool kTogether = kTogether_;
  static constexpr int kGroupRows = 64 * kRowBlocks;
  static constexpr int kRows = kGroupRows * (kTogether ? 2 : 1);
  static constexpr uint32_t kXBytes = kRows * 128, kWBytes = kCols * 128;  // of one 64 of K
  static constexpr uint32_t kStageBytes = kSub * (kXBytes + kWBytes);
  // The epilogue takes 64 rows and kSliceCols columns at a time.
  static constexpr int kSliceCols = kCols % 32 == 0 ? 32 : kCols % 16 == 0 ? 16 : kCols;
  static constexpr int kColSlices = kCols / kSliceCols, kSlices = kRowBlocks * kColSlices;
  static constexpr uint32_t kStripBytes = 16 * kSliceCols * 2;  // of one warp
  static constexpr uint32_t kSharedBytes =
      kStages * (kStageBytes + 16) + 16 + 4 * kCols * 4 + 8 * kStripBytes + 1024;
  static_assert(kSharedBytes <= 232448, "more than a block can have");
};

// A place in the ring; `parity` is that of the current round.
template <int kStages>
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ void skip(int steps) {
    const int to = stage + steps;
    parity ^= (to / kStages) & 1;
    stage = to % kStages;
  }
};

struct GemmTile {
  int row, col;  // element at which it begins
};
template <class S>
__device__ __forceinline__ GemmTile tile_at(const GemmArguments& args, int index, int rank) {
  const int per_group = args.row_tiles * args.group_cols;
  const int first = index / per_group * args.group_cols;
  const int width = min(args.group_cols, args.col_tiles - first);
  const int within = index % per_group;
  return {(within / width * S::kCluster + rank) * S::kRows, (first + within % width) * S::kCols};
}

// Addresses in shared memory: stages, strips of results (one per consumer warp), the bias of a tile
// (two per group, in turns), barriers.
template <class S>
struct GemmShared {
  uint32_t base;
  __device__ uint32_t x(int stage) const { return base + stage * S::kStageBytes; }
  __device__ uint32_t w(int stage) const { return x(stage) + S::kSub * S::kXBytes; }
  __device__ uint32_t strip(int warp) const { return x(S::kStages) + warp * S::kStripBytes; }
  __device__ uint32_t bias(int group, int odd) const {
    return strip(8) + (2 * group + odd) * S::kCols * 4;
  }
  __device__ uint32_t full(int stage) const { return bias(2, 0) + stage * 8; }
  __device__ uint32_t empty(int stage) const { return full(S::kStages) + stage * 8; }
  __device__ uint32_t turn(int group) const { return empty(S::kStages) + group * 8; }
};

// What the producer thread does for one step of the ring.
template <class S>
struct GemmLoads {
  const GemmShared<S>& shared;
  const CUtensorMap *x_map, *w_map;
  int rank;

  __device__ __forceinline__ void x(int stage, int block, const GemmTile& tile) const {
#pragma unroll
    for (int sub = 0; sub < S::kSub; ++sub)
      copy_box(shared.x(stage) + sub * S::kXBytes, x_map, (block * S::kSub + sub) * kBlockK,
               tile.row, shared.full(stage));
  }
  __device__ __forceinline__ void w(int stage, int block, const GemmTile& tile) const {
    constexpr int kShare = S::kCols / S::kCluster;  // rows of w that this block loads
#pragma unroll
    for (int sub = 0; sub < S::kSub; ++sub) {
      const int k = (block * S::kSub + sub) * kBlockK;
      const uint32_t to = shared.w(stage) + sub * S::kWBytes;
      if constexpr (S::kCluster > 1) {
        copy_box_to(to + rank * kShare * 128, w_map, k, tile.col + rank * kShare,
                    shared.full(stage), (1 << S::kCluster) - 1);
      } else {
        copy_box(to, w_map, k, tile.col, shared.full(stage));
      }
    }
  }
};

template <class S>
__device__ void produce(const GemmLoads<S>& load, const GemmArguments& args) {
  const GemmShared<S>& shared = load.shared;
  const int clusters = gridDim.x / S::kCluster, tiles = args.row_tiles * args.col_tiles;
  const int begin = blockIdx.x / S::kCluster;
  // The first round: w does not wait for the kernel before.
  const int ahead = min(args.k_blocks, S::kStages);
  const GemmTile first = tile_at<S>(args, begin, load.rank);
  for (int block = 0; block < ahead; ++block) {
    barrier_expect(shared.full(block), args.stage_bytes);
    load.w(block, block, first);
  }
  wait_for_previous_kernel();
  for (int block = 0; block < ahead; ++block) load.x(block, block, first);

  RingPlace<S::kStages> place;
  place.skip(ahead);
  for (int t = begin; t < tiles; t += clusters) {
    const GemmTile tile = tile_at<S>(args, t, load.rank);
    for (int block = t == begin ? ahead : 0; block < args.k_blocks; ++block) {
      barrier_wait(shared.empty(place.stage), place.parity ^ 1);
      barrier_expect(shared.full(place.stage), args.stage_bytes);
      load.x(place.stage, block, tile);
      load.w(place.stage, block, tile);
      place.advance();
    }
  }
}

// ---- epilogue ----------------------------------------------------------------------------------
// Thread `lane` of warp `warp` holds, per 64 rows and per 8 columns, the elements of rows
// 16·warp + lane/4 (+ 8) and columns 2·(lane % 4) (+ 1): d[4j], d[4j+1] and d[4j+2], d[4j+3].
// It goes slice by slice through one loop: code that is unrolled over all sums is several times the
// instruction cache and runs at less than half the speed (measured with GELU).

template <class S>
using GemmSums = float[S::kRowBlocks][S::kCols / 2];
template <class S>
using GemmSlice = float[S::kSliceCols / 2];

template <class T>
__device__ __forceinline__ float2 read_pair(const void* data, int64_t index) {
  if constexpr (sizeof(T) == 4) {
    return *reinterpret_cast<const float2*>(static_cast<const float*>(data) + index);
  } else if constexpr (__is_same(T, __half)) {
    return __half22float2(
        *reinterpret_cast<const __half2*>(static_cast<const __half*>(data) + index));
  } else {
    return __bfloat1622float2(
        *reinterpret_cast<const __nv_bfloat162*>(static_cast<const __nv_bfloat16*>(data) + index));
  }
}
template <class T>
__device__ __forceinline__ uint32_t narrow_pair(float a, float b) {
  if constexpr (__is_same(T, __half)) {
    const __half2 pair = __floats2half2_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

// Slice `index` of [kFirst, kFirst + kCount): a register's number cannot be computed, so branches.
template <class S, int kFirst, int kCount>
__device__ __forceinline__ void pick_slice(const GemmSums<S>& sums, int index, GemmSlice<S>& v) {
  if constexpr (kCount == 1) {
    constexpr int kBlock = kFirst / S::kColSlices, kBegin = kFirst % S::kColSlices;
#pragma unroll
    for (int i = 0; i < S::kSliceCols / 2; ++i)
      v[i] = sums[kBlock][kBegin * (S::kSliceCols / 2) + i];
  } else if (index < kFirst + kCount / 2) {
    pick_slice<S, kFirst, kCount / 2>(sums, index, v);
  } else {
    pick_slice<S, kFirst + kCount / 2, kCount - kCount / 2>(sums, index, v);
  }
}

// The bias of a tile as f32, 0 where there is none: an added +0 also turns sums of −0 into +0.
template <class S>
__device__ __forceinline__ void stage_bias(const GemmArguments& args, int tile_col, uint32_t to) {
  for (int i = threadIdx.x % 128; i < S::kCols; i += 128) {
    const int col = tile_col + i;
    float bias = 0;
    if (args.bias != nullptr && col < args.n) {
      bias = args.bias_type == GemmType::kF32
                 ? static_cast<const float*>(args.bias)[col]
                 : static_cast<float>(static_cast<const typename S::T*>(args.bias)[col]);
    }
    store_shared(to + i * 4, bias + 0.0f);
  }
}

template <int kCount, class Function>
__device__ __forceinline__ void for_each(float (&v)[kCount], const Function& function) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) v[i] = function(v[i]);
}
template <int kCount>
__device__ __forceinline__ void activate(float (&v)[kCount], const GemmArguments& args) {
  switch (args.activation) {  // Activation of core/attrs.h
    case 1:
      if (args.y_type == GemmType::kF32) {
        for_each(v, [](float x) { return epilogue::gelu_erf<8>(x); });
      } else {
        for_each(v, [](float x) { return epilogue::gelu_erf<5>(x); });
      }
      break;
    case 2:
      for_each(v, [](float x) { return epilogue::gelu_tanh(x); });
      break;
    case 3:
      for_each(v, [](float x) { return epilogue::relu(x); });
      break;
    case 4:
      for_each(v, [](float x) { return tanhf(x); });
      break;
    default:
      break;
  }
}

// Where this thread's elements of a slice are in y: rows row and row + 8, columns col + 8j.
struct GemmSpot {
  int row, col;
};
template <class S, class Residual>
__device__ __forceinline__ void add_residual(GemmSlice<S>& v, const GemmArguments& args,
                                             GemmSpot spot) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t at = static_cast<int64_t>(spot.row + 8 * half) * args.n + spot.col;
#pragma unroll
    for (int j = 0; j < S::kSliceCols / 8; ++j) {
      if (spot.row + 8 * half >= args.m || spot.col + 8 * j >= args.n) continue;
      const float2 add = read_pair<Residual>(args.residual, at + 8 * j);
      v[4 * j + 2 * half] += add.x, v[4 * j + 2 * half + 1] += add.y;
    }
  }
}
// Straight from registers: 8 bytes (f32) or 4 (16 bits) per thread, four threads side by side.
template <class S, class Out>
__device__ __forceinline__ void store_direct(const GemmSlice<S>& v, const GemmArguments& args,
                                             GemmSpot spot) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t at = static_cast<int64_t>(spot.row + 8 * half) * args.n + spot.col;
    Out* y = static_cast<Out*>(args.y) + at;
#pragma unroll
    for (int j = 0; j < S::kSliceCols / 8; ++j) {
      if (spot.row + 8 * half >= args.m || spot.col + 8 * j >= args.n) continue;
      const float a = v[4 * j + 2 * half], b = v[4 * j + 2 * half + 1];
      if constexpr (sizeof(Out) == 4) {
        *reinterpret_cast<float2*>(y + 8 * j) = float2{a, b};
      } else {
        *reinterpret_cast<uint32_t*>(y + 8 * j) = narrow_pair<Out>(a, b);
      }
    }
  }
}
// A warp's 16 rows through its strip of shared memory (16-byte chunks, swizzled against bank
// conflicts), then in 16-byte stores that fill whole rows of the slice.
template <class S>
__device__ __forceinline__ void store_strip(const GemmSlice<S>& v, const GemmArguments& args,
                                            uint32_t strip, int row, int col) {
  using T = typename S::T;
  constexpr int kChunks = S::kSliceCols / 8;
  const int lane = threadIdx.x % 32;
  const auto chunk_at = [strip](int r, int c) {
    return strip + r * (kChunks * 16) + (c ^ (r / (8 / kChunks) % kChunks)) * 16;
  };
  __syncwarp();  // the strip's last contents have been read
#pragma unroll
  for (int j = 0; j < kChunks; j += 2) {
    store_matrices(chunk_at(lane % 16, j + lane / 16), narrow_pair<T>(v[4 * j], v[4 * j + 1]),
                   narrow_pair<T>(v[4 * j + 2], v[4 * j + 3]),
                   narrow_pair<T>(v[4 * j + 4], v[4 * j + 5]),
                   narrow_pair<T>(v[4 * j + 6], v[4 * j + 7]));
  }
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 16 * kChunks; i += 32) {
    const int r = i / kChunks, c = i % kChunks;
    const uint4 chunk = load_shared_16_bytes(chunk_at(r, c));
    if (row + r < args.m && col + 8 * c < args.n) {
      const int64_t at = static_cast<int64_t>(row + r) * args.n + col + 8 * c;
      *reinterpret_cast<uint4*>(static_cast<T*>(args.y) + at) = chunk;
    }
  }
}

/// y = act(sums + bias) + residual for one tile of a group; `bias` in shared memory.
template <class S>
__device__ __forceinline__ void finish(const GemmSums<S>& sums, const GemmArguments& args,
                                       uint32_t strip, uint32_t bias, GemmTile tile) {
  using T = typename S::T;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll 1
  for (int slice = 0; slice < S::kSlices; ++slice) {
    const int row = tile.row + slice / S::kColSlices * 64 + 16 * warp;
    const int begin = slice % S::kColSlices * S::kSliceCols;
    const GemmSpot spot{row + lane / 4, tile.col + begin + 2 * (lane % 4)};
    GemmSlice<S> v;
    pick_slice<S, 0, S::kSlices>(sums, slice, v);
#pragma unroll
    for (int j = 0; j < S::kSliceCols / 8; ++j) {
      const float2 add = load_shared_pair(bias + (begin + 8 * j + 2 * (lane % 4)) * 4);
      v[4 * j] += add.x, v[4 * j + 1] += add.y;
      v[4 * j + 2] += add.x, v[4 * j + 3] += add.y;
    }
    activate(v, args);
    if (args.residual != nullptr) {
      if (args.residual_type == GemmType::kF32) {
        add_residual<S, float>(v, args, spot);
      } else {
        add_residual<S, T>(v, args, spot);
      }
    }
    if (args.y_type == GemmType::kF32) {
      store_direct<S, float>(v, args, spot);
    } else if constexpr (S::kSliceCols % 16 == 0) {
      store_strip<S>(v, args, strip, row, tile.col + begin);
    } else {
      store_direct<S, T>(v, args, spot);
    }
  }
}

// ---- main loop ---------------------------------------------------------------------------------
// This warp has read a stage: tells the producers of all blocks that write into it.
template <class S>
__device__ __forceinline__ void release(uint32_t empty) {
  const int lane = threadIdx.x % 32;
  if constexpr (S::kCluster > 1) {
    if (lane < S::kCluster) barrier_arrive_at(empty, lane);
  } else {
    if (lane == 0) barrier_arrive(empty);
  }
}

// In turns, the groups enter one after the other. A wait by parity sees one round back at most, so
// a group may wait for its stages only when the other has seen all of its own.
template <class S>
__device__ __forceinline__ void multiply(GemmSums<S>& sums, const GemmShared<S>& shared,
                                         RingPlace<S::kStages>& place, int k_blocks, int group) {
  uint32_t previous = 0;
#pragma unroll 1
  for (int block = 0; block < k_blocks; ++block) {
    barrier_wait(shared.full(place.stage), place.parity);
    const uint64_t x =
        tile_descriptor(shared.x(place.stage) + (S::kTogether ? group * S::kGroupRows * 128 : 0));
    const uint64_t w = tile_descriptor(shared.w(place.stage));
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < S::kSub * (kBlockK / 16); ++step) {
      const int sub = step / 4, within = 2 * (step % 4);  // 16 elements: 2 units of a descriptor
#pragma unroll
      for (int b = 0; b < S::kRowBlocks; ++b) {
        Wgmma<S::kCols, typename S::T>::run(sums[b],
                                            x + (sub * S::kXBytes + b * 64 * 128) / 16 + within,
                                            w + sub * S::kWBytes / 16 + within);
      }
    }
    wgmma_commit();
    if (block > 0) {
      wgmma_wait<1>();
      release<S>(previous);
    }
    previous = shared.empty(place.stage);
    place.advance();
  }
  if (!S::kTogether && threadIdx.x % 128 == 0) barrier_arrive(shared.turn(1 - group));
  wgmma_wait<0>();
  release<S>(previous);
}

template <class S>
__device__ __forceinline__ void consume(const GemmShared<S>& shared, const GemmArguments& args,
                                        int rank, int group) {
  wait_for_previous_kernel();  // it may still read y, or write the residual
  const uint32_t strip = shared.strip(uniform(threadIdx.x / 32));
  RingPlace<S::kStages> place;
  if (!S::kTogether && group == 1) place.skip(args.k_blocks);
  const int clusters = gridDim.x / S::kCluster, turns = S::kTogether ? 1 : 2;
  uint32_t turn_parity = group == 0;  // group 0 begins: a fresh barrier passes for parity 1
  int odd = 0;
  const int first = blockIdx.x / S::kCluster + (S::kTogether ? 0 : group * clusters);
#pragma unroll 1
  for (int t = first; t < args.row_tiles * args.col_tiles; t += turns * clusters) {
    GemmTile tile = tile_at<S>(args, t, rank);
    if constexpr (S::kTogether) tile.row += group * S::kGroupRows;
    stage_bias<S>(args, tile.col, shared.bias(group, odd));
    GemmSums<S> sums;
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
      for (int i = 0; i < S::kCols / 2; ++i) sums[b][i] = 0;
    }
    if constexpr (!S::kTogether) barrier_wait(shared.turn(group), turn_parity);
    turn_parity ^= 1;
    multiply<S>(sums, shared, place, args.k_blocks, group);
    if constexpr (!S::kTogether) place.skip(args.k_blocks);
    warpgroup_sync(1 + group);  // all of the bias is there
    finish<S>(sums, args, strip, shared.bias(group, odd), tile);
    odd ^= 1;  // a warp that is ahead writes the other one
  }
}

template <class S>
__global__ void __launch_bounds__(kGemmThreads, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap x_map,
                const __grid_constant__ CUtensorMap w_map,
                const __grid_constant__ GemmArguments args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ uint8_t dynamic[];
  const GemmShared<S> shared{(shared_address(dynamic) + 1023) & ~1023u};
  const int group = uniform(threadIdx.x / 128);
  const int rank = S::kCluster > 1 ? uniform(static_cast<int>(cluster_rank())) : 0;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < S::kStages; ++stage) {
      barrier_init(shared.full(stage), 1);
      barrier_init(shared.empty(stage), S::kCluster * 4 * (S::kTogether ? 2 : 1));  // per warp
    }
    for (int g = 0; g < 2; ++g) barrier_init(shared.turn(g), 1);
    fence_barrier_init();
  }
  if (threadIdx.x == 256) {
    prefetch_map(&x_map);
    prefetch_map(&w_map);
  }
  if constexpr (S::kCluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  allow_next_kernel();
  if (group == 2) {
    give_registers<24>();
    if (threadIdx.x == 256) produce<S>({shared, &x_map, &w_map, rank}, args);
    __syncwarp();
  } else {
    take_registers<240>();
    consume<S>(shared, args, rank, group);
  }
  if constexpr (S::kCluster > 1) cluster_sync();  // the other block may still arrive and write here
#else
  __trap();  // gemm_sm90_usable() is false for such code
#endif
}

}  // namespace vernier::backend::cuda
