// Sliding windows over one to three spatial axes at concrete sizes: what Conv, ConvTranspose and
// the pools pass to their kernels. Plain types; made by windows_of() of window_shape.h.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

inline constexpr int kSpatial = 3;

/// Axes that are not there are the first, with size 1. Input position = output position·stride +
/// tap·dilation − pad.
struct Windows {
  int in[kSpatial], out[kSpatial], kernel[kSpatial];
  int stride[kSpatial], dilation[kSpatial], pad[kSpatial], pad_end[kSpatial];

  int64_t in_plane() const { return int64_t{in[0]} * in[1] * in[2]; }
  int64_t out_plane() const { return int64_t{out[0]} * out[1] * out[2]; }
  int64_t taps() const { return int64_t{kernel[0]} * kernel[1] * kernel[2]; }
};

}  // namespace vernier::backend::cuda
