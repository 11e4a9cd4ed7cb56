// Convolutions as implicit matrix products; contract in conv.h, tiles in device/product.cuh. C++17.
#include "backend/cuda/device/divider.cuh"
#include "backend/cuda/device/product.cuh"
#include "backend/cuda/kernels/convolution/conv.h"

namespace vernier::backend::cuda {
namespace {

struct ConvProduct {
  struct Batch {
    int64_t group;
  };
  struct Row {
    int64_t at;  // of the channel's weights
  };
  struct Col {
    int64_t at;  // of the group's channels of the image
    int start[kSpatial];
  };
  ConvLaunch conv;
  int64_t rows, cols, batches;
  int k;
  int64_t in_plane, out_plane;
  Divider<uint32_t> taps, plane_taps, row_taps;  // of the kernel: all, of two axes, of the last
  bool pointwise;  // the window is one element, positions are those of the input

  explicit ConvProduct(const ConvLaunch& c)
      : conv(c),
        rows(c.group_out),
        cols(c.batch * c.windows.out_plane()),
        batches(c.groups),
        k(static_cast<int>(c.group_in * c.windows.taps())),
        in_plane(c.windows.in_plane()),
        out_plane(c.windows.out_plane()),
        taps(c.windows.taps()),
        plane_taps(int64_t{c.windows.kernel[1]} * c.windows.kernel[2]),
        row_taps(c.windows.kernel[2]),
        pointwise(c.windows.taps() == 1) {
    for (int i = 0; i < kSpatial; ++i)
      pointwise = pointwise && c.windows.stride[i] == 1 && c.windows.pad[i] == 0 &&
                  c.windows.in[i] == c.windows.out[i];
  }

  static __device__ constexpr bool a_along_k() { return true; }
  static __device__ constexpr bool b_along_k() { return false; }
  __device__ Batch begin(int64_t group) const { return {group}; }
  __device__ Row row(Batch batch, int64_t r) const { return {(batch.group * rows + r) * k}; }
  __device__ Col col(Batch batch, int64_t c) const {
    const Windows& w = conv.windows;
    Col col;
#pragma unroll
    for (int i = kSpatial - 1; i >= 0; --i)
      col.start[i] = static_cast<int>(take_axis(c, w.out[i])) * w.stride[i] - w.pad[i];
    col.at = (c * batches + batch.group) * conv.group_in * in_plane;
    return col;
  }
  // Where element `at` of the column's window is in x, or −1 in the padding.
  __device__ int64_t place(const Col& col, int at) const {
    const Windows& w = conv.windows;
    const uint32_t channel = taps(at), tap = at - channel * taps.divisor;
    const uint32_t t0 = plane_taps(tap), rest = tap - t0 * plane_taps.divisor;
    const uint32_t t1 = row_taps(rest), t2 = rest - t1 * row_taps.divisor;
    const int p0 = col.start[0] + static_cast<int>(t0) * w.dilation[0];
    const int p1 = col.start[1] + static_cast<int>(t1) * w.dilation[1];
    const int p2 = col.start[2] + static_cast<int>(t2) * w.dilation[2];
    const bool inside =
        p0 >= 0 && p0 < w.in[0] && p1 >= 0 && p1 < w.in[1] && p2 >= 0 && p2 < w.in[2];
    if (!inside) return -1;
    return col.at + channel * in_plane + (int64_t{p0} * w.in[1] + p1) * w.in[2] + p2;
  }
  __device__ float a(const Row& row, int at) const {
    return load_f32(conv.w_type, conv.w, row.at + at);
  }
  __device__ float b(const Col& col, int at) const {
    const int64_t from = place(col, at);
    return from < 0 ? 0.0f : load_f32(conv.x_type, conv.x, from);
  }
  template <class T>
  __device__ T a16(const Row& row, int at) const {
    return reinterpret_cast<const T*>(conv.w)[row.at + at];
  }
  template <class T>
  __device__ T b16(const Col& col, int at) const {
    const int64_t from = place(col, at);
    return from < 0 ? T(0.0f) : reinterpret_cast<const T*>(conv.x)[from];
  }
  template <class T>
  static __device__ const T* if_aligned(const T* src) {
    return reinterpret_cast<uintptr_t>(src) % (kRun * sizeof(T)) == 0 ? src : nullptr;
  }
  template <class T>
  __device__ const T* a_run(Batch batch, int64_t r, int at) const {
    if (r >= rows || at + kRun > k) return nullptr;
    return if_aligned(reinterpret_cast<const T*>(conv.w) + row(batch, r).at + at);
  }
  template <class T>
  __device__ const T* b_run(Batch batch, int64_t c, int at) const {
    if (!pointwise || at >= k || c + kRun > cols) return nullptr;
    int64_t image = c;
    const int64_t position = take_axis(image, out_plane);
    if (position + kRun > out_plane) return nullptr;
    const int64_t channel = (image * batches + batch.group) * conv.group_in + at;
    return if_aligned(reinterpret_cast<const T*>(conv.x) + channel * in_plane + position);
  }
  __device__ void store(Batch batch, int64_t r, int64_t c, float sum) const {
    const int64_t position = take_axis(c, out_plane), channel = batch.group * rows + r;
    if (conv.bias != nullptr) sum += load_f32(conv.bias_type, conv.bias, channel);
    store_f32(conv.y_type, conv.y, (c * batches * rows + channel) * out_plane + position, sum);
  }
};

// Operands and results of f64.
struct DoubleProduct : ConvProduct {
  using ConvProduct::ConvProduct;
  __device__ double a(const Row& row, int at) const {
    return reinterpret_cast<const double*>(conv.w)[row.at + at];
  }
  __device__ double b(const Col& col, int at) const {
    const int64_t from = place(col, at);
    return from < 0 ? 0.0 : reinterpret_cast<const double*>(conv.x)[from];
  }
  __device__ void store(Batch batch, int64_t r, int64_t c, double sum) const {
    const int64_t position = take_axis(c, out_plane), channel = batch.group * rows + r;
    if (conv.bias != nullptr) sum += reinterpret_cast<const double*>(conv.bias)[channel];
    reinterpret_cast<double*>(conv.y)[(c * batches * rows + channel) * out_plane + position] = sum;
  }
};

// One thread per output, for groups that fill no tile, and for f64.
template <class Product, class Sum>
__global__ void __launch_bounds__(kBlock)
    conv_direct(const __grid_constant__ Product p, int64_t total) {
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t rest = i;
    const int64_t position = take_axis(rest, p.out_plane), r = take_axis(rest, p.rows);
    const ConvProduct::Batch batch{take_axis(rest, p.batches)};
    const int64_t c = rest * p.out_plane + position;
    const ConvProduct::Row row = p.row(batch, r);
    const ConvProduct::Col col = p.col(batch, c);
    Sum sum = 0;
    for (int k = 0; k < p.k; ++k) sum = fma(p.a(row, k), p.b(col, k), sum);
    p.store(batch, r, c, sum);
  }
}

// Output positions of the windows that tap `tap` puts input position `at` into: −1 for none.
__device__ int spread_source(const Windows& w, int axis, int at, int tap) {
  const int numerator = at + w.pad[axis] - tap * w.dilation[axis];
  if (numerator < 0 || numerator % w.stride[axis] != 0) return -1;
  const int source = numerator / w.stride[axis];
  return source < w.out[axis] ? source : -1;
}

__global__ void __launch_bounds__(kBlock)
    conv_transpose_kernel(const __grid_constant__ ConvLaunch conv, int64_t total, int64_t x_plane,
                          int64_t taps) {
  const Windows& w = conv.windows;
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t rest = i;
    int at[kSpatial];
    for (int axis = kSpatial - 1; axis >= 0; --axis)
      at[axis] = static_cast<int>(take_axis(rest, w.in[axis]));
    const int64_t m = take_axis(rest, conv.group_out), group = take_axis(rest, conv.groups);
    float sum = 0;
    for (int c = 0; c < conv.group_in; ++c) {
      const int64_t channel = group * conv.group_in + c;
      const int64_t plane = (rest * conv.groups * conv.group_in + channel) * x_plane;
      int64_t tap = (channel * conv.group_out + m) * taps;
      for (int t0 = 0; t0 < w.kernel[0]; ++t0) {
        const int p0 = spread_source(w, 0, at[0], t0);
        for (int t1 = 0; t1 < w.kernel[1]; ++t1) {
          const int p1 = spread_source(w, 1, at[1], t1);
          for (int t2 = 0; t2 < w.kernel[2]; ++t2, ++tap) {
            const int p2 = spread_source(w, 2, at[2], t2);
            if (p0 < 0 || p1 < 0 || p2 < 0) continue;
            const int64_t from = plane + (int64_t{p0} * w.out[1] + p1) * w.out[2] + p2;
            sum =
                fmaf(load_f32(conv.x_type, conv.x, from), load_f32(conv.w_type, conv.w, tap), sum);
          }
        }
      }
    }
    if (conv.bias != nullptr)
      sum += load_f32(conv.bias_type, conv.bias, group * conv.group_out + m);
    store_f32(conv.y_type, conv.y, i, sum);
  }
}

constexpr int kFewChannels = 8;  // of 64 rows of a tile

}  // namespace

cudaError_t convolve(const ConvLaunch& conv, bool tensor_cores, cudaStream_t stream) {
  const ConvProduct p(conv);
  const int64_t total = p.rows * p.cols * p.batches;
  if (total == 0) return cudaSuccess;
  const dim3 grid = product_grid(p);
  if (conv.x_type == DType::kF64)
    conv_direct<DoubleProduct, double>
        <<<blocks_for(total), kBlock, 0, stream>>>(DoubleProduct(conv), total);
  else if (p.batches > 1 && p.rows < kFewChannels)
    conv_direct<ConvProduct, float><<<blocks_for(total), kBlock, 0, stream>>>(p, total);
  else if (!tensor_cores)
    product_f32<<<grid, kBlock, 0, stream>>>(p);
  else if (conv.x_type == DType::kF16)
    product_16<ConvProduct, __half><<<grid, kThreads16, 0, stream>>>(p);
  else
    product_16<ConvProduct, __nv_bfloat16><<<grid, kThreads16, 0, stream>>>(p);
  return cudaGetLastError();
}

cudaError_t convolve_transposed(const ConvLaunch& conv, cudaStream_t stream) {
  const int64_t total = conv.batch * conv.groups * conv.group_out * conv.windows.in_plane();
  if (total == 0) return cudaSuccess;
  conv_transpose_kernel<<<blocks_for(total), kBlock, 0, stream>>>(
      conv, total, conv.windows.out_plane(), conv.windows.taps());
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
