// Host-side entry of linear_f32.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "vernier/dtype.h"

namespace vernier::backend::cuda {

/// The packed weight: panels of 16 columns, each [padded k, 16] row-major; what is beyond n and k
/// is 0.
inline constexpr int kPanelCols = 16, kPanelSteps = 32;
constexpr int64_t padded_k(int64_t k) { return (k + kPanelSteps - 1) / kPanelSteps * kPanelSteps; }
constexpr int64_t panels_of(int64_t n) { return (n + kPanelCols - 1) / kPanelCols; }

/// y = act(x·w + bias) + residual.
struct LinearF32 {
  const float* x;        // [m, k] row-major
  const float* w;        // panels, 16-byte aligned
  const void* bias;      // [n] or null
  const void* residual;  // [m, n] or null; may alias y
  void* y;               // [m, n]
  int64_t m;             // 0 <= m < 2^31 - 128
  int n, k;
  DType bias_type, residual_type, y_type;  // f32, f16 or bf16
  int activation;                          // Activation of core/attrs.h
  int processors;                          // of the device
};

/// Number of tile shapes, their names ("128x192"), and the one that a problem of these sizes is
/// likely to run fastest on. All of them give a row the same bits.
int linear_f32_variants();
const char* linear_f32_name(int variant);
int linear_f32_choice(int64_t m, int n, int k, int processors);

/// Once per device before the first launch: raises the kernels' shared-memory limits.
cudaError_t prepare_linear_f32();

/// Each sum is one chain of fused multiply-adds in f32 over k ascending from 0, whatever the tile
/// shape: a row's bits depend on the row, w and k alone. Bias, activation and residual in f32; y is
/// rounded once. Error: k·2^-24·Σ|x||w| at most, in practice √k; and the activation's
/// (device/activation.cuh). Cost: m·n·k fused multiply-adds on the CUDA cores; at few rows the k
/// links of a chain (about 4 cycles each). No workspace; addresses need no alignment but w's.
cudaError_t launch_linear_f32(const LinearF32& call, int variant, cudaStream_t stream);

}  // namespace vernier::backend::cuda
