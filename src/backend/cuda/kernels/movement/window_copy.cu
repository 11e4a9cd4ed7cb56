// Slices and padding with windows read on the device; contract in window_copy.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/movement/window_copy.h"

namespace vernier::backend::cuda {
namespace {

__device__ int axis_of(const Array& axes, int64_t i, int rank) {
  if (axes.data == nullptr) return static_cast<int>(i);
  const int64_t axis = wrapped_index(load_integer(axes.dtype, axes.data, i), rank);
  return axis < 0 ? 0 : static_cast<int>(axis);
}

__global__ void __launch_bounds__(kBlock)
    slice_kernel(const __grid_constant__ SliceCopy s, int64_t count, int64_t listed, int width) {
  __shared__ int64_t start[kMaxAxes], step[kMaxAxes];
  if (threadIdx.x < kMaxAxes) {
    start[threadIdx.x] = 0;
    step[threadIdx.x] = 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int64_t i = 0; i < listed; ++i) {
      const int axis = axis_of(s.axes, i, s.x.rank);
      const int64_t size = s.x.size[axis];
      if (s.steps.data != nullptr) step[axis] = load_integer(s.steps.dtype, s.steps.data, i);
      int64_t at = load_integer(s.starts.dtype, s.starts.data, i);
      if (at < 0) at = (at > -size - 1 ? at : -size - 1) + size;
      const int64_t last = step[axis] > 0 ? size : size - 1;
      start[axis] = at < 0 ? 0 : at > last ? (last > 0 ? last : 0) : at;
    }
  }
  __syncthreads();
  for (int64_t i = first_item(); i < count; i += item_step()) {
    int64_t rest = i, from = 0;
    bool inside = true;
    for (int axis = s.y.rank - 1; axis >= 0; --axis) {
      const int64_t at = start[axis] + take_axis(rest, s.y.size[axis]) * step[axis];
      inside = inside && at >= 0 && at < s.x.size[axis];
      from += at * s.x.stride[axis];
    }
    if (inside) move_element(s.x.dtype, s.x.data, from, s.y.dtype, s.y.data, i, width);
  }
}

// Source coordinate of padded coordinate `at` (before begin: negative), or −1 for the fill value.
__device__ int64_t padded_source(PadCopy::Mode mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == PadCopy::Mode::kConstant || size == 0) return -1;
  if (mode == PadCopy::Mode::kEdge) return at < 0 ? 0 : size - 1;
  if (size == 1) return 0;
  const int64_t period = mode == PadCopy::Mode::kWrap ? size : 2 * (size - 1);
  int64_t phase = at % period;
  if (phase < 0) phase += period;
  return phase < size ? phase : period - phase;
}

__global__ void __launch_bounds__(kBlock)
    pad_kernel(const __grid_constant__ PadCopy p, int64_t count, int64_t listed, int width) {
  __shared__ int64_t begin[kMaxAxes];
  if (threadIdx.x < kMaxAxes) begin[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x < listed)
    begin[axis_of(p.axes, threadIdx.x, p.x.rank)] =
        load_integer(p.begins.dtype, p.begins.data, threadIdx.x);
  __syncthreads();
  for (int64_t i = first_item(); i < count; i += item_step()) {
    int64_t rest = i, from = 0;
    bool inside = true;
    for (int axis = p.y.rank - 1; axis >= 0; --axis) {
      const int64_t at = take_axis(rest, p.y.size[axis]) - begin[axis];
      const int64_t source = padded_source(p.mode, at, p.x.size[axis]);
      inside = inside && source >= 0;
      from += source * p.x.stride[axis];
    }
    if (inside) {
      move_element(p.x.dtype, p.x.data, from, p.y.dtype, p.y.data, i, width);
    } else if (p.fill.data != nullptr) {
      move_element(p.fill.dtype, p.fill.data, 0, p.y.dtype, p.y.data, i, width);
    } else {
      const uint64_t zero = 0;
      move_element(p.y.dtype, &zero, 0, p.y.dtype, p.y.data, i, width);
    }
  }
}

}  // namespace

cudaError_t copy_slice(const SliceCopy& slice, cudaStream_t stream) {
  const int64_t count = elems_of(slice.y);
  if (count == 0) return cudaSuccess;
  slice_kernel<<<blocks_for(count), kBlock, 0, stream>>>(slice, count, elems_of(slice.starts),
                                                         width_of(slice.y.dtype));
  return cudaGetLastError();
}

cudaError_t copy_padded(const PadCopy& pad, cudaStream_t stream) {
  const int64_t count = elems_of(pad.y);
  if (count == 0) return cudaSuccess;
  const int64_t listed = pad.axes.data != nullptr ? elems_of(pad.axes) : pad.x.rank;
  pad_kernel<<<blocks_for(count), kBlock, 0, stream>>>(pad, count, listed, width_of(pad.y.dtype));
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
