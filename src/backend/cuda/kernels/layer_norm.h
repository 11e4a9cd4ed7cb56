// Host-side entry of layer_norm.cu: plain types, so that nvcc sees no C++20 header.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace vernier::backend::cuda {

struct LayerNormLaunch {
  const float* x;      // [rows, cols] row-major
  const float* scale;  // [cols]
  const float* bias;   // [cols] or null
  float* y;            // [rows, cols]; may alias x
  int64_t rows;
  int cols;
  float epsilon;
};

/// y = (x − mean) / sqrt(var + epsilon) · scale + bias per row. Mean and variance two-pass in f32,
/// in a reduction order that depends on cols only: a row's bits do not depend on rows.
/// Cost: reads x once from memory when cols <= 8192 (held in registers), else three times.
cudaError_t launch_layer_norm(const LayerNormLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
