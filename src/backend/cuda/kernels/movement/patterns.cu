// OneHot, Range, EyeLike, Shape, Size, Trilu, ReverseSequence; contract in patterns.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/movement/patterns.h"

namespace vernier::backend::cuda {
namespace {

constexpr bool is_float_type(DType type) { return type <= DType::kBF16; }

// index[i] as a place on an axis of `size`, or −1.
__device__ int64_t place_of(const Array& indices, int64_t i, int64_t size, bool of_floats) {
  if (!of_floats) return wrapped_index(load_integer(indices.dtype, indices.data, i), size);
  double index = load_f64(indices.dtype, indices.data, i);
  if (index < 0) index += static_cast<double>(size);
  const bool inside = index >= 0 && index < static_cast<double>(size);
  return inside ? static_cast<int64_t>(index) : -1;
}

__global__ void __launch_bounds__(kBlock)
    one_hot_kernel(const __grid_constant__ OneHotLaunch args, int64_t total, int64_t inner,
                   int width, bool of_floats) {
  const Array& y = args.y;
  const int64_t size = y.size[args.axis];
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t outer = i;
    const int64_t within = take_axis(outer, inner), k = take_axis(outer, size);
    const int64_t place = place_of(args.indices, outer * inner + within, size, of_floats);
    move_element(args.values.dtype, args.values.data, place == k ? 1 : 0, y.dtype, y.data, i,
                 width);
  }
}

__global__ void __launch_bounds__(kBlock)
    range_kernel(const __grid_constant__ Array start, const __grid_constant__ Array delta,
                 const __grid_constant__ Array y, int64_t total, bool of_floats) {
  for (int64_t i = first_item(); i < total; i += item_step()) {
    if (of_floats) {
      const double step = load_f64(delta.dtype, delta.data, 0);
      store_f64(y.dtype, y.data, i,
                load_f64(start.dtype, start.data, 0) + static_cast<double>(i) * step);
    } else {
      const auto step = static_cast<uint64_t>(load_integer(delta.dtype, delta.data, 0));
      const auto first = static_cast<uint64_t>(load_integer(start.dtype, start.data, 0));
      store_integer(y.dtype, y.data, i,
                    static_cast<int64_t>(first + static_cast<uint64_t>(i) * step));
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    eye_kernel(T* y, int64_t total, int64_t cols, int64_t k, T one) {
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t row = i;
    const int64_t col = take_axis(row, cols);
    y[i] = col == row + k ? one : T{0};
  }
}

__global__ void sizes_kernel(const __grid_constant__ SizesLaunch args, int64_t* y) {
  if (threadIdx.x < args.count) y[threadIdx.x] = args.sizes[threadIdx.x];
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    triangle_kernel(const __grid_constant__ TriangleLaunch args, int64_t total) {
  const int64_t rows = args.x.size[args.x.rank - 2], cols = args.x.size[args.x.rank - 1];
  const int64_t k = args.k.data == nullptr ? 0 : load_integer(args.k.dtype, args.k.data, 0);
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t rest = i;
    const int64_t col = take_axis(rest, cols), diagonal = col - take_axis(rest, rows);
    const bool kept = args.upper ? diagonal >= k : diagonal <= k;
    reinterpret_cast<T*>(args.y.data)[i] = kept ? reinterpret_cast<const T*>(args.x.data)[i] : T{0};
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    reverse_kernel(const __grid_constant__ ReverseLaunch args, int64_t total) {
  const Array& x = args.x;
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t rest = i, at[2] = {0, 0};
    for (int axis = x.rank - 1; axis >= 0; --axis) {
      const int64_t place = take_axis(rest, x.size[axis]);
      if (axis == args.batch_axis) at[0] = place;
      if (axis == args.time_axis) at[1] = place;
    }
    int64_t length = load_integer(args.lengths.dtype, args.lengths.data, at[0]);
    length = min(length, x.size[args.time_axis]);
    const int64_t from = at[1] < length ? length - 1 - at[1] : at[1];
    reinterpret_cast<T*>(args.y.data)[i] =
        reinterpret_cast<const T*>(x.data)[i + (from - at[1]) * x.stride[args.time_axis]];
  }
}

}  // namespace

cudaError_t one_hot(const OneHotLaunch& args, cudaStream_t stream) {
  const int64_t total = elems_of(args.y);
  if (total == 0) return cudaSuccess;
  int64_t inner = 1;
  for (int i = args.axis + 1; i < args.y.rank; ++i) inner *= args.y.size[i];
  one_hot_kernel<<<blocks_for(total), kBlock, 0, stream>>>(
      args, total, inner, width_of(args.y.dtype), is_float_type(args.indices.dtype));
  return cudaGetLastError();
}

cudaError_t range(const Array& start, const Array& delta, const Array& y, cudaStream_t stream) {
  const int64_t total = elems_of(y);
  if (total == 0) return cudaSuccess;
  range_kernel<<<blocks_for(total), kBlock, 0, stream>>>(start, delta, y, total,
                                                         is_float_type(y.dtype));
  return cudaGetLastError();
}

cudaError_t eye_like(const Array& y, int64_t k, uint64_t one, cudaStream_t stream) {
  const int64_t total = elems_of(y);
  if (total == 0) return cudaSuccess;
  with_width(width_of(y.dtype), [&](auto t) {
    using T = decltype(t);
    eye_kernel<T><<<blocks_for(total), kBlock, 0, stream>>>(reinterpret_cast<T*>(y.data), total,
                                                            y.size[1], k, static_cast<T>(one));
  });
  return cudaGetLastError();
}

cudaError_t store_sizes(const SizesLaunch& args, const Array& y, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  sizes_kernel<<<1, 32, 0, stream>>>(args, reinterpret_cast<int64_t*>(y.data));
  return cudaGetLastError();
}

cudaError_t keep_triangle(const TriangleLaunch& args, cudaStream_t stream) {
  const int64_t total = elems_of(args.y);
  if (total == 0) return cudaSuccess;
  with_width(width_of(args.y.dtype), [&](auto t) {
    triangle_kernel<decltype(t)><<<blocks_for(total), kBlock, 0, stream>>>(args, total);
  });
  return cudaGetLastError();
}

cudaError_t reverse_sequences(const ReverseLaunch& args, cudaStream_t stream) {
  const int64_t total = elems_of(args.y);
  if (total == 0) return cudaSuccess;
  with_width(width_of(args.y.dtype), [&](auto t) {
    reverse_kernel<decltype(t)><<<blocks_for(total), kBlock, 0, stream>>>(args, total);
  });
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
