// Masks and running softmax of scores that lie in registers as mma.sync leaves them (PTX ISA,
// "Matrix Fragments for mma.m16n8k16"): lane 4g + t of a warp has, of rows g and g + 8 of 16
// queries, keys 8n + 2t and 8n + 2t + 1 of a step of 64. C++17.
// Source: Dao, FlashAttention-2, arXiv:2307.08691; online normaliser, arXiv:1805.02867.
#pragma once
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/kernels/attention/attention_tables.cuh"

namespace vernier::backend::cuda {

constexpr float kLog2E = 1.4426950408889634f;

// Of a warp, in shared memory: entries of 8 rows, those of a row g 8 banks after those before.
constexpr int kTablePitch = kStepKeys + 8;
constexpr int kTableFloats = 8 * kTablePitch;

// What a lane carries of its two query rows.
struct FragmentRows {
  float max[2] = {-kInfinity, -kInfinity};
  float sum[2] = {0, 0};  // this lane's part
  bool seen[2] = {false, false};
};

// Bias and masks of scores of 16 rows, `row` that of the lane's g = 0; an open step's are scaled. A
// table by key is filled and leaves the rows `first_kept`, another is filled here.
enum class StepMasks { kOpen, kByKey, kAny };
__device__ __forceinline__ void mask_fragment(const AttentionLaunch& args, const Tile& tile,
                                              int64_t key, StepMasks masks, int first_kept, int row,
                                              int lane, float* table,
                                              float (&scores)[kStepKeys / 8][4],
                                              FragmentRows& rows) {
  if (masks == StepMasks::kOpen) {
    rows.seen[0] = rows.seen[1] = true;
#pragma unroll
    for (int i = 0; i < kStepKeys / 2; ++i) scores[i / 4][i % 4] *= args.scale;
    return;
  }
  const bool any = masks == StepMasks::kAny;
  const auto* own =
      reinterpret_cast<const float2*>(table + (any ? lane / 4 * kTablePitch : 0) + lane % 4 * 2);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    // Keys of the step after it are hidden.
    int last = 2 * kStepKeys;
    if (any) {
      __syncwarp();
      const int seen = fill_table<kTablePitch>(args, tile, key, row + 8 * r, 8, table);
      rows.seen[r] = rows.seen[r] || (seen >> lane / 4 & 1) != 0;
      __syncwarp();
    } else {
      last = last_visible(args, tile, key) + row + 8 * r + lane / 4;
      rows.seen[r] = rows.seen[r] || first_kept <= last;
    }
    const int own_last = last - lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kStepKeys / 8; ++n) {
      const float2 entry = own[4 * n];
      float &even = scores[n][2 * r], &odd = scores[n][2 * r + 1];
      even = table_score(args, even, entry.x, 8 * n > own_last);
      odd = table_score(args, odd, entry.y, 8 * n + 1 > own_last);
    }
  }
}
// The step's kind of masks; fills the table of those by key. All lanes of the warp call it.
__device__ __forceinline__ StepMasks masks_of_step(const AttentionLaunch& args, const Tile& tile,
                                                   int64_t key, const StepLook& look, float* table,
                                                   int& first_kept) {
  if (is_open(look)) return StepMasks::kOpen;
  if (!is_by_key(args)) return StepMasks::kAny;
  __syncwarp();
  first_kept = fill_table<kTablePitch>(args, tile, key, 0, 1, table);
  __syncwarp();
  return StepMasks::kByKey;
}

// Scores become exp(score − max) relative to the new maxima; sums and context are rescaled.
template <int kContext>
__device__ inline void softmax_step(float (&scores)[kStepKeys / 8][4],
                                    float (&context)[kContext][4], FragmentRows& rows) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = rows.max[r];
#pragma unroll
    for (int n = 0; n < kStepKeys / 8; ++n)
      top = fmaxf(top, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    // While every key so far is hidden with −inf, exp(−inf − 0) = 0 keeps the sum at 0.
    const float base = top == -kInfinity ? 0.0f : top;
    const float factor = exp2_fast((rows.max[r] - base) * kLog2E);
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kStepKeys / 8; ++n) {
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; ++e) {
        scores[n][e] = exp2_fast((scores[n][e] - base) * kLog2E);
        sum += scores[n][e];
      }
    }
    rows.sum[r] = rows.sum[r] * factor + sum;
    rows.max[r] = top;
#pragma unroll
    for (int n = 0; n < kContext; ++n) {
      context[n][2 * r] *= factor;
      context[n][2 * r + 1] *= factor;
    }
  }
}

// The sum of row r, row `row` of the tile, over its four lanes, and whether the row has probability
// 0 everywhere instead.
__device__ inline float finish_sum(const AttentionLaunch& args, const Tile& tile,
                                   const FragmentRows& rows, int r, int row, bool& empty) {
  float sum = rows.sum[r];
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  empty = tile.keys == 0 || is_empty_row(args, sum, rows.seen[r]) || is_hidden_row(args, tile, row);
  return sum;
}

}  // namespace vernier::backend::cuda
