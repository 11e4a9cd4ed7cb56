// MatMul of 16-bit matrices whose rows are runs of 8 aligned elements: tiles of 128 × 128, k in
// steps of 64 that are copied ahead of the products, also those of a block's next tile, so that
// short sums run at the memory's speed. Bits as those of device/product.cuh: m16n8k16 products, k
// upwards. Contract in matmul.h. C++17.
#pragma once
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/kernels/linear/matmul.h"

namespace vernier::backend::cuda::runs {

inline constexpr int kRows = 128, kCols = 128, kDepth = 64, kStages = 2, kThreads = 256;
inline constexpr int kWarpRows = 64, kWarpCols = 32;  // 2 × 4 warps
inline constexpr int kChunk = 8;                      // elements of 16 bytes
inline constexpr uint32_t kOperandBytes = kRows * kDepth * 2, kStageBytes = 2 * kOperandBytes;
static_assert(kRows == kCols);

struct Launch {
  ProductLaunch p;
  uint32_t row_tiles, col_tiles, tiles;  // `tiles`: of all batches; below 2^31
};

// A tile: where its rows of a, its columns of b and its elements of c begin, and what is left of
// both.
struct Tile {
  int64_t a, b, c;
  int rows, cols;
};
template <bool kAlongK>
__device__ inline Tile tile_at(const Launch& launch, uint32_t index) {
  const ProductLaunch& p = launch.p;
  const uint32_t row_tile = index / launch.col_tiles;
  uint32_t batch = row_tile / launch.row_tiles;
  const int64_t row = static_cast<int64_t>(row_tile - batch * launch.row_tiles) * kRows,
                col = static_cast<int64_t>(index - row_tile * launch.col_tiles) * kCols;
  const auto left = [](int64_t size, int64_t at, int tile) {
    return static_cast<int>(size - at < tile ? size - at : tile);
  };
  Tile tile{row * p.a.row_step, kAlongK ? col * p.b.col_step : col, row * p.c.row_step + col,
            left(p.rows, row, kRows), left(p.cols, col, kCols)};
#pragma unroll 1
  for (int axis = p.batch_axes - 1; axis >= 0; --axis) {
    const auto size = static_cast<uint32_t>(p.batch[axis]);
    const int64_t at = batch % size;
    batch /= size;
    tile.a += at * p.a.batch_step[axis];
    tile.b += at * p.b.batch_step[axis];
    tile.c += at * p.c.batch_step[axis];
  }
  return tile;
}

// Where a run of an operand lies in shared memory: [128 rows or columns][64 k] where neighboring k
// are neighbors, else [64 k][128 columns]. Runs of 8 rows in one column lie in different banks.
template <bool kAlongK>
__device__ __forceinline__ uint32_t place(int row, int run) {
  return static_cast<uint32_t>(row * (kAlongK ? kDepth : kCols) * 2 + (run ^ (row & 7)) * 16);
}

// A step of an operand, from k on; what is missing becomes 0. `left`: rows of a or columns of b.
template <bool kAlongK, class T>
__device__ __forceinline__ void load(uint32_t to, const T* from, int64_t step, int left, int k,
                                     int k_left) {
  constexpr int kRunsOfRow = (kAlongK ? kDepth : kCols) / kChunk;
  const int rows = kAlongK ? left : k_left, elements = kAlongK ? k_left : left;
  const T* const begin = from + (kAlongK ? k : k * step);
#pragma unroll
  for (int i = 0; i < kRows * kDepth / kChunk / kThreads; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads, row = at / kRunsOfRow,
              run = at % kRunsOfRow;
    const bool inside = row < rows && run * kChunk < elements;
    copy_16_async(to + place<kAlongK>(row, run), inside ? begin + row * step + run * kChunk : from,
                  inside ? 16 : 0);
  }
}

// Lane t of four has word t of four runs of 16 bytes; then the words of run t.
__device__ __forceinline__ void transpose_words(uint32_t (&w)[4]) {
  const int lane = static_cast<int>(threadIdx.x);
  const bool odd = lane % 2 != 0, high = lane / 2 % 2 != 0;
  const uint32_t a = __shfl_xor_sync(~0u, odd ? w[0] : w[1], 1),
                 b = __shfl_xor_sync(~0u, odd ? w[2] : w[3], 1);
  // Words 2·(t / 2) and the next one of runs t % 2 and 2 + t % 2.
  const uint32_t low0 = odd ? a : w[0], low1 = odd ? w[1] : a, high0 = odd ? b : w[2],
                 high1 = odd ? w[3] : b;
  const uint32_t c = __shfl_xor_sync(~0u, high ? low0 : high0, 2),
                 d = __shfl_xor_sync(~0u, high ? low1 : high1, 2);
  w[0] = high ? c : low0, w[1] = high ? d : low1;
  w[2] = high ? high0 : c, w[3] = high ? high1 : d;
}

// By one instruction: of an assignment the compiler makes four.
__device__ __forceinline__ void store_run(void* to, const uint32_t (&w)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
}

template <class T, bool kAlongK>
__global__ void __launch_bounds__(kThreads, 2)
    multiply_runs(const __grid_constant__ Launch launch) {
  extern __shared__ __align__(128) unsigned char dynamic[];
  const ProductLaunch& p = launch.p;
  const uint32_t base = shared_address(dynamic);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / 4 * kWarpRows, warp_col = warp % 4 * kWarpCols;
  const T *const a = reinterpret_cast<const T*>(p.a.data), *const b =
                                                               reinterpret_cast<const T*>(p.b.data);

  uint32_t next_index = blockIdx.x;
  int next_k = 0;
  Tile next = tile_at<kAlongK>(launch, next_index);
  const auto load_next = [&](uint32_t stage) {
    if (next_index < launch.tiles) {
      const uint32_t to = base + stage * kStageBytes;
      load<true>(to, a + next.a, p.a.row_step, next.rows, next_k, p.k - next_k);
      load<kAlongK>(to + kOperandBytes, b + next.b, kAlongK ? p.b.col_step : p.b.row_step,
                    next.cols, next_k, p.k - next_k);
      next_k += kDepth;
      if (next_k >= p.k) {
        next_k = 0;
        next_index += gridDim.x;
        if (next_index < launch.tiles) next = tile_at<kAlongK>(launch, next_index);
      }
    }
    commit_copies();
  };
  load_next(0);
  uint32_t stage = 0;
  for (uint32_t index = blockIdx.x; index < launch.tiles; index += gridDim.x) {
    float sums[kWarpRows / 16][kWarpCols / 8][4] = {};
    int k_left = p.k;
    do {
      load_next(1 - stage);  // whose last readers have met below
      wait_for_copies_but_last();
      __syncthreads();
      const uint32_t from_a = base + stage * kStageBytes, from_b = from_a + kOperandBytes;
#pragma unroll
      for (int k = 0; k < kDepth; k += 16) {
        uint32_t right[kWarpCols / 16][4];
#pragma unroll
        for (int j = 0; j < kWarpCols / 16; ++j) {
          const int col = warp_col + 16 * j;
          if constexpr (kAlongK)
            load_matrices(right[j], from_b + place<true>(col + lane / 16 * 8 + lane % 8,
                                                         k / 8 + lane / 8 % 2));
          else
            load_matrices_transposed(right[j],
                                     from_b + place<false>(k + lane % 16, col / 8 + lane / 16));
        }
#pragma unroll
        for (int i = 0; i < kWarpRows / 16; ++i) {
          uint32_t left[4];
          load_matrices(left,
                        from_a + place<true>(warp_row + 16 * i + lane % 16, k / 8 + lane / 16));
#pragma unroll
          for (int j = 0; j < kWarpCols / 8; ++j)
            multiply_add<T>(sums[i][j], left, right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
      }
      __syncthreads();
      stage = 1 - stage;
      k_left -= kDepth;
    } while (k_left > 0);
    const Tile tile = tile_at<kAlongK>(launch, index);
    const int row = warp_row + lane / 4, col = warp_col + lane % 4 * kChunk;
    T* const c = reinterpret_cast<T*>(p.c.data) + tile.c + col;
#pragma unroll
    for (int i = 0; i < kWarpRows / 8; ++i) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* pair = sums[i / 2][j] + i % 2 * 2;
        words[j] = pack<T>(pair[0] * p.alpha, pair[1] * p.alpha);
      }
      transpose_words(words);
      if (row + 8 * i < tile.rows && col < tile.cols)
        store_run(c + (row + 8 * i) * p.c.row_step, words);
    }
  }
}

}  // namespace vernier::backend::cuda::runs
