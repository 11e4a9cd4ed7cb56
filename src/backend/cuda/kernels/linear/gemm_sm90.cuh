// The sm_90a matrix product: device code of gemm_sm90.cu, contract in gemm_sm90.h. C++17.
//
// One block per multiprocessor stays and takes tile after tile. A producer thread fills a ring of
// stages through the copy engine; two warpgroups multiply out of it with wgmma, sums in registers.
// Each has a tile of its own, in turns: while one runs its epilogue the other multiplies. Where
// every multiprocessor has one tile, that is no gain, and a larger tile takes in fewer bytes: there
// both work on one tile (kTogether). A cluster of two blocks, one below the other, shares the tile
// of w: each loads half of it into both. (Measured and left out: blocks beside each other that
// share x, two by two too, which gain nothing.) Which tiles come one after the other counts:
// multiprocessors side by side seem to take in once what both ask for, and one wave of small tiles
// takes as long without its products as with them (docs/performance.md).
#pragma once
#include "backend/cuda/device/wgmma.cuh"
#include "backend/cuda/kernels/linear/gemm_sm90_epilogue.cuh"

namespace vernier::backend::cuda {

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

// Addresses in shared memory: stages, results to be stored, the bias, barriers. The boxes of
// results are shared by the two groups in turns, or each has its own; a strip belongs to one
// warp of the eight.
template <class S>
struct GemmShared {
  uint32_t base;
  __device__ uint32_t x(int stage) const { return base + stage * S::kStageBytes; }
  __device__ uint32_t w(int stage) const { return x(stage) + S::kSub * S::kXBytes; }
  __device__ uint32_t boxes(int warp) const {
    return x(S::kStages) + warp * S::kBoxesOfWarp * S::kBoxBytes;
  }
  __device__ uint32_t strip(int warp) const { return x(S::kStages) + warp * S::kStripBytes; }
  __device__ uint32_t bias(int group) const {
    return x(S::kStages) + S::kResultBytes + group * S::kColumnBytes;
  }
  __device__ uint32_t full(int stage) const { return bias(2) + stage * 8; }
  __device__ uint32_t empty(int stage) const { return full(S::kStages) + stage * 8; }
  __device__ uint32_t turn(int group) const { return empty(S::kStages) + group * 8; }
  __device__ uint32_t boxes_turn(int group) const { return turn(2) + group * 8; }
  __device__ uint32_t residual(int group) const { return boxes_turn(2) + group * 8; }
};

// What the producer thread does for one step of the ring.
template <class S>
struct GemmLoads {
  const GemmShared<S>& shared;
  const CUtensorMap *x_map, *w_map;
  int rank;

  __device__ __forceinline__ void x(int stage, int block, const GemmTile& tile) const {
#pragma unroll
    for (int sub = 0; sub < S::kSub; ++sub) {
      const int k = (block * S::kSub + sub) * S::kBlockK;
      copy<S::kBeside, S::kRows>(shared.x(stage) + sub * S::kXBytes, x_map, k, tile.row, stage);
    }
  }
  __device__ __forceinline__ void w(int stage, int block, const GemmTile& tile) const {
#pragma unroll
    for (int sub = 0; sub < S::kSub; ++sub) {
      const int k = (block * S::kSub + sub) * S::kBlockK;
      copy<S::kBelow, S::kCols>(shared.w(stage) + sub * S::kWBytes, w_map, k, tile.col, stage);
    }
  }

 private:
  // kRows rows from `row` on; where kBlocks blocks share them, this one's part of them to all.
  template <int kBlocks, int kRows>
  __device__ __forceinline__ void copy(uint32_t to, const CUtensorMap* map, int k, int row,
                                       int stage) const {
    if constexpr (kBlocks > 1) {
      constexpr uint16_t kAll = (1 << kBlocks) - 1;
      const int first = rank * (kRows / kBlocks);
      copy_box_to(to + first * 128, map, k, row + first, shared.full(stage), kAll);
    } else {
      copy_box(to, map, k, row, shared.full(stage));
    }
  }
};

// Products of 8 bits let the next kernel begin when their first tiles of w are on the way: at few
// rows two kernels that begin together wait for their instructions from the same cache. Those of 16
// bits, most of which the same kernel follows, fare better the other way.
template <class S>
inline constexpr bool kBeginsNextLater = S::kScales;

template <class S>
__device__ void produce(const GemmLoads<S>& load, const GemmArguments& args) {
  const GemmShared<S>& shared = load.shared;
  const int clusters = gridDim.x / S::kCluster, tiles = args.row_tiles * args.col_tiles;
  const int begin = blockIdx.x / S::kCluster;
  // The first round: w does not wait for the kernel before.
  const int ahead = min(args.k_blocks, S::kStages);
  const GemmTile first = tile_at<S>(args, begin, load.rank);
  for (int block = 0; block < ahead; ++block) {
    barrier_expect(shared.full(block), args.x_bytes + args.w_bytes);
    load.w(block, block, first);
  }
  if constexpr (kBeginsNextLater<S>) allow_next_kernel();
  wait_for_previous_kernel();
  for (int block = 0; block < ahead; ++block) load.x(block, block, first);

  RingPlace<S::kStages> place;
  place.skip(ahead);
  for (int t = begin; t < tiles; t += clusters) {
    const GemmTile tile = tile_at<S>(args, t, load.rank);
    for (int block = t == begin ? ahead : 0; block < args.k_blocks; ++block) {
      barrier_wait(shared.empty(place.stage), place.parity ^ 1);
      barrier_expect(shared.full(place.stage), args.x_bytes + args.w_bytes);
      load.x(place.stage, block, tile);
      load.w(place.stage, block, tile);
      place.advance();
    }
  }
}

// Elements of x as they are copied one by one: bits, or f32 rounded to TF32 as the copy engine
// does.
template <size_t kBytes>
struct CopiedElement {
  using Type = uint16_t;
};
template <>
struct CopiedElement<4> {
  using Type = float;
};
template <>
struct CopiedElement<1> {
  using Type = uint8_t;
};
__device__ __forceinline__ void store_element(uint32_t address, uint8_t bits) {
  store_shared_8_bits(address, bits);
}
__device__ __forceinline__ void store_element(uint32_t address, uint16_t bits) {
  store_shared_16_bits(address, bits);
}
__device__ __forceinline__ void store_element(uint32_t address, float value) {
  store_shared(address, tf32_rounded(value));
}

// The same where x is not 16-byte aligned, which the copy engine cannot take: the producer's warp
// copies x element by element, in the engine's layout. Slow; only views at odd addresses come here.
template <class S>
__device__ void produce_unaligned(const GemmLoads<S>& load, const GemmArguments& args) {
  const GemmShared<S>& shared = load.shared;
  const int clusters = gridDim.x / S::kCluster, lane = threadIdx.x % 32;
  using Element = typename CopiedElement<sizeof(typename S::T)>::Type;
  constexpr int kChunk = 16 / static_cast<int>(sizeof(Element));  // elements
  const auto* x = static_cast<const Element*>(args.x);
  if constexpr (kBeginsNextLater<S>) allow_next_kernel();
  wait_for_previous_kernel();
  RingPlace<S::kStages> place;
  for (int t = blockIdx.x / S::kCluster; t < args.row_tiles * args.col_tiles; t += clusters) {
    const GemmTile tile = tile_at<S>(args, t, load.rank);
    for (int block = 0; block < args.k_blocks; ++block) {
      barrier_wait(shared.empty(place.stage), place.parity ^ 1);
#pragma unroll 1
      for (int i = lane; i < S::kSub * S::kRows * S::kBlockK; i += 32) {
        const int within = i % S::kBlockK, row = i / S::kBlockK % S::kRows;
        const int sub = i / S::kBlockK / S::kRows;
        const int k = (block * S::kSub + sub) * S::kBlockK + within;
        const bool inside = tile.row + row < args.m && k < args.k;
        const int64_t at = static_cast<int64_t>(tile.row + row) * args.k + k;
        const int slot = (within / kChunk) ^ (row % 8);  // the 128-byte swizzle
        store_element(shared.x(place.stage) + sub * S::kXBytes + row * 128 + slot * 16 +
                          within % kChunk * static_cast<int>(sizeof(Element)),
                      inside ? x[at] : Element{0});
      }
      fence_shared_to_async();
      __syncwarp();
      if (lane == 0) {
        barrier_expect(shared.full(place.stage), args.w_bytes);
        load.w(place.stage, block, tile);
      }
      place.advance();
    }
  }
}

// Brings the residual into the boxes of the results, tile by tile, as soon as the results before
// have left them: a warp of its own, since the ring must not wait for that.
template <class S>
__device__ void produce_residual(const GemmShared<S>& shared, const GemmArguments& args,
                                 const CUtensorMap* map, int rank) {
  wait_for_previous_kernel();
  constexpr int kBoxes = S::kBoxWarps * S::kBoxesOfWarp, kAcross = S::kCols / S::kBoxCols;
  const int clusters = gridDim.x / S::kCluster, lane = threadIdx.x % 32;
  int count = 0;
  for (int t = blockIdx.x / S::kCluster; t < args.row_tiles * args.col_tiles; t += clusters) {
    const GemmTile tile = tile_at<S>(args, t, rank);
    constexpr int kTurns = S::kTogether ? 1 : 2;
    const int group = count % kTurns, round = count / kTurns;
    barrier_wait(shared.boxes_turn(group), (round + (group == 0 || S::kOwnBoxes)) % 2);
    // Boxes outside the matrix are not loaded.
    const auto place = [&](int i) {
      const int warp = i / S::kBoxesOfWarp, box = i % S::kBoxesOfWarp;
      return GemmTile{tile.row + warp / 4 * S::kGroupRows + box / kAcross * 64 + warp % 4 * 16,
                      tile.col + box % kAcross * S::kBoxCols};
    };
    const auto inside = [&](int i) {
      const GemmTile at = place(i);
      return i < kBoxes && at.row < args.m && at.col < args.n;
    };
    int boxes = 0;
#pragma unroll
    for (int i = 0; i < kBoxes; i += 32) boxes += __popc(__ballot_sync(~0u, inside(i + lane)));
    if (lane == 0) barrier_expect(shared.residual(group), boxes * S::kBoxBytes);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kBoxes; i += 32) {
      if (!inside(i + lane)) continue;
      const GemmTile at = place(i + lane);
      copy_box(shared.boxes(S::kOwnBoxes ? 4 * group : 0) + (i + lane) * S::kBoxBytes, map, at.col,
               at.row, shared.residual(group));
    }
    ++count;
  }
}

// ---- main loop ---------------------------------------------------------------------------------
// This warp has read a stage: signals the producers of all blocks that write into it.
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
// Together both see every stage.
template <class S>
__device__ __forceinline__ void multiply(GemmSums<S>& sums, const GemmShared<S>& shared,
                                         RingPlace<S::kStages>& place, int k_blocks, int group) {
  uint32_t previous = 0;
#pragma unroll 1
  for (int block = 0; block < k_blocks; ++block) {
    barrier_wait(shared.full(place.stage), place.parity);
    const uint32_t rows = S::kTogether ? group * S::kGroupRows * 128 : 0;
    const uint64_t x = tile_descriptor(shared.x(place.stage) + rows);
    const uint64_t w = tile_descriptor(shared.w(place.stage));
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < S::kSub * 4; ++step) {
      const int sub = step / 4, within = 2 * (step % 4);  // 32 bytes: 2 units of a descriptor
#pragma unroll
      for (int b = 0; b < S::kRowBlocks; ++b) {
        Wgmma<S::kCols, typename S::Operand>::run(
            sums[b], x + (sub * S::kXBytes + b * 64 * 128) / 16 + within,
            w + sub * S::kWBytes / 16 + within, step > 0 || block > 0);
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

// The same of f8: wgmma's sums, which are less exact than f32, go no further than 128 bytes of K;
// then they are added up in f32. Such a part takes registers beside the sums, so that of many
// columns it holds a half.
template <class S>
class PromotedSums {
 public:
  __device__ __forceinline__ PromotedSums(GemmSums<S>& sums, const GemmShared<S>& shared, int group)
      : sums_(sums), shared_(shared), rows_(S::kTogether ? group * S::kGroupRows * 128 : 0) {
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
      for (int i = 0; i < S::kCols / 2; ++i) sums_[b][i] = 0;
    }
  }

  __device__ __forceinline__ void run(RingPlace<S::kStages>& place, int k_blocks) const {
    if constexpr (kHalvesInTurns)
      halves_in_turns(place, k_blocks);
    else if constexpr (kInTwos)
      in_twos(place, k_blocks);
    else
      one_by_one(place, k_blocks);
  }

 private:
  // Of sums and parts, of the 232 that a thread has.
  static constexpr int kMostRegisters = 192, kOfSums = S::kRowBlocks * S::kCols / 2;
  // Registers for two parts: one is added while the other is multiplied.
  static constexpr bool kInTwos = S::kSub == 1 && 3 * kOfSums <= kMostRegisters;
  static constexpr bool kHalvesInTurns = S::kTogether && S::kSub == 1 && S::kCols == 192;
  static constexpr int kHalves = kHalvesInTurns || 2 * kOfSums > kMostRegisters ? 2 : 1;
  static constexpr int kPartCols = S::kCols / kHalves;
  using Part = float[S::kRowBlocks][kPartCols / 2];
  static_assert(kOfSums / kHalves * (kHalves + 1) <= kMostRegisters);

  // Until all but the last kLeft parts that were begun are done. Their sums must not be read
  // before: the compiler sees no such rule, and would let wgmma run one by one.
  template <int kLeft>
  static __device__ __forceinline__ void finish(Part& part) {
    wgmma_wait<kLeft>();
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
      for (int i = 0; i < kPartCols / 2; ++i) asm volatile("" : "+f"(part[b][i])::"memory");
    }
  }
  __device__ __forceinline__ void wait(const RingPlace<S::kStages>& place) const {
    barrier_wait(shared_.full(place.stage), place.parity);
  }
  __device__ __forceinline__ void begin(Part& part, int stage, int sub, int half = 0) const {
    const uint64_t x = tile_descriptor(shared_.x(stage) + rows_);
    const uint64_t w = tile_descriptor(shared_.w(stage) + half * kPartCols * 128);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int b = 0; b < S::kRowBlocks; ++b) {
        Wgmma<kPartCols, typename S::Operand>::run(
            part[b], x + (sub * S::kXBytes + b * 64 * 128) / 16 + 2 * step,
            w + sub * S::kWBytes / 16 + 2 * step, step > 0);
      }
    }
    wgmma_commit();
  }
  __device__ __forceinline__ void add(const Part& part, int half = 0) const {
#pragma unroll
    for (int b = 0; b < S::kRowBlocks; ++b) {
#pragma unroll
      for (int i = 0; i < kPartCols / 2; ++i) sums_[b][half * (kPartCols / 2) + i] += part[b][i];
    }
  }

  __device__ __forceinline__ void one_by_one(RingPlace<S::kStages>& place, int k_blocks) const {
#pragma unroll 1
    for (int block = 0; block < k_blocks; ++block) {
      wait(place);
#pragma unroll
      for (int i = 0; i < S::kSub * kHalves; ++i) {
        Part part;
        begin(part, place.stage, i / kHalves, i % kHalves);
        finish<0>(part);
        if (i == S::kSub * kHalves - 1) release<S>(shared_.empty(place.stage));
        add(part, i % kHalves);
      }
      place.advance();
    }
  }

  __device__ __forceinline__ void in_twos(RingPlace<S::kStages>& place, int k_blocks) const {
    Part even, odd;
    wait(place);
    begin(even, place.stage, 0);
    const auto step = [&](Part& next, Part& last) {
      const uint32_t read = shared_.empty(place.stage);
      place.advance();
      wait(place);
      begin(next, place.stage, 0);
      finish<1>(last);
      release<S>(read);
      add(last);
    };
    int block = 1;
#pragma unroll 1
    for (; block + 1 < k_blocks; block += 2) {
      step(odd, even);
      step(even, odd);
    }
    const bool one_more = block < k_blocks;
    if (one_more) step(odd, even);
    if (one_more)
      finish<0>(odd);
    else
      finish<0>(even);
    release<S>(shared_.empty(place.stage));
    if (one_more)
      add(odd);
    else
      add(even);
    place.advance();
  }

  // One half is added while the other is multiplied; none is in flight from one block of K to the
  // next, where the compiler would let wgmma run one by one.
  __device__ __forceinline__ void halves_in_turns(RingPlace<S::kStages>& place,
                                                  int k_blocks) const {
#pragma unroll 1
    for (int block = 0; block < k_blocks; ++block) {
      Part first, second;
      wait(place);
      begin(first, place.stage, 0, 0);
      begin(second, place.stage, 0, 1);
      finish<1>(first);
      add(first, 0);
      finish<0>(second);
      release<S>(shared_.empty(place.stage));
      add(second, 1);
      place.advance();
    }
  }

  GemmSums<S>& sums_;
  const GemmShared<S>& shared_;
  uint32_t rows_;
};

template <class S>
__device__ __forceinline__ void consume(const GemmShared<S>& shared, const GemmArguments& args,
                                        const CUtensorMap* y_map, int rank, int group) {
  const int warp = uniform(threadIdx.x / 32 % 4);
  const int tiles = args.row_tiles * args.col_tiles, clusters = gridDim.x / S::kCluster;
  const bool begins_later = !S::kTogether && group == 1;
  int t = blockIdx.x / S::kCluster + (begins_later ? clusters : 0);
  GemmTile tile = tile_at<S>(args, t, rank);
  GemmColumnPart<S> column_part;
  if (!args.constant_bias) wait_for_previous_kernel();
  if (t < tiles) column_part.read(args, tile.col);
  GemmFolded folded;
  if constexpr (S::kScales) folded.read(args.scales);
  GemmResultScale result_scale;  // constants, too
  if constexpr (S::kQuantizes) result_scale.read(args.quantized);
  wait_for_previous_kernel();  // it may still read y, or write the residual
  RingPlace<S::kStages> place;
  if (begins_later) place.skip(args.k_blocks);
  uint32_t turn_parity = group == 0;  // group 0 begins: a fresh barrier passes for parity 1
  uint32_t residual_parity = 0;
#pragma unroll 1
  while (t < tiles) {
    GemmColumns<S> columns;
    column_part.share(args, folded, shared.bias(group), group);
    columns.load(shared.bias(group));
    t += (S::kTogether ? 1 : 2) * clusters;
    const GemmTile next = tile_at<S>(args, t, rank);
    if (t < tiles) column_part.read(args, next.col);  // arrives while this one is multiplied
    if (S::kTogether) tile.row += group * S::kGroupRows;
    GemmRows<S> rows;
    rows.read(args, tile.row);
    GemmSums<S> sums;
    ResidualAhead<S> ahead;
    if constexpr (ResidualAhead<S>::kIs) ahead.read(args, tile);
    if (!S::kTogether) barrier_wait(shared.turn(group), turn_parity);
    if constexpr (S::kPromotes) {
      PromotedSums<S>(sums, shared, group).run(place, args.k_blocks);
      if (!S::kTogether && threadIdx.x % 128 == 0) barrier_arrive(shared.turn(1 - group));
    } else {
      multiply<S>(sums, shared, place, args.k_blocks, group);
    }
    if constexpr (S::kScales && !S::kIsF8) {
      if (__builtin_expect(args.scales.w_zeros != nullptr, 0)) subtract_zeros<S>(sums, args, tile);
    }
    if (!S::kTogether) place.skip(args.k_blocks);
    if (S::kBoxes && args.finish != GemmFinish::kAny) {
      const uint32_t boxes = shared.boxes(S::kTogether || S::kOwnBoxes ? 4 * group + warp : warp);
      const bool is_first = threadIdx.x % 32 == 0;
      if (args.finish == GemmFinish::kBoxesResidual) {  // which has waited for the boxes
        barrier_wait(shared.residual(S::kTogether ? 0 : group), residual_parity);
        residual_parity ^= 1;
      } else if (S::kOwnBoxes) {
        if (is_first) wait_for_reads_of_boxes();
        __syncwarp();
      } else if (!S::kTogether) {
        barrier_wait(shared.boxes_turn(group), turn_parity);
      }
      if (S::kScales && args.scales.folded)
        finish_in_boxes<S, S::kScales>(sums, columns, rows, args, result_scale, y_map, boxes, tile);
      else
        finish_in_boxes<S, false>(sums, columns, rows, args, result_scale, y_map, boxes, tile);
      if (is_first && (!S::kOwnBoxes || args.finish == GemmFinish::kBoxesResidual)) {
        wait_for_reads_of_boxes();
        barrier_arrive(shared.boxes_turn(S::kTogether ? 0 : S::kOwnBoxes ? group : 1 - group));
      }
      __syncwarp();
    } else {
      if constexpr (!S::kScales) add_bias<S>(sums, columns.bias);
      finish<S>(sums, columns, rows, args, result_scale, ahead, shared.strip(4 * group + warp),
                tile);
    }
    turn_parity ^= 1;
    tile = next;
  }
  if (S::kOwnBoxes && threadIdx.x % 32 == 0) wait_for_reads_of_boxes();
}

// ---- how a block begins ------------------------------------------------------------------------

/// The block's barriers, for all of the cluster; `init_more()` adds others. By one thread: by many
/// at once, a layer of 128 rows takes 4 % longer (measured).
template <class S, class InitMore>
__device__ __forceinline__ void begin_block(const GemmShared<S>& shared,
                                            const InitMore& init_more) {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < S::kStages; ++stage) {
      barrier_init(shared.full(stage), 1);
      barrier_init(shared.empty(stage), S::kCluster * (S::kTogether ? 8 : 4));  // per warp
    }
    for (int group = 0; group < 2; ++group) {
      barrier_init(shared.turn(group), 1);
      barrier_init(shared.boxes_turn(group), S::kBoxWarps);
      barrier_init(shared.residual(group), 1);
    }
    init_more();
    fence_barrier_init();
  }
  if constexpr (S::kCluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  if constexpr (!kBeginsNextLater<S>) allow_next_kernel();
}

template <class S>
__global__ void __launch_bounds__(kGemmThreads, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap x_map,
                const __grid_constant__ CUtensorMap w_map,
                const __grid_constant__ CUtensorMap y_map,
                const __grid_constant__ CUtensorMap residual_map,
                const __grid_constant__ GemmArguments args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ uint8_t dynamic[];
  const GemmShared<S> shared{(shared_address(dynamic) + 1023) & ~1023u};
  const int group = uniform(threadIdx.x / 128);
  const int rank = S::kCluster > 1 ? uniform(static_cast<int>(cluster_rank())) : 0;
  if (threadIdx.x == 256) {
    prefetch_map(&w_map);
    prefetch_map(&x_map);
    prefetch_map(&y_map);
  }
  begin_block<S>(shared, [] {});
  if (group == 2) {
    give_registers<40>();
    const GemmLoads<S> load{shared, &x_map, &w_map, rank};
    if (!args.x_aligned && threadIdx.x < 288) {
      produce_unaligned<S>(load, args);
    } else if (args.x_aligned && threadIdx.x == 256) {
      produce<S>(load, args);
    }
    if constexpr (S::kBoxes) {
      if (args.finish == GemmFinish::kBoxesResidual && threadIdx.x / 32 == 9)
        produce_residual<S>(shared, args, &residual_map, rank);
    }
    __syncwarp();
  } else {
    take_registers<232>();
    consume<S>(shared, args, &y_map, rank, group);
  }
  if constexpr (S::kCluster > 1) cluster_sync();  // the other block may still arrive and write here
#else
  __trap();  // hopper_kernels_usable() is false for such code
#endif
}

}  // namespace vernier::backend::cuda
