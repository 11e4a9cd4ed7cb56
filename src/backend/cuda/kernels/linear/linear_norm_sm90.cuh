// LayerNorm in the epilogue of the sm_90a matrix product: device code of linear_norm_sm90.cu,
// contract in linear_norm_sm90.h. C++17.
//
// The blocks of a cluster lie side by side over 128 whole rows and share x. Each adds bias and
// residual to its sums in registers, and sends what a row's columns sum up to into the shared
// memory of all: first their values, then, without the mean, their squares. Nothing but the
// residual comes in and nothing but y goes out.
//
// A row's sums run as those of a PackedLayout in parts (norm_packed.cuh): over pairs of columns
// that are 64 apart, over the four pairs of eight columns, over eight such eights, over the parts.
#pragma once
#include "backend/cuda/device/row_norm.cuh"
#include "backend/cuda/kernels/linear/gemm_sm90.cuh"
#include "backend/cuda/kernels/linear/linear_norm_sm90.h"

namespace vernier::backend::cuda {

// ---- in the product's epilogue -----------------------------------------------------------------

struct LinearNormArguments {
  GemmArguments product;
  const float *scale, *shift;
  float epsilon;
};

template <class T_, int kBlocks_, int kCols_, int kStages_>
struct LinearNormShape : GemmShape<T_, 1, kCols_, 1, kStages_, 1, true, kBlocks_> {
  using Gemm = GemmShape<T_, 1, kCols_, 1, kStages_, 1, true, kBlocks_>;
  static constexpr int kBlocks = kBlocks_, kRowCols = kBlocks * kCols_;
  static constexpr int kParts = kBlocks == 1 ? 2 : 1;  // of a row's two or four, in a block
  static_assert(kBlocks <= 4 && kCols_ % (64 * kParts) == 0);
  // Bias, scale and shift. Of a warp: from each block, for its 8 pairs of rows, their sums, then
  // the sums of squares with what the mean leaves; a barrier for each.
  static constexpr uint32_t kParameterBytes = 3 * kCols_ * 4;
  static constexpr uint32_t kSumsBytes = kBlocks * 8 * 8, kSquaresBytes = kBlocks * 8 * 16;
  static constexpr uint32_t kNormBytes = kParameterBytes + 8 * (kSumsBytes + kSquaresBytes + 2 * 8);
  static constexpr uint32_t kAllSharedBytes = Gemm::kSharedBytes + kNormBytes;
  static_assert(kAllSharedBytes <= 232448, "more than a block can have");
};

template <class S>
struct LinearNormShared : GemmShared<typename S::Gemm> {
  __device__ uint32_t parameters() const { return this->residual(2); }
  __device__ uint32_t sums(int warp) const {
    return parameters() + S::kParameterBytes + warp * S::kSumsBytes;
  }
  __device__ uint32_t squares(int warp) const { return sums(8) + warp * S::kSquaresBytes; }
  __device__ uint32_t sums_there(int warp) const { return squares(8) + warp * 8; }
  __device__ uint32_t squares_there(int warp) const { return sums_there(8) + warp * 8; }
};

// Who keeps the parameters: two warps of the producers', while the others multiply.
constexpr int kKeepers = 64, kKept = 3;  // threads; a barrier of theirs and the consumers'
/// Bias, scale and shift of this block's columns.
template <class S>
__device__ __forceinline__ void keep_parameters(const LinearNormArguments& args, uint32_t to,
                                                int first) {
  const GemmArguments& product = args.product;
  if (!product.constant_bias) wait_for_previous_kernel();
  for (int i = threadIdx.x % kKeepers; i < S::kCols; i += kKeepers) {
    const int col = first + i;
    float bias = 0;
    if (product.bias != nullptr) {
      bias = product.bias_type == GemmType::kF32
                 ? static_cast<const float*>(product.bias)[col]
                 : static_cast<float>(static_cast<const typename S::T*>(product.bias)[col]);
    }
    store_shared(to + i * 4, bias + 0.0f);
    store_shared(to + (S::kCols + i) * 4, args.scale[col]);
    store_shared(to + (2 * S::kCols + i) * 4, args.shift != nullptr ? args.shift[col] : -0.0f);
  }
  turn_give<256 + kKeepers>(kKept);
}

/// The sum over the four threads of eight columns, then over the eight eights: every thread gets
/// it. Each thread first comes to have two of the eights alone.
__device__ __forceinline__ float sum_of_eights(const float (&eights)[8]) {
  const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
  float four[4], two[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float low = eights[i / 2 * 4 + i % 2], high = eights[i / 2 * 4 + i % 2 + 2];
    four[i] = (odd ? high : low) + __shfl_xor_sync(~0u, odd ? low : high, 1);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
    two[i] =
        (upper ? four[i + 2] : four[i]) + __shfl_xor_sync(~0u, upper ? four[i] : four[i + 2], 2);
  float sum = two[0] + two[1];
  sum += __shfl_xor_sync(~0u, sum, 1);
  return sum + __shfl_xor_sync(~0u, sum, 2);
}

/// Neighbours first.
template <int kCount>
__device__ __forceinline__ float by_halves(float (&v)[kCount]) {
#pragma unroll
  for (int step = 1; step < kCount; step *= 2) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2 * step) v[i] += v[i + step];
  }
  return v[0];
}

/// A warp's 16 rows of a tile. Thread `lane` has rows lane/4 and lane/4 + 8.
template <class S>
struct LinearNormRows {
  using T = typename S::T;
  static constexpr int kEights = S::kBoxCols / 8, kAcross = S::kCols / S::kBoxCols;
  GemmSums<S>& sums;
  const LinearNormShared<S>& shared;
  uint32_t boxes, parameters;
  int warp, rank;

  /// sums = T(sums + bias) + residual, which lies in the boxes.
  __device__ __forceinline__ void add_operands() {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int c = 0; c < kAcross; ++c) {
#pragma unroll
      for (int j = 0; j < kEights; j += 2) {
        uint32_t pairs[4];
        load_matrices(pairs, box_place(boxes + c * S::kBoxBytes, lane % 16, j + lane / 16));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int eight = kEights * c + j + i;
          const float2 bias = load_shared_pair(parameters + (8 * eight + 2 * (lane % 4)) * 4);
          const float2 low = widen_pair<T>(pairs[2 * i]), high = widen_pair<T>(pairs[2 * i + 1]);
          float* d = sums[0] + 4 * eight;
          const float2 a = widen_pair<T>(narrow_pair<T>(d[0] + bias.x, d[1] + bias.y)),
                       b = widen_pair<T>(narrow_pair<T>(d[2] + bias.x, d[3] + bias.y));
          d[0] = a.x + low.x, d[1] = a.y + low.y;
          d[2] = b.x + high.x, d[3] = b.y + high.y;
        }
      }
    }
  }

  /// v become sums over the rows, of this block's parts of them: they meet at `meeting` in each
  /// block of the cluster, and there arrive at its `barrier`.
  template <int kCount>
  __device__ __forceinline__ void over_blocks(float (&v)[kCount], uint32_t meeting,
                                              uint32_t barrier, uint32_t parity) const {
    if constexpr (S::kBlocks == 1) return;
    constexpr uint32_t kBytes = kCount * 4;
    const int lane = threadIdx.x % 32, pair = lane / 4, to = lane % 4;
    if (to < S::kBlocks)
      send(address_in(meeting + (rank * 8 + pair) * kBytes, to), v, address_in(barrier, to));
    barrier_wait(barrier, parity);
    float parts[kCount][S::kBlocks];
#pragma unroll
    for (int b = 0; b < S::kBlocks; ++b) {
      load_shared(meeting + (b * 8 + pair) * kBytes, v);
#pragma unroll
      for (int i = 0; i < kCount; ++i) parts[i][b] = v[i];
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = by_halves(parts[i]);
  }

  /// What `add(sum, a, b)` makes of the pairs of row `row` (0: lane/4, 1: the other), summed up
  /// over this block.
  template <class Add>
  __device__ __forceinline__ float sum_of(int row, const Add& add) const {
    constexpr int kEightsOfPart = S::kCols / 8 / S::kParts;
    float parts[S::kParts];
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) {
      float eights[8] = {};
#pragma unroll
      for (int i = 0; i < kEightsOfPart; ++i) {
        const float* d = sums[0] + 4 * (part * kEightsOfPart + i) + 2 * row;
        eights[i % 8] = add(eights[i % 8], d[0], d[1]);
      }
      parts[part] = sum_of_eights(eights);
    }
    return S::kParts == 1 ? parts[0] : parts[0] + parts[S::kParts - 1];
  }

  /// sums become normalized rows, before scale and shift.
  __device__ __forceinline__ void normalise(float epsilon, uint32_t parity) {
    constexpr auto kCount = static_cast<float>(S::kRowCols);
    constexpr float kReciprocal = 1.0f / kCount;
    const auto values = [](float sum, float a, float b) { return pair_sum(sum, a, b); };
    const auto squares = [](float sum, float a, float b) { return pair_squares(sum, a, b); };
    float total[2] = {sum_of(0, values), sum_of(1, values)};
    over_blocks(total, shared.sums(warp), shared.sums_there(warp), parity);
    const float mean[2] = {mean_of(total[0], kCount, kReciprocal),
                           mean_of(total[1], kCount, kReciprocal)};
#pragma unroll
    for (int i = 0; i < S::kCols / 2; ++i) sums[0][i] -= mean[i / 2 % 2];
    // Of each row: squares, then what the mean leaves.
    float all[4] = {sum_of(0, squares), sum_of(0, values), sum_of(1, squares), sum_of(1, values)};
    over_blocks(all, shared.squares(warp), shared.squares_there(warp), parity);
    const RowScale by[2] = {row_scale(all[0], all[1], kCount, kReciprocal, epsilon),
                            row_scale(all[2], all[3], kCount, kReciprocal, epsilon)};
#pragma unroll
    for (int i = 0; i < S::kCols / 2; ++i)
      sums[0][i] = __fmaf_rn(sums[0][i], by[i / 2 % 2].inverse, by[i / 2 % 2].offset);
  }

  /// y = sums · scale + shift into the boxes, and from there out.
  __device__ __forceinline__ void store(const CUtensorMap* y_map, GemmTile tile) {
    const int lane = threadIdx.x % 32;
    __syncwarp();  // the residual has been read
#pragma unroll
    for (int c = 0; c < kAcross; ++c) {
      const uint32_t box = boxes + c * S::kBoxBytes;
#pragma unroll
      for (int j = 0; j < kEights; j += 2) {
        uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int eight = kEights * c + j + i;
          const uint32_t at = parameters + (S::kCols + 8 * eight + 2 * (lane % 4)) * 4;
          const float2 scale = load_shared_pair(at), shift = load_shared_pair(at + S::kCols * 4);
          const float* d = sums[0] + 4 * eight;
          pairs[2 * i] =
              narrow_pair<T>(__fmaf_rn(d[0], scale.x, shift.x), __fmaf_rn(d[1], scale.y, shift.y));
          pairs[2 * i + 1] =
              narrow_pair<T>(__fmaf_rn(d[2], scale.x, shift.x), __fmaf_rn(d[3], scale.y, shift.y));
        }
        store_matrices(box_place(box, lane % 16, j + lane / 16), pairs[0], pairs[1], pairs[2],
                       pairs[3]);
      }
      fence_shared_to_async();
      __syncwarp();
      if (lane == 0) store_box(y_map, box, tile.col + S::kBoxCols * c, tile.row + warp % 4 * 16);
    }
  }
};

template <class S>
__device__ __forceinline__ void consume_and_normalise(const LinearNormShared<S>& shared,
                                                      const LinearNormArguments& args,
                                                      const CUtensorMap* y_map, int rank,
                                                      int group) {
  wait_for_previous_kernel();
  const int warp = 4 * group + uniform(threadIdx.x / 32 % 4), lane = threadIdx.x % 32;
  RingPlace<S::kStages> place;
  uint32_t parity = 0;
  const int clusters = gridDim.x / S::kCluster, first = blockIdx.x / S::kCluster;
#pragma unroll 1
  for (int t = first; t < args.product.row_tiles; t += clusters) {
    GemmTile tile = tile_at<S>(args.product, t, rank);
    tile.row += group * S::kGroupRows;
    if (S::kBlocks > 1 && lane == 0) {
      barrier_expect(shared.sums_there(warp), S::kSumsBytes);
      barrier_expect(shared.squares_there(warp), S::kSquaresBytes);
    }
    __syncwarp();
    GemmSums<S> sums;
    multiply<typename S::Gemm>(sums, shared, place, args.product.k_blocks, group);
    if (t == first) turn_wait<256 + kKeepers>(kKept);
    barrier_wait(shared.residual(0), parity);
    LinearNormRows<S> rows{sums, shared, shared.boxes(warp), shared.parameters(), warp, rank};
    rows.add_operands();
    rows.normalise(args.epsilon, parity);
    rows.store(y_map, tile);
    if (lane == 0) {
      wait_for_reads_of_boxes();
      barrier_arrive(shared.boxes_turn(0));
    }
    __syncwarp();
    parity ^= 1;
  }
}

template <class S>
__global__ void __launch_bounds__(kGemmThreads, 1)
    linear_norm_kernel(const __grid_constant__ CUtensorMap x_map,
                       const __grid_constant__ CUtensorMap w_map,
                       const __grid_constant__ CUtensorMap y_map,
                       const __grid_constant__ CUtensorMap residual_map,
                       const __grid_constant__ LinearNormArguments args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ uint8_t dynamic[];
  const LinearNormShared<S> shared{{(shared_address(dynamic) + 1023) & ~1023u}};
  const int group = uniform(threadIdx.x / 128);
  const int rank = S::kCluster > 1 ? uniform(static_cast<int>(cluster_rank())) : 0;
  if (threadIdx.x == 256) {
    prefetch_map(&w_map);
    prefetch_map(&x_map);
    prefetch_map(&residual_map);
    prefetch_map(&y_map);
  }
  begin_block<typename S::Gemm>(shared, [&shared] {
    for (int warp = 0; warp < 8; ++warp) {
      barrier_init(shared.sums_there(warp), 1);
      barrier_init(shared.squares_there(warp), 1);
    }
  });
  if (group == 2) {
    give_registers<40>();
    if (threadIdx.x == 256) {
      produce<typename S::Gemm>({shared, &x_map, &w_map, rank}, args.product);
    } else if (threadIdx.x / 32 == 9) {
      produce_residual<typename S::Gemm>(shared, args.product, &residual_map, rank);
    } else if (threadIdx.x >= kGemmThreads - kKeepers) {
      keep_parameters<S>(args, shared.parameters(), rank * S::kCols);
    }
    __syncwarp();
  } else {
    take_registers<232>();
    consume_and_normalise<S>(shared, args, &y_map, rank, group);
  }
  if constexpr (S::kCluster > 1) cluster_sync();  // another block may still write here
#else
  __trap();  // hopper_kernels_usable() is false for such code
#endif
}

}  // namespace vernier::backend::cuda
