// Linear without conditions on sizes or alignment: host-side entry of linear_plain.cu in plain
// types.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "vernier/dtype.h"

namespace vernier::backend::cuda {

/// A dense array; `data` null: absent.
struct LinearOperand {
  std::byte* data;
  DType type;
};
struct LinearPlain {
  LinearOperand x;         // [m, k]
  LinearOperand w;         // [k, n], with trans_w [n, k]
  LinearOperand bias;      // [n]
  LinearOperand residual;  // [m, n]
  LinearOperand y;         // [m, n]
  int64_t m, n;
  int k;
  bool trans_w;
  int activation;  // Activation of core/attrs.h
};

/// y = act(x·w + bias) + residual.
/// Types   each f32, f16 or bf16. With `tensor_cores` x and w are both f16 or both bf16, their
///         products exact on tensor cores (mma.sync, sm_80 on); else operands are widened to f32.
/// Sums in f32, k upwards (tensor cores: 16 at a time): a row's bits depend on the row, w and k.
/// Bias, activation and residual in f32; y is rounded once.
/// Error   <= k·2^-24·Σ|x||w|, in practice √k; plus the activation's (device/elementwise_math.cuh)
///         and half an ulp of y.
/// Cost    tiles of 64 × 64, each reading its rows and columns once. No workspace.
cudaError_t launch_linear_plain(const LinearPlain& p, bool tensor_cores, cudaStream_t stream);

/// The same for n < 8, x and w of one type: a block per row, 128 partial sums of every 128th k,
/// added in a fixed order. Cost: w is read once per row. Error as above.
cudaError_t launch_linear_narrow(const LinearPlain& p, cudaStream_t stream);

}  // namespace vernier::backend::cuda
