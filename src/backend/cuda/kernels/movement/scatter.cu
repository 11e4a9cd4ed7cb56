// ScatterElements, ScatterND; contract in scatter.h. C++17.
#include "backend/cuda/device/elements.cuh"
#include "backend/cuda/kernels/movement/scatter.h"

namespace vernier::backend::cuda {
namespace {

// What the launch derives from the shapes.
struct Layout {
  int64_t places, updates, slice;  // slice: elements of y per place
  int depth;                       // indices per update
  int64_t step;                    // updates of one line along `axis` are this far apart
  int64_t inner, size;             // of y along `axis`
  int width;
};

__device__ int64_t index_at(const Array& indices, int64_t i) {
  return load_integer(indices.dtype, indices.data, i);
}

// The place that update t names, or −1.
__device__ int64_t place_of(const ScatterLaunch& args, const Layout& l, int64_t t) {
  if (args.tuples) {
    int64_t place = 0;
    for (int k = 0; k < l.depth; ++k) {
      const int64_t at = wrapped_index(index_at(args.indices, t * l.depth + k), args.data.size[k]);
      if (at < 0) return -1;
      place = place * args.data.size[k] + at;
    }
    return place;
  }
  const int64_t row = wrapped_index(index_at(args.indices, t), l.size);
  if (row < 0) return -1;
  int64_t rest = t, place = 0;
  for (int axis = args.data.rank - 1; axis >= 0; --axis) {
    const int64_t at = take_axis(rest, args.indices.size[axis]);
    place += (axis == args.axis ? row : at) * args.data.stride[axis];
  }
  return place;
}

// marks[place] = first update, marks[places + place] = last update. Order does not matter.
__global__ void __launch_bounds__(kBlock)
    mark_kernel(const __grid_constant__ ScatterLaunch args, Layout l) {
  for (int64_t t = first_item(); t < l.updates; t += item_step()) {
    const int64_t place = place_of(args, l, t);
    if (place < 0) continue;
    auto* marks = reinterpret_cast<long long*>(args.marks);
    atomicMin(marks + place, static_cast<long long>(t));
    atomicMax(marks + l.places + place, static_cast<long long>(t));
  }
}

__device__ float combined(Combine combine, float old, float update) {
  switch (combine) {
    case Combine::kAdd:
      return old + update;
    case Combine::kMul:
      return old * update;
    case Combine::kMin:
      return update < old || update != update ? update : old;
    case Combine::kMax:
      return update > old || update != update ? update : old;
    default:
      return update;
  }
}
__device__ int64_t combined(Combine combine, int64_t old, int64_t update) {
  switch (combine) {
    case Combine::kAdd:
      return static_cast<int64_t>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
    case Combine::kMul:
      return static_cast<int64_t>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
    case Combine::kMin:
      return update < old ? update : old;
    case Combine::kMax:
      return update > old ? update : old;
    default:
      return update;
  }
}

// apply(t) for the updates of a place, in order.
template <class Apply>
__device__ void for_each_update(const ScatterLaunch& args, const Layout& l, int64_t place,
                                const Apply& apply) {
  const int64_t last = args.marks[l.places + place];
  const int64_t row = place / l.inner % l.size;
  for (int64_t t = args.marks[place]; t <= last; t += l.step) {
    const bool named = args.tuples ? place_of(args, l, t) == place
                                   : wrapped_index(index_at(args.indices, t), l.size) == row;
    if (named) apply(t);
  }
}

// kIntegers: of integers, else of f32, f16 and bf16.
template <bool kIntegers>
__global__ void __launch_bounds__(kBlock)
    apply_kernel(const __grid_constant__ ScatterLaunch args, Layout l) {
  const Array &data = args.data, &updates = args.updates, &y = args.y;
  for (int64_t i = first_item(); i < l.places * l.slice; i += item_step()) {
    const int64_t place = i / l.slice, within = i - place * l.slice;
    const int64_t last = args.marks[l.places + place];
    if (last < 0) {
      move_element(data.dtype, data.data, i, y.dtype, y.data, i, l.width);
    } else if (args.combine == Combine::kReplace) {
      move_element(updates.dtype, updates.data, last * l.slice + within, y.dtype, y.data, i,
                   l.width);
    } else if (kIntegers) {
      int64_t value = load_integer(data.dtype, data.data, i);
      for_each_update(args, l, place, [&](int64_t t) {
        value = combined(args.combine, value,
                         load_integer(updates.dtype, updates.data, t * l.slice + within));
      });
      store_integer(y.dtype, y.data, i, value);
    } else {
      float value = load_f32(data.dtype, data.data, i);
      for_each_update(args, l, place, [&](int64_t t) {
        const float update = load_f32(updates.dtype, updates.data, t * l.slice + within);
        value = combined(args.combine, value, update);
      });
      store_f32(y.dtype, y.data, i, value);
    }
  }
}

int64_t product(const Array& a, int begin, int end) {
  int64_t count = 1;
  for (int i = begin; i < end; ++i) count *= a.size[i];
  return count;
}

Layout layout_of(const ScatterLaunch& args) {
  Layout l{};
  l.width = width_of(args.y.dtype);
  l.places = scatter_mark_count(args.data, args.indices, args.tuples) / 2;
  l.inner = l.size = l.step = l.slice = l.depth = 1;
  if (args.tuples) {
    l.depth = static_cast<int>(args.indices.size[args.indices.rank - 1]);
    l.updates = product(args.indices, 0, args.indices.rank - 1);
    l.slice = product(args.data, l.depth, args.data.rank);
  } else {
    l.updates = elems_of(args.indices);
    l.inner = product(args.data, args.axis + 1, args.data.rank);
    l.size = args.data.size[args.axis];
    l.step = product(args.indices, args.axis + 1, args.indices.rank);
  }
  return l;
}

constexpr bool is_float_type(DType type) { return type <= DType::kBF16; }

}  // namespace

int64_t scatter_mark_count(const Array& data, const Array& indices, bool tuples) {
  const auto depth = tuples ? static_cast<int>(indices.size[indices.rank - 1]) : data.rank;
  return 2 * product(data, 0, depth);
}

cudaError_t scatter(const ScatterLaunch& args, cudaStream_t stream) {
  const Layout l = layout_of(args);
  const int64_t elems = elems_of(args.y);
  if (elems == 0) return cudaSuccess;
  // Firsts start above every update, lasts at −1.
  const auto bytes = static_cast<size_t>(l.places) * sizeof(int64_t);
  cudaError_t status = cudaMemsetAsync(args.marks, 0x7f, bytes, stream);
  if (status == cudaSuccess) status = cudaMemsetAsync(args.marks + l.places, 0xff, bytes, stream);
  if (status != cudaSuccess) return status;
  if (l.updates > 0 && l.slice > 0)
    mark_kernel<<<blocks_for(l.updates), kBlock, 0, stream>>>(args, l);
  if (is_float_type(args.y.dtype))
    apply_kernel<false><<<blocks_for(elems), kBlock, 0, stream>>>(args, l);
  else
    apply_kernel<true><<<blocks_for(elems), kBlock, 0, stream>>>(args, l);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
