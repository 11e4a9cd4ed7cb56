// The f32 matrix product on CUDA cores: device code of linear_f32.cu, contract in linear_f32.h.
// C++17.
//
// Blocks stay and take tile after tile. Producer warps fill a ring of stages, each a stage of its
// own in turn, through the copy engine: x in rows of 32 steps of k, w in panels. Rows of x that the
// engine cannot take go through registers to the same places. The others each hold a part of the
// tile in registers, 8 × 4 threads of kTM × kTN sums, and read the operands of the next steps of k
// while they multiply, those of x four steps at a time; nothing but the stages' barriers keeps them
// together, so that the end of one warp's tile runs beside another's products. What goes through
// registers is ordered by named barriers beside the stages' own: compute-sanitizer's racecheck
// knows their order, and not the one that an mbarrier gives to plain stores.
#pragma once
#include "backend/cuda/device/activation.cuh"
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/device/hopper.cuh"
#include "backend/cuda/kernels/linear/linear_f32.h"

namespace vernier::backend::cuda {

struct LinearF32Arguments {
  CUtensorMap x_map;
  LinearF32 p;
  int padded_k, panels;  // of the packed weight
  int row_tiles, col_tiles;
  bool x_aligned;  // rows of x: whole 16 bytes, aligned
  bool vectors;    // y and the residual: f32, rows of whole 16 bytes, aligned
};

/// kTM × kTN sums per thread, kWarpRows × kWarpCols warps, operands read kAhead steps ahead,
/// kBlocks blocks per multiprocessor.
template <int kTM_, int kTN_, int kWarpRows_, int kWarpCols_, int kStages_, int kAhead_,
          int kBlocks_>
struct F32Shape {
  static constexpr int kTM = kTM_, kTN = kTN_, kWarpRows = kWarpRows_, kWarpCols = kWarpCols_,
                       kStages = kStages_, kAhead = kAhead_, kBlocks = kBlocks_;
  static constexpr int kBlockK = kPanelSteps;  // steps of k per stage
  static constexpr int kWarps = kWarpRows * kWarpCols, kProducers = 4,
                       kThreads = 32 * (kWarps + kProducers);
  // Of many sums the registers are shared out anew, which goes by groups of four warps.
  static constexpr bool kManySums = kTM * kTN > 48;
  static constexpr int kFewRegisters = 56, kManyRegisters = kWarps == 8 ? 224 : 200;
  static constexpr int kRows = 8 * kTM * kWarpRows, kCols = 4 * kTN * kWarpCols;
  static constexpr int kPanels = kCols / kPanelCols;
  // A stage: x as [kRows, kBlockK], swizzled, w as [kPanels, kBlockK, kPanelCols].
  static constexpr int kXElems = kRows * kBlockK;
  static constexpr int kPanelElems = kBlockK * kPanelCols;
  static constexpr int kStageElems = kXElems + kPanels * kPanelElems;
  // A warp's strip: 8 rows of results not yet stored; the step keeps rows in different banks.
  static constexpr int kStripStep = 4 * kTN + 8, kStripElems = 8 * kStripStep;
  static constexpr int kStripsAt = kStages * kStageElems;
  static constexpr int kBarriersAt = kStripsAt + kWarps * kStripElems;
  static constexpr uint32_t kAlignment = 1024;  // of a stage, for the swizzle
  static constexpr uint32_t kSharedBytes = kBarriersAt * 4 + 2 * kStages * 8 + kAlignment;
  // Groups of four steps of x. Read one step ahead: one, each row of which makes way for its next
  // behind its last product; else the next group waits beside it.
  static constexpr bool kInPlace = kAhead == 1;
  static constexpr int kGroups = kBlockK / 4, kGroupsHeld = kInPlace ? 1 : 2;
  // The step at which the first operand of the next stage is read.
  static constexpr int kCrossing = kInPlace || kAhead > 4 ? kBlockK - kAhead : kBlockK - 4;
  static_assert(kTN % 4 == 0 && kBlockK % (kAhead + 1) == 0 && kBlockK * 4 == 128);
  // A producer waits for a stage by parity: none may come a whole round before another.
  static_assert(kStages >= kProducers);
  static_assert(2 * kStages < 16, "more named barriers than a block has");
  static_assert(!kManySums || kWarps == 8 || (kWarps == 4 && kBlocks == 2));
  static_assert(kBarriersAt % 2 == 0 && kStageElems * 4 % kAlignment == 0);
  static_assert((kSharedBytes + 1024) * kBlocks <= 233472, "more than a multiprocessor has");
};

template <class S>
struct F32Ring {
  float* shared;
  int stage = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == S::kStages) stage = 0, parity ^= 1;
  }
  __device__ __forceinline__ float* x() const { return shared + stage * S::kStageElems; }
  __device__ __forceinline__ float* w() const { return x() + S::kXElems; }
  __device__ __forceinline__ uint32_t full() const {
    return shared_address(shared + S::kBarriersAt) + stage * 8;
  }
  __device__ __forceinline__ uint32_t empty() const { return full() + S::kStages * 8; }

  // Named barriers of a stage, of the warp that fills it and of all that multiply. Whoever waits
  // goes on when the others have arrived.
  static constexpr int kTogether = 32 * (S::kWarps + 1);
  __device__ __forceinline__ static void stored(int at) { give(1 + at); }
  __device__ __forceinline__ static void wait_for_stores(int at) { wait(1 + at); }
  __device__ __forceinline__ static void read(int at) { give(1 + S::kStages + at); }
  __device__ __forceinline__ static void wait_for_reads(int at) { wait(1 + S::kStages + at); }

 private:
  __device__ __forceinline__ static void give(int id) {
    __syncwarp();
    turn_give<kTogether>(id);
  }
  __device__ __forceinline__ static void wait(int id) {
    __syncwarp();
    turn_wait<kTogether>(id);
  }
};

struct F32Tile {
  int64_t row;
  int col;
};
template <class S>
__device__ __forceinline__ F32Tile f32_tile(const LinearF32Arguments& args, int index) {
  return {static_cast<int64_t>(index / args.col_tiles) * S::kRows,
          index % args.col_tiles * S::kCols};
}

// ---- the producers -----------------------------------------------------------------------------

/// The stage's part of w, the panels that there are. By the whole warp.
template <class S>
__device__ __forceinline__ void f32_load_w(const F32Ring<S>& ring, const LinearF32Arguments& args,
                                           const F32Tile& tile, int k0) {
  const int panel = threadIdx.x % 32, at = tile.col / kPanelCols + panel;
  if (panel >= S::kPanels || at >= args.panels) return;
  const float* src = args.p.w + (static_cast<int64_t>(at) * args.padded_k + k0) * kPanelCols;
  copy_bytes(shared_address(ring.w() + panel * S::kPanelElems), src, S::kPanelElems * 4,
             ring.full());
}

/// A thread's part of 16 rows of x and 32 steps of k: one row, 4 steps out of each 8. Beyond x: 0.
struct F32Part {
  static constexpr int kFours = kPanelSteps / 8;
  float4 v[kFours];
  __device__ __forceinline__ static int row() { return threadIdx.x % 16; }
  __device__ __forceinline__ static int four(int i) { return 2 * i + threadIdx.x % 32 / 16; }

  __device__ __forceinline__ void load(const LinearF32Arguments& args, int64_t row0, int k0) {
    const int64_t x_row = row0 + row();
    const float* src = args.p.x + x_row * args.p.k;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const int k = k0 + 4 * four(i);
      const int count = x_row < args.p.m ? args.p.k - k : 0;
      v[i].x = count > 0 ? src[k] : 0.0f;
      v[i].y = count > 1 ? src[k + 1] : 0.0f;
      v[i].z = count > 2 ? src[k + 2] : 0.0f;
      v[i].w = count > 3 ? src[k + 3] : 0.0f;
    }
  }
  /// To the 16 rows that begin at `dst` in a stage, or as many as it has.
  template <class S>
  __device__ __forceinline__ void store(float* dst) const {
    if (S::kRows < 16 && row() >= S::kRows) return;
#pragma unroll
    for (int i = 0; i < kFours; ++i)
      store_shared_four(box_place(shared_address(dst), row(), four(i)), v[i]);
  }
};

/// One stage. `first`: this warp's first, where w does not wait for the kernel before. `refill`: it
/// held another before.
template <class S>
__device__ __forceinline__ void f32_fill(const F32Ring<S>& ring, const LinearF32Arguments& args,
                                         const F32Tile& tile, int k0, bool first, bool refill) {
  const bool leader = threadIdx.x % 32 == 0;
  const auto begin = [&] {
    const int panels = min(S::kPanels, args.panels - tile.col / kPanelCols);
    const int elems = panels * S::kPanelElems + (args.x_aligned ? S::kXElems : 0);
    barrier_wait(ring.empty(), ring.parity ^ 1);
    if (leader) barrier_expect(ring.full(), static_cast<uint32_t>(elems * 4));
    __syncwarp();
    f32_load_w<S>(ring, args, tile, k0);
  };
  if (first || args.x_aligned) begin();
  if (first) wait_for_previous_kernel();
  if (args.x_aligned) {
    if (leader)
      copy_box(shared_address(ring.x()), &args.x_map, k0, static_cast<int>(tile.row), ring.full());
  } else {
    constexpr int kParts = S::kRows < 16 ? 1 : S::kRows / 16;
#pragma unroll 1
    for (int part = 0; part < kParts; ++part) {
      F32Part x;
      x.load(args, tile.row + part * 16, k0);
      if (part == 0 && !first) begin();
      if (part == 0 && refill) ring.wait_for_reads(ring.stage);
      x.template store<S>(ring.x() + part * 16 * S::kBlockK);
    }
    __syncwarp();
    ring.stored(ring.stage);
  }
  if (leader) barrier_arrive(ring.full());
}

template <class S>
__device__ void f32_produce(F32Ring<S> ring, int producer, const LinearF32Arguments& args) {
  bool first = true;
  int turn = 0, fresh = S::kStages;  // stages that nobody has filled yet
  const auto advance = [&] {
    turn = turn + 1 == S::kProducers ? 0 : turn + 1;
    if (fresh > 0) --fresh;
    ring.advance();
  };
  for (int t = blockIdx.x; t < args.row_tiles * args.col_tiles; t += gridDim.x) {
    const F32Tile tile = f32_tile<S>(args, t);
    for (int k0 = 0; k0 < args.padded_k; k0 += S::kBlockK) {
      if (turn == producer) {
        f32_fill<S>(ring, args, tile, k0, first, fresh == 0);
        first = false;
      }
      advance();
    }
  }
  if (first) wait_for_previous_kernel();
  allow_next_kernel();
  // No barrier is left with threads that have arrived: each producer waits for the reads of the
  // last stages that it filled itself. Another could be ahead of a refill and take its turn.
  turn = (turn + S::kStages * (S::kProducers - 1)) % S::kProducers;
  for (int i = 0; i < S::kStages && !args.x_aligned; ++i) {
    if (turn == producer && fresh == 0) ring.wait_for_reads(ring.stage);
    advance();
  }
}

// ---- the products ------------------------------------------------------------------------------

/// kCount elements, fours of neighbors `step` apart.
template <int kCount>
__device__ __forceinline__ void load_fours(float (&v)[kCount], const float* src, int step) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(src + i / 4 * step);
    v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
  }
}

/// Where a thread's sums are: rows row + row_lane + 8·i, fours of columns from col + 4·col_lane on,
/// 16 apart. Neighbouring threads in pairs beside each other: then 16 threads read 128 different
/// bytes of x at once.
template <class S>
struct F32Place {
  int row_lane, col_lane, row, col;
  __device__ explicit F32Place(int warp) {
    const int lane = threadIdx.x % 32;
    row_lane = lane / 2 % 8;
    col_lane = lane % 2 + lane / 16 * 2;
    row = warp / S::kWarpCols * 8 * S::kTM;
    col = warp % S::kWarpCols * 4 * S::kTN;
  }
  /// Four steps of x, of row i.
  __device__ const float* x(const F32Ring<S>& ring, int group, int i) const {
    return ring.x() + (row + row_lane + 8 * i) * S::kBlockK + (group ^ row_lane) * 4;
  }
  __device__ const float* w(const F32Ring<S>& ring) const {
    return ring.w() + col / kPanelCols * S::kPanelElems + col_lane * 4;
  }
};

/// y of four neighboring columns, `count` at the end of a row, from element `at` of y.
__device__ __forceinline__ void f32_finish(float (&v)[4], int64_t at, int count,
                                           const LinearF32Arguments& args) {
  const LinearF32& p = args.p;
  if (p.activation == epilogue::kGeluErf)
    epilogue::for_each(v, [](float x) { return epilogue::gelu_erf<8>(x); });
  else
    epilogue::activate(v, p.activation);
  if (args.vectors) {
    if (p.residual != nullptr) {
      float r[4];
      load_fours(r, static_cast<const float*>(p.residual) + at, 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] += r[i];
    }
    *reinterpret_cast<float4*>(static_cast<float*>(p.y) + at) = make_float4(v[0], v[1], v[2], v[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i >= count) break;
    if (p.residual != nullptr) v[i] += load_f32(p.residual_type, p.residual, at + i);
    store_f32(p.y_type, p.y, at + i, v[i]);
  }
}

/// How results leave: a warp takes 8 rows at a time through its strip, a thread four columns of one
/// of them; `kChunks` times for all.
template <class S>
struct F32Finish {
  static constexpr int kChunks = S::kTN / 4, kBiases = 32 % S::kTN == 0 ? 1 : kChunks;
  float* strip;
  float bias[kBiases][4];

  __device__ __forceinline__ static int row(int chunk) {
    return (static_cast<int>(threadIdx.x) % 32 + 32 * chunk) / S::kTN;
  }
  __device__ __forceinline__ static int col(int chunk) {
    return (static_cast<int>(threadIdx.x) % 32 + 32 * chunk) % S::kTN * 4;
  }
  /// Ahead of the products, so that no warp waits for it. `first`: the warp's column.
  __device__ __forceinline__ void load_bias(const LinearF32& p, int first) {
#pragma unroll
    for (int i = 0; i < kBiases; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int at = first + col(i) + j;
        bias[i][j] = p.bias != nullptr && at < p.n ? load_f32(p.bias_type, p.bias, at) : 0.0f;
      }
    }
  }
  /// y = act(sums + bias) + residual for the warp's part of a tile.
  __device__ __forceinline__ void store(const float (&sums)[S::kTM][S::kTN],
                                        const F32Place<S>& place, const F32Tile& tile,
                                        const LinearF32Arguments& args) const {
    const LinearF32& p = args.p;
    float* out = strip + place.row_lane * S::kStripStep + place.col_lane * 4;
#pragma unroll 1
    for (int slice = 0; slice < S::kTM; ++slice) {
#pragma unroll
      for (int i = 0; i < S::kTM; ++i) {
        if (i != slice) continue;
#pragma unroll
        for (int j = 0; j < S::kTN; j += 4)
          *reinterpret_cast<float4*>(out + 4 * j) =
              make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
      }
      __syncwarp();
      const int64_t first = tile.row + place.row + 8 * slice;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const int64_t y_row = first + row(chunk);
        const int y_col = tile.col + place.col + col(chunk);
        if (y_row >= p.m || y_col >= p.n) continue;
        float v[4];
        load_fours(v, strip + row(chunk) * S::kStripStep + col(chunk), 0);
        if (p.bias != nullptr) {
#pragma unroll
          for (int j = 0; j < 4; ++j) v[j] += bias[kBiases == 1 ? 0 : chunk][j];
        }
        f32_finish(v, y_row * p.n + y_col, min(4, p.n - y_col), args);
      }
      __syncwarp();
    }
  }
};

template <class S>
__device__ void f32_multiply(F32Ring<S> ring, int warp, const LinearF32Arguments& args) {
  constexpr int kBuffers = S::kAhead + 1;
  const F32Place<S> place(warp);
  const int tiles = args.row_tiles * args.col_tiles, step = gridDim.x;
  F32Finish<S> finish{ring.shared + S::kStripsAt + warp * S::kStripElems, {}};
  float a[S::kGroupsHeld][S::kTM][4], b[kBuffers][S::kTN];
  const float* w = place.w(ring);
  const auto load_x = [&](int group, int i) {
    load_fours(a[group % S::kGroupsHeld][i], place.x(ring, group % S::kGroups, i), 0);
  };
  const auto load_w = [&](int k) {
    load_fours(b[k % kBuffers], w + k % S::kBlockK * kPanelCols, S::kPanelElems);
  };
  const auto wait_for_stage = [&] {
    barrier_wait(ring.full(), ring.parity);
    if (!args.x_aligned) ring.wait_for_stores(ring.stage);
  };
  wait_for_previous_kernel();
  wait_for_stage();
#pragma unroll
  for (int i = 0; i < S::kTM; ++i) load_x(0, i);
#pragma unroll
  for (int k = 0; k < S::kAhead; ++k) load_w(k);
#pragma unroll 1
  for (int t = blockIdx.x; t < tiles; t += step) {
    const F32Tile tile = f32_tile<S>(args, t);
    finish.load_bias(args.p, tile.col + place.col);
    float sums[S::kTM][S::kTN] = {};
#pragma unroll 1
    for (int k0 = 0; k0 < args.padded_k; k0 += S::kBlockK) {
      const uint32_t read = ring.empty();
      const int stage = ring.stage;
#pragma unroll
      for (int k = 0; k < S::kBlockK; ++k) {
        if (k == S::kCrossing) {
          ring.advance();
          // Behind the last stage of all the reads ahead find unused values.
          if (k0 + S::kBlockK < args.padded_k || t + step < tiles) wait_for_stage();
        }
        if (k + S::kAhead == S::kBlockK) w = place.w(ring);
        load_w(k + S::kAhead);
        const int group = k / 4;
        if (!S::kInPlace && k % 4 == 0) {
#pragma unroll
          for (int i = 0; i < S::kTM; ++i) load_x(group + 1, i);
        }
#pragma unroll
        for (int i = 0; i < S::kTM; ++i) {
          const float x = a[group % S::kGroupsHeld][i][k % 4];
#pragma unroll
          for (int j = 0; j < S::kTN; ++j) sums[i][j] = fmaf(x, b[k % kBuffers][j], sums[i][j]);
          if (S::kInPlace && k % 4 == 3) load_x(group + 1, i);
        }
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(read);
      if (!args.x_aligned) ring.read(stage);
    }
    finish.store(sums, place, tile, args);
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    linear_f32_kernel(const __grid_constant__ LinearF32Arguments args) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  extern __shared__ uint8_t dynamic[];
  const uint32_t before = -shared_address(dynamic) % S::kAlignment;
  F32Ring<S> ring{reinterpret_cast<float*>(dynamic + before)};
  if (threadIdx.x < S::kStages) {
    const uint32_t full = ring.full() + threadIdx.x * 8;
    barrier_init(full, 2);  // w's bytes are announced, x is there
    barrier_init(full + S::kStages * 8, S::kWarps);
    fence_barrier_init();
  }
  __syncthreads();
  const int warp = threadIdx.x / 32;
  if (warp >= S::kWarps) {
    if constexpr (S::kManySums) give_registers<S::kFewRegisters>();
    f32_produce<S>(ring, warp - S::kWarps, args);
  } else {
    if constexpr (S::kManySums) take_registers<S::kManyRegisters>();
    f32_multiply<S>(ring, warp, args);
  }
#endif
}

}  // namespace vernier::backend::cuda
