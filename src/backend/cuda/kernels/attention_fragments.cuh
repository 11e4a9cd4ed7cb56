// Masks and running softmax of scores that lie in registers as mma.sync leaves them (PTX ISA,
// "Matrix Fragments for mma.m16n8k16"): lane 4g + t of a warp has, of rows g and g + 8 of 16
// queries, keys 8n + 2t and 8n + 2t + 1 of a step of 64. C++17.
// Source: Dao, FlashAttention-2, arXiv:2307.08691; online normaliser, arXiv:1805.02867.
#pragma once
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/kernels/attention_device.cuh"

namespace vernier::backend::cuda {

constexpr float kLog2E = 1.4426950408889634f;

// What a lane carries of its two query rows.
struct FragmentRows {
  float max[2] = {-kInfinity, -kInfinity};
  float sum[2] = {0, 0};  // this lane's part
  unsigned seen = 0;      // bit r
};

// Where mask_step() finds them; first_row: of the tile, that of the lane's row g.
struct FragmentLayout {
  float (&scores)[kStepKeys / 8][4];
  int first_row, lane;
  __device__ int row(int i) const { return first_row + 8 * i; }
  __device__ int key(int j) const { return j / 2 * 8 + lane % 4 * 2 + j % 2; }
  __device__ float& score(int i, int j) const { return scores[j / 2][2 * i + j % 2]; }
};

// Scores of a step that is_open_step().
__device__ inline void scale_fragment(const AttentionLaunch& args,
                                      float (&scores)[kStepKeys / 8][4], FragmentRows& rows) {
  rows.seen = 3;
#pragma unroll
  for (int i = 0; i < kStepKeys / 2; ++i) scores[i / 4][i % 4] *= args.scale;
}
// Scores of any step.
__device__ inline void mask_fragment(const AttentionLaunch& args, const Tile& tile, int64_t key,
                                     int row, int lane, float (&scores)[kStepKeys / 8][4],
                                     FragmentRows& rows) {
  mask_step<2, kStepKeys / 4>(args, tile, key, FragmentLayout{scores, row, lane}, rows.seen);
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

// The sum of row r over its four lanes, and whether the row has probability 0 everywhere instead.
__device__ inline float finish_sum(const AttentionLaunch& args, const Tile& tile,
                                   const FragmentRows& rows, int r, int lane, bool& empty) {
  float sum = rows.sum[r];
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  const unsigned seen = __ballot_sync(~0u, (rows.seen >> r & 1) != 0) >> (lane & ~3) & 0xf;
  empty = tile.keys == 0 || is_empty_row(args, sum, seen != 0);
  return sum;
}

}  // namespace vernier::backend::cuda
