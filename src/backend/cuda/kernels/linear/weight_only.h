// WeightOnlyLinear: host-side entry of weight_only.cu in plain types.
#pragma once
#include "backend/cuda/kernels/linear/linear_plain.h"

namespace vernier::backend::cuda {

/// Bytes of a column of a packed weight: K numbers of `bits` bits, the first one lowest, as whole
/// units of 16 bytes.
constexpr int64_t weight_only_column_bytes(int64_t k, int64_t bits) {
  return (k * bits + 127) / 128 * 16;
}

struct WeightOnlyLaunch {
  LinearOperand x;         // [m, k]
  const std::byte* w;      // [n] columns, as above; held as WeightBits (backend/supports.h) says
  const float* scales;     // by block and column
  const std::byte* zeros;  // the same, i8 or u8; null: 0
  LinearOperand bias;      // [n]
  LinearOperand residual;  // [m, n]
  LinearOperand y;         // [m, n]
  int64_t m, n;
  int k, bits, block;  // block: rows of w that share a scale; 0: all
  int offset;          // of held numbers
  bool one_scale, one_zero;
  bool unsigned_zeros;
  int activation;            // Activation of core/attrs.h
  int64_t column_bytes = 0;  // set by the launch
};

/// y = act(x·((w − zero)·scale) + bias) + residual.
/// Types   x, bias, residual and y each f32, f16 or bf16; w of 8 or 4 bits.
/// Sums in f32: a warp has a column; its lanes take every 32nd group of 8 k, each times its scale,
///         and are added as a butterfly. A row's bits depend on the row, w and k only.
/// Bias, activation and residual in f32; y is rounded once.
/// Error   <= k·2^-24·Σ|x||w|, in practice √k; plus the activation's (device/elementwise_math.cuh)
///         and half an ulp of y.
/// Cost    w is read once per 4 rows: for few rows. No workspace.
cudaError_t launch_weight_only(const WeightOnlyLaunch& call, cudaStream_t stream);

}  // namespace vernier::backend::cuda
