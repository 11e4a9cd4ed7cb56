// Resampling along any axes. Host-side entry of resize.cu in plain types.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

enum class ResizeCoordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric
};
enum class ResizeRounding : uint8_t { kPreferFloor, kPreferCeil, kFloor, kCeil };

inline constexpr int kMaxResized = 3;

struct ResizeLaunch {
  Array x, y;  // x of any strides, y dense
  ResizeCoordinates coordinates;
  ResizeRounding rounding;  // of nearest
  bool cubic, antialias, exclude_outside;
  double cubic_a;
  int count;  // axes that change
  int axis[kMaxAxes];
  double scale[kMaxAxes], length[kMaxAxes];  // of those axes; core/resized_length.h
};

/// y[i…] = x[nearest(i)…]; any type, bits moved unchanged.
cudaError_t resize_nearest(const ResizeLaunch& args, cudaStream_t stream);
/// y[i…] = Σ x[j…]·Π weight(j − source(i)) over at most kMaxResized axes, weights linear or cubic,
/// formulas of ONNX Resize-19. f32, f16 and bf16 in any mix. Elements of weight 0 are not read:
/// infinities beside the window stay out. Positions, weights and sums in f64, rounded once.
/// Cost: one thread per element of y, which reads 2 (cubic: 4) elements per axis that changes, more
/// with antialiasing.
cudaError_t resize_weighted(const ResizeLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
