// Convolutions. Host-side entry of conv.cu in plain types.
#pragma once
#include "backend/cuda/kernels/convolution/windows.h"

namespace vernier::backend::cuda {

struct ConvLaunch {
  const std::byte *x, *w, *bias;  // bias null: none
  std::byte* y;
  DType x_type, w_type, bias_type, y_type;  // each f32, f16 or bf16
  int64_t batch;
  int groups, group_in, group_out;  // channels per group
  Windows windows;                  // in: of x, out: of y; of conv_transpose the other way round
};

/// y[n, m, p] = Σ_{c, tap} x[n, c, p·stride + tap·dilation − pad]·w[m, c, tap] + bias[m]
/// x [batch, groups·group_in, in…], w [groups·group_out, group_in, kernel…], y [batch,
/// groups·group_out, out…], dense. Padding counts as 0.
/// A matrix product per group whose right side is gathered while tiles are loaded (implicit GEMM):
/// rows are output channels, columns the output positions of all images, k = (channel, tap) in
/// memory order. Sums in f32, k upwards, rounded once: bits of an output depend on its own window
/// only. `tensor_cores`: x and w both f16 or both bf16. Groups of few channels run one thread per
/// output, which adds in the same order.
/// Cost: reads x once per tile of 64 channels. No workspace.
cudaError_t convolve(const ConvLaunch& conv, bool tensor_cores, cudaStream_t stream);

/// The transpose: x [batch, groups·group_in, out…], w [groups·group_in, group_out, kernel…], y
/// [batch, groups·group_out, in…]. One thread per output; sums in f32 over (channel, tap) upwards.
cudaError_t convolve_transposed(const ConvLaunch& conv, cudaStream_t stream);

}  // namespace vernier::backend::cuda
