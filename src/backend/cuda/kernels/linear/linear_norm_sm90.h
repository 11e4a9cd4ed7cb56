// Host-side entry of linear_norm_sm90.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include "backend/cuda/kernels/linear/gemm_sm90.h"

namespace vernier::backend::cuda {

/// y = (s − mean) / √(var + ε)·scale + shift per row of s = p + residual, p = x·wᵀ + bias. p, the
/// residual, which is there, and y are of the operands' 16-bit type; there is no activation.
struct LinearNormSm90 {
  GemmSm90 product;
  const float* scale;  ///< [n]
  const float* shift;  ///< [n] or null
  float epsilon;
  int64_t wave;  ///< linear_norm_sm90_wave()
};

/// The sizes that there are kernels for: 256, 384 and 512 columns, and with k <= n 768 and 1024.
/// These take clusters of four blocks, which leave some multiprocessors idle; behind a longer k
/// that costs more than it gains (docs/performance.md).
bool linear_norm_sm90_has(int n, int k);
/// Can one kernel do it all? x, the residual and y lie at multiples of 16 bytes.
bool linear_norm_sm90_joins(const LinearNormSm90& call);
/// Once per device before the first launch.
cudaError_t prepare_linear_norm_sm90();

/// The rows that one kernel does at a time, behind prepare_linear_norm_sm90().
int64_t linear_norm_sm90_wave(int n, int processors);
/// All in one kernel: a cluster of up to four blocks has 128 whole rows, whose sums never leave its
/// registers; the blocks exchange the sums of their columns. It takes as long for one row
/// as for a wave.
cudaError_t launch_linear_norm_joined(const LinearNormSm90& call, cudaStream_t stream);
/// The norm of p, which is in y, in place. Both variants give the same bits: p is rounded to
/// its type; the sums over a row run over fixed parts of it in the order of linear_norm_sm90.cuh,
/// in f32; the variance in a second pass; y is rounded once.
cudaError_t launch_linear_norm_rows(const LinearNormSm90& call, cudaStream_t stream);

}  // namespace vernier::backend::cuda
