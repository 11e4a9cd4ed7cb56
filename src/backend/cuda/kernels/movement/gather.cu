// Gather, GatherElements, GatherND; contract in gather.h. C++17.
#include "backend/cuda/kernels/movement/gather.h"
#include "backend/cuda/kernels/movement/units.cuh"

namespace vernier::backend::cuda {
namespace {

struct RowGather {
  int64_t count, size, units, total;  // indices, table entries, units per row, units of y
};

template <class T>
__global__ void __launch_bounds__(kBlock)
    gather_rows_kernel(const __grid_constant__ GatherLaunch args, RowGather g) {
  const T* data = reinterpret_cast<const T*>(args.data.data);
  T* y = reinterpret_cast<T*>(args.y.data);
  for (int64_t i = first_item(); i < g.total; i += item_step()) {
    int64_t rest = i;
    const int64_t unit = take_axis(rest, g.units), n = take_axis(rest, g.count);
    const int64_t row =
        wrapped_index(load_integer(args.indices.dtype, args.indices.data, n), g.size);
    y[i] = row < 0 ? T{} : data[(rest * g.size + row) * g.units + unit];
  }
}

template <class T>
__global__ void __launch_bounds__(kBlock)
    gather_elements_kernel(const __grid_constant__ GatherLaunch args, int64_t total) {
  for (int64_t i = first_item(); i < total; i += item_step()) {
    const int64_t row = wrapped_index(load_integer(args.indices.dtype, args.indices.data, i),
                                      args.data.size[args.axis]);
    int64_t rest = i, from = 0;
    for (int axis = args.data.rank - 1; axis >= 0; --axis) {
      const int64_t at = take_axis(rest, args.indices.size[axis]);
      from += (axis == args.axis ? row : at) * args.data.stride[axis];
    }
    reinterpret_cast<T*>(args.y.data)[i] =
        row < 0 ? T{} : reinterpret_cast<const T*>(args.data.data)[from];
  }
}

struct TupleGather {
  int depth;
  int64_t per_batch, units, total;  // tuples per batch, units per slice, units of y
};

template <class T>
__global__ void __launch_bounds__(kBlock)
    gather_tuples_kernel(const __grid_constant__ GatherLaunch args, TupleGather g) {
  for (int64_t i = first_item(); i < g.total; i += item_step()) {
    int64_t tuple = i;
    const int64_t unit = take_axis(tuple, g.units);
    int64_t from = tuple / g.per_batch;
    bool inside = true;
    for (int k = 0; k < g.depth; ++k) {
      const int64_t size = args.data.size[args.batch_dims + k];
      const int64_t at = wrapped_index(
          load_integer(args.indices.dtype, args.indices.data, tuple * g.depth + k), size);
      inside = inside && at >= 0;
      from = from * size + at;
    }
    reinterpret_cast<T*>(args.y.data)[i] =
        inside ? reinterpret_cast<const T*>(args.data.data)[from * g.units + unit] : T{};
  }
}

int64_t product(const Array& a, int begin, int end) {
  int64_t count = 1;
  for (int i = begin; i < end; ++i) count *= a.size[i];
  return count;
}

}  // namespace

cudaError_t gather_rows(const GatherLaunch& args, cudaStream_t stream) {
  const int64_t elems = elems_of(args.y);
  if (elems == 0) return cudaSuccess;
  const int width = width_of(args.data.dtype);
  const int64_t row_bytes = product(args.data, args.axis + 1, args.data.rank) * width;
  const int unit = unit_bytes(row_bytes, width, args.data.data, args.y.data);
  const RowGather g{elems_of(args.indices), args.data.size[args.axis], row_bytes / unit,
                    elems * width / unit};
  with_unit(unit, [&](auto t) {
    gather_rows_kernel<decltype(t)><<<blocks_for(g.total), kBlock, 0, stream>>>(args, g);
  });
  return cudaGetLastError();
}

cudaError_t gather_elements(const GatherLaunch& args, cudaStream_t stream) {
  const int64_t elems = elems_of(args.y);
  if (elems == 0) return cudaSuccess;
  with_width(width_of(args.data.dtype), [&](auto t) {
    gather_elements_kernel<decltype(t)><<<blocks_for(elems), kBlock, 0, stream>>>(args, elems);
  });
  return cudaGetLastError();
}

cudaError_t gather_tuples(const GatherLaunch& args, cudaStream_t stream) {
  const int64_t elems = elems_of(args.y);
  if (elems == 0) return cudaSuccess;
  const int width = width_of(args.data.dtype);
  const auto depth = static_cast<int>(args.indices.size[args.indices.rank - 1]);
  const int64_t slice_bytes = product(args.data, args.batch_dims + depth, args.data.rank) * width;
  const int64_t tuples = product(args.indices, 0, args.indices.rank - 1);
  const int unit = unit_bytes(slice_bytes, width, args.data.data, args.y.data);
  const TupleGather g{depth, tuples / product(args.data, 0, args.batch_dims), slice_bytes / unit,
                      elems * width / unit};
  with_unit(unit, [&](auto t) {
    gather_tuples_kernel<decltype(t)><<<blocks_for(g.total), kBlock, 0, stream>>>(args, g);
  });
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
