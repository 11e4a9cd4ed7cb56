// Values of images at the points of a grid. Host-side entry of grid_sample.cu in plain types.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

enum class SampleMode : uint8_t { kNearest, kLinear, kCubic };
enum class SamplePadding : uint8_t { kZeros, kBorder, kReflection };

struct GridSampleLaunch {
  const std::byte *x, *grid;
  std::byte* y;
  DType x_type, grid_type, y_type;  // each f32, f16 or bf16
  int64_t batch, channels, points;  // points of y per image
  int spatial;                      // axes of an image: 1 to 3
  int size[3];                      // of them; the grid names the last one first
  SampleMode mode;
  SamplePadding padding;
  bool align_corners;
};

/// y[n, c, p] = the interpolation of x[n, c] at grid[n, p], as ONNX GridSample-20 says: cubic is
/// Keys' kernel with a = −0.75. x [batch, channels, size…], grid [batch, points, spatial], y
/// [batch, channels, points], dense. A NaN coordinate gives NaN. Positions, weights and sums in
/// f64, rounded once; taps in a fixed order, so a point's bits depend on its own image and
/// coordinates only. Cost: one thread per point and 16 channels: 2, 4 or 8 (cubic: 4, 16, 64) loads
/// each.
cudaError_t sample_grid(const GridSampleLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
