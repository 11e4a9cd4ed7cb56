// Linear of any size; contract in linear_plain.h, tiles in device/product.cuh. C++17.
#include "backend/cuda/device/elementwise_math.cuh"
#include "backend/cuda/device/product.cuh"
#include "backend/cuda/kernels/linear/linear_plain.h"

namespace vernier::backend::cuda {
namespace {

struct LinearProduct {
  struct Batch {};
  struct Row {
    int64_t at;  // of its first element
  };
  using Col = Row;
  LinearPlain p;
  int64_t rows, cols, batches;
  int k;

  __device__ bool a_along_k() const { return true; }
  __device__ bool b_along_k() const { return p.trans_w; }
  __device__ Batch begin(int64_t) const { return {}; }
  __device__ Row row(Batch, int64_t r) const { return {r * k}; }
  __device__ Col col(Batch, int64_t c) const { return {p.trans_w ? c * k : c}; }
  __device__ int64_t b_step() const { return p.trans_w ? 1 : cols; }
  __device__ float a(Row row, int at) const { return load_f32(p.x.type, p.x.data, row.at + at); }
  __device__ float b(Col col, int at) const {
    return load_f32(p.w.type, p.w.data, col.at + at * b_step());
  }
  template <class T>
  __device__ T a16(Row row, int at) const {
    return reinterpret_cast<const T*>(p.x.data)[row.at + at];
  }
  template <class T>
  __device__ T b16(Col col, int at) const {
    return reinterpret_cast<const T*>(p.w.data)[col.at + at * b_step()];
  }
  // `kRun` elements from `at` if they are inside and aligned.
  template <class T>
  __device__ const T* run(const std::byte* data, int64_t at, bool inside) const {
    const T* src = reinterpret_cast<const T*>(data) + at;
    const bool aligned = reinterpret_cast<uintptr_t>(src) % (kRun * sizeof(T)) == 0;
    return inside && aligned ? src : nullptr;
  }
  template <class T>
  __device__ const T* a_run(Batch batch, int64_t r, int at) const {
    return run<T>(p.x.data, row(batch, r).at + at, r < rows && at + kRun <= k);
  }
  template <class T>
  __device__ const T* b_run(Batch batch, int64_t c, int at) const {
    const bool inside = p.trans_w ? c < cols && at + kRun <= k : c + kRun <= cols && at < k;
    return run<T>(p.w.data, col(batch, c).at + at * b_step(), inside);
  }
  __device__ void store(Batch, int64_t r, int64_t c, float sum) const {
    float value = sum;
    if (p.bias.data != nullptr) value += load_f32(p.bias.type, p.bias.data, c);
    value = activated(p.activation, value);
    const int64_t at = r * cols + c;
    if (p.residual.data != nullptr) value += load_f32(p.residual.type, p.residual.data, at);
    store_f32(p.y.type, p.y.data, at, value);
  }
};

}  // namespace

cudaError_t launch_linear_plain(const LinearPlain& p, bool tensor_cores, cudaStream_t stream) {
  if (p.m == 0 || p.n == 0) return cudaSuccess;
  const LinearProduct product{p, p.m, p.n, 1, p.k};
  const dim3 grid = product_grid(product);
  if (!tensor_cores)
    product_f32<<<grid, kBlock, 0, stream>>>(product);
  else if (p.x.type == DType::kF16)
    product_16<LinearProduct, __half><<<grid, kThreads16, 0, stream>>>(product);
  else
    product_16<LinearProduct, __nv_bfloat16><<<grid, kThreads16, 0, stream>>>(product);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
