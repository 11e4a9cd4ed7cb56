// Resize; contract in resize.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/device/interpolation.cuh"
#include "backend/cuda/kernels/convolution/resize.h"

namespace vernier::backend::cuda {
namespace {

struct ResizeAxis {
  int64_t in, out;
  double scale, length;
};

__device__ double source_coordinate(ResizeCoordinates mode, const ResizeAxis& axis, int64_t at) {
  const auto x = static_cast<double>(at), in = static_cast<double>(axis.in),
             out = static_cast<double>(axis.out);
  if (mode == ResizeCoordinates::kAsymmetric) return x / axis.scale;
  if (mode == ResizeCoordinates::kAlignCorners)
    return axis.out == 1 ? 0 : x * (in - 1) / (axis.length - 1);
  if (mode == ResizeCoordinates::kPytorchHalfPixel && axis.out == 1) return 0;
  // Not contracted: the positions are those of the definition, to the last bit.
  const double centred = __dsub_rn(__ddiv_rn(x + 0.5, axis.scale), 0.5);
  if (mode != ResizeCoordinates::kHalfPixelSymmetric) return centred;
  return __dadd_rn(__dmul_rn(in / 2, 1 - out / __dmul_rn(axis.scale, in)), centred);
}

__device__ int64_t nearest_index(const ResizeLaunch& args, const ResizeAxis& axis, int64_t at) {
  const double x = source_coordinate(args.coordinates, axis, at);
  const double whole = args.rounding == ResizeRounding::kFloor        ? floor(x)
                       : args.rounding == ResizeRounding::kCeil       ? ceil(x)
                       : args.rounding == ResizeRounding::kPreferCeil ? floor(x + 0.5)
                                                                      : ceil(x - 0.5);
  const auto index = static_cast<int64_t>(whole);
  return index < 0 ? 0 : index < axis.in ? index : axis.in - 1;
}

// Coordinates of element `flat` of y on the axes that change, and the offset the others give in x.
struct Place {
  int64_t at[kMaxAxes];
  int64_t offset;
};
__device__ Place place_of(const ResizeLaunch& args, int64_t flat) {
  Place place;
  place.offset = 0;
  int changing = args.count - 1;
  for (int axis = args.y.rank - 1; axis >= 0; --axis) {
    const int64_t at = take_axis(flat, args.y.size[axis]);
    if (changing >= 0 && args.axis[changing] == axis)
      place.at[changing--] = at;
    else
      place.offset += at * args.x.stride[axis];
  }
  return place;
}
__device__ ResizeAxis axis_of(const ResizeLaunch& args, int i) {
  return {args.x.size[args.axis[i]], args.y.size[args.axis[i]], args.scale[i], args.length[i]};
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    nearest_kernel(const __grid_constant__ ResizeLaunch args, int64_t total) {
  for (int64_t i = first_item(); i < total; i += item_step()) {
    const Place place = place_of(args, i);
    int64_t from = place.offset;
    for (int a = 0; a < args.count; ++a)
      from += nearest_index(args, axis_of(args, a), place.at[a]) * args.x.stride[args.axis[a]];
    reinterpret_cast<T*>(args.y.data)[i] = reinterpret_cast<const T*>(args.x.data)[from];
  }
}

// The elements of one axis that one output looks at: [begin, end] around x, before clamping.
struct Window {
  int64_t begin, end, size, step;
  double x, stretch, total;
};

__device__ double weight_at(const ResizeLaunch& args, const Window& w, int64_t i) {
  if (args.exclude_outside && (i < 0 || i >= w.size)) return 0;
  const double distance = (static_cast<double>(i) - w.x) * w.stretch;
  return args.cubic ? cubic_kernel(distance, args.cubic_a) : linear_kernel(distance);
}

__device__ Window window_of(const ResizeLaunch& args, int a, int64_t at) {
  const ResizeAxis axis = axis_of(args, a);
  Window w;
  w.x = source_coordinate(args.coordinates, axis, at);
  w.size = axis.in;
  w.step = args.x.stride[args.axis[a]];
  // Antialiasing stretches the kernel over the pixels that shrink into one.
  w.stretch = args.antialias ? fmin(axis.scale, 1.0) : 1.0;
  const double reach = (args.cubic ? 2.0 : 1.0) / w.stretch;
  w.begin = static_cast<int64_t>(ceil(w.x - reach));
  w.end = static_cast<int64_t>(floor(w.x + reach));
  w.total = 1;
  if (!args.antialias && !args.exclude_outside) return w;
  w.total = 0;
  for (int64_t i = w.begin; i <= w.end; ++i) w.total += weight_at(args, w, i);
  return w;
}

// Σ weight·inner(offset) over the window; elements beyond the border are those at it.
template <class Inner>
__device__ double weigh(const ResizeLaunch& args, const Window& w, int64_t offset,
                        const Inner& inner) {
  double sum = 0;
  for (int64_t i = w.begin; i <= w.end; ++i) {
    const double weight = weight_at(args, w, i);
    if (weight == 0) continue;
    const int64_t index = i < 0 ? 0 : i < w.size ? i : w.size - 1;
    sum += weight / w.total * inner(offset + index * w.step);
  }
  return sum;
}

__global__ void __launch_bounds__(kBlock)
    weighted_kernel(const __grid_constant__ ResizeLaunch args, int64_t total) {
  for (int64_t i = first_item(); i < total; i += item_step()) {
    const Place place = place_of(args, i);
    Window windows[kMaxResized];
    for (int a = 0; a < kMaxResized; ++a) {
      // Axes that are not there look at one element.
      windows[a] = a < args.count ? window_of(args, a, place.at[a]) : Window{0, 0, 1, 0, 0, 1, 1};
    }
    const auto element = [&](int64_t at) {
      return static_cast<double>(load_f32(args.x.dtype, args.x.data, at));
    };
    double value;
    if (args.count == 0) {
      value = element(place.offset);
    } else if (args.count == 1) {
      value = weigh(args, windows[0], place.offset, element);
    } else {
      value = weigh(args, windows[0], place.offset, [&](int64_t plane) {
        return weigh(args, windows[1], plane, [&](int64_t row) {
          return args.count == 2 ? element(row) : weigh(args, windows[2], row, element);
        });
      });
    }
    store_f64(args.y.dtype, args.y.data, i, value);
  }
}

}  // namespace

cudaError_t resize_nearest(const ResizeLaunch& args, cudaStream_t stream) {
  const int64_t total = elems_of(args.y);
  if (total == 0) return cudaSuccess;
  with_width(width_of(args.y.dtype), [&](auto t) {
    nearest_kernel<decltype(t)><<<blocks_for(total), kBlock, 0, stream>>>(args, total);
  });
  return cudaGetLastError();
}

cudaError_t resize_weighted(const ResizeLaunch& args, cudaStream_t stream) {
  const int64_t total = elems_of(args.y);
  if (total == 0) return cudaSuccess;
  weighted_kernel<<<blocks_for(total), kBlock, 0, stream>>>(args, total);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
