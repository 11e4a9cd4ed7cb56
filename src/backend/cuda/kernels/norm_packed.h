// Host-side entry of norm_packed.cu: what encoders have most of, with few arguments.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "vernier/dtype.h"

namespace vernier::backend::cuda {

struct PackedNorm {
  const void *x, *addend;     // [rows, cols]; addend or null
  void *y, *sum;              // [rows, cols]; sum: x + addend, or null
  const float *scale, *bias;  // [cols]; bias or null
  int64_t rows;
  int cols;  // at most 1024, a multiple of a 16-byte vector
  float epsilon;
  DType type;               // of x, addend, y and sum
  bool is_rms, is_aligned;  // is_aligned: every array lies at a multiple of 16 bytes
};

/// y = (s − mean) / √(var + ε)·scale + bias per row of s = x + addend; is_rms (without addend):
/// s / √(mean(s²) + ε)·scale. Arithmetic in f32, as launch_norm()'s. Each row is a warp's, which
/// has the next row's loads under way while it works on this one; the order of sums depends on cols
/// and type only. Cost: each input read once, each output written once.
cudaError_t launch_packed_norm(const PackedNorm& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
