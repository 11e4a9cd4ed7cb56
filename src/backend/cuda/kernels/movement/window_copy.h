// Copies whose window is known on the device only (Slice with starts from an input), and padding.
// Host-side entry of window_copy.cu in plain types.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

struct SliceCopy {
  Array x, y;
  Array starts, axes, steps;  // integers, one per sliced axis; axes and steps may be absent
};
/// y[i…] = x[start + i·step…]. Starts count from the end where negative and are kept inside, as in
/// ONNX Slice-13. Any type; x of any strides; y dense, its shape gives the counts.
cudaError_t copy_slice(const SliceCopy& slice, cudaStream_t stream);

struct PadCopy {
  enum class Mode : uint8_t { kConstant, kReflect, kEdge, kWrap };
  Array x, y;
  Array begins;  // integers: of every axis (then ends), or of `axes`
  Array fill;    // one element of y's kind, or absent: zero
  Array axes;
  Mode mode;
};
/// y[i…] = x[source(i − begin)…], `fill` where source is outside and the mode is constant. Negative
/// begins cut. Types of x and fill: y's, or f32, f16 and bf16 in any mix.
cudaError_t copy_padded(const PadCopy& pad, cudaStream_t stream);

}  // namespace vernier::backend::cuda
