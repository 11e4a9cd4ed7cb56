// Windows (windows.h) from attributes and shapes.
#pragma once
#include "backend/cuda/body.h"
#include "backend/cuda/kernels/convolution/windows.h"

namespace vernier::backend::cuda {

/// What Conv and pool attributes say of their windows; empty vectors mean ones (pads: zeros).
struct WindowAttrs {
  std::span<const int64_t> kernel, strides, dilations, pads;
  int64_t auto_pad = 0;  ///< 0 NOTSET, 1 SAME_UPPER, 2 SAME_LOWER, 3 VALID
};
/// `in`, `out`: [batch, channels, spatial...].
Windows windows_of(const WindowAttrs& attrs, const TensorArg& in, const TensorArg& out);

/// Yes if there are one to three spatial axes.
Support supports_spatial(const Problem& problem);

}  // namespace vernier::backend::cuda
