// A row's padding becomes 0, and packed tokens go back to their places: blocks of one row each,
// units of up to 16 bytes. Contract: zero_padding.h. C++17.
#include "backend/cuda/kernels/movement/token_rows.cuh"
#include "backend/cuda/kernels/movement/units.cuh"
#include "backend/cuda/kernels/movement/zero_padding.h"

namespace vernier::backend::cuda {
namespace {

constexpr int64_t kUnitsPerBlock = int64_t{kBlock} * 8;

struct Rows {
  int64_t units, places, blocks;  // of a place, of packed x; blocks of a row
  bool of_floats;                 // the mask
};

template <class T>
__global__ void __launch_bounds__(kBlock)
    zero_padding_kernel(const __grid_constant__ ZeroPaddingLaunch args, Rows rows) {
  const int64_t length = args.mask.size[1], row = blockIdx.x / rows.blocks,
                begin = blockIdx.x % rows.blocks * kUnitsPerBlock,
                end = min(begin + kUnitsPerBlock, length * rows.units);
  __shared__ Span counted;
  if (threadIdx.x < 32) {
    const Span found = tokens_of_row(args.mask, args.padding, row, rows.of_floats);
    if (threadIdx.x == 0) counted = found;
  }
  __syncthreads();
  const int64_t place = row * length + counted.first;
  int64_t first = place, tokens = counted.count;
  if (args.places.data != nullptr && tokens > 0) {
    first = reinterpret_cast<const int32_t*>(args.places.data)[place];
    tokens = first < 0 ? 0 : min(tokens, rows.places - first);
  }
  const int64_t front = counted.first * rows.units;
  const T* from = reinterpret_cast<const T*>(args.x.data) + (tokens > 0 ? first * rows.units : 0);
  T* to = reinterpret_cast<T*>(args.y.data) + row * length * rows.units;
  for (int64_t i = begin + threadIdx.x; i < end; i += kBlock)
    to[i] = i >= front && i - front < tokens * rows.units ? from[i - front] : T{};
}

}  // namespace

cudaError_t zero_padding(const ZeroPaddingLaunch& args, cudaStream_t stream) {
  const int64_t elems = elems_of(args.y);
  if (elems == 0) return cudaSuccess;
  const int64_t batch = args.y.size[0], length = args.y.size[1];
  const int width = width_of(args.y.dtype);
  const int64_t place_bytes = elems / (batch * length) * width;
  const int unit = unit_bytes(place_bytes, width, args.x.data, args.y.data);
  const int64_t units = place_bytes / unit;
  const Rows rows{units, args.x.size[1], (length * units + kUnitsPerBlock - 1) / kUnitsPerBlock,
                  args.mask.dtype <= DType::kBF16};
  with_unit(unit, [&](auto t) {
    zero_padding_kernel<decltype(t)>
        <<<static_cast<unsigned>(batch * rows.blocks), kBlock, 0, stream>>>(args, rows);
  });
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
