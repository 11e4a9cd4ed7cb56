// QuantizeLinear, DequantizeLinear, NegativeLogLikelihoodLoss. Host-side entry of quantise.cu in
// plain types. All arrays dense.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

struct QuantiseLaunch {
  Array x, scale, zero, y;  // zero without data: 0
  // Element (outer, along, inner) of x has scale (outer·blocks + along / block)·inner_size + inner
  // where block > 0, else scale along; with one_scale, scale 0.
  int64_t size, inner, block, blocks;
  bool one_scale, one_zero;
  bool saturate;            // f8 results: clipped to the largest finite value
  int64_t lowest, highest;  // of an integer result
};
/// y = saturate(round(x / scale) + zero), halves to even; NaN gives the zero point. The quotient is
/// an f32, or an f64 where the scale is, as the definition's; to f8 it is not rounded to an
/// integer. x floats or integers; y i8 … u32 or f8.
cudaError_t quantise(const QuantiseLaunch& args, cudaStream_t stream);
/// y = (x − zero)·scale in f64, rounded once. x integers or f8; y f64, f32, f16 or bf16.
cudaError_t dequantise(const QuantiseLaunch& args, cudaStream_t stream);

struct LossLaunch {
  Array x, targets, weights, y;  // x [outer, classes, inner], weights [classes] or absent
  int64_t classes, inner;
  bool ignores, sums, mean;  // neither sums nor mean: y has the shape of targets
  int64_t ignore_index;
};
/// loss[n, d] = −w[t]·x[n, t, d] with t = targets[n, d], 0 where t is ignored, NaN where t is no
/// class; as it is, summed, or divided by the sum of the weights that counted. f32, f16 and bf16 in
/// any mix. Sums in f32 by one block, in an order that depends on the number of targets only.
cudaError_t negative_log_likelihood(const LossLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
