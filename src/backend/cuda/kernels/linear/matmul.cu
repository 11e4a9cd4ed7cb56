// Matrix products of any strides; contract in matmul.h, tiles in device/product.cuh. C++17.
#include "backend/cuda/device/product.cuh"
#include "backend/cuda/kernels/linear/matmul_runs.cuh"

namespace vernier::backend::cuda {
namespace {

struct StridedProduct {
  struct Batch {
    int64_t a, b, c, addend;  // offsets of its matrices
  };
  struct Row {
    int64_t at;  // of its first element
  };
  using Col = Row;
  ProductLaunch p;
  int64_t rows, cols, batches;
  int k;

  __device__ bool a_along_k() const { return p.a.col_step == 1 || p.a.row_step != 1; }
  __device__ bool b_along_k() const { return p.b.row_step == 1 && p.b.col_step != 1; }
  __device__ int64_t offset(const Matrices& m, int64_t batch) const {
    int64_t at = 0;
#pragma unroll 1
    for (int axis = p.batch_axes - 1; axis >= 0; --axis)
      at += take_axis(batch, p.batch[axis]) * m.batch_step[axis];
    return at;
  }
  __device__ Batch begin(int64_t batch) const {
    return {offset(p.a, batch), offset(p.b, batch), offset(p.c, batch),
            p.addend.data == nullptr ? 0 : offset(p.addend, batch)};
  }
  __device__ Row row(const Batch& batch, int64_t r) const { return {batch.a + r * p.a.row_step}; }
  __device__ Col col(const Batch& batch, int64_t c) const { return {batch.b + c * p.b.col_step}; }
  __device__ float a(Row row, int at) const {
    return load_f32(p.a.type, p.a.data, row.at + at * p.a.col_step);
  }
  __device__ float b(Col col, int at) const {
    return load_f32(p.b.type, p.b.data, col.at + at * p.b.row_step);
  }
  template <class T>
  __device__ T a16(Row row, int at) const {
    return reinterpret_cast<const T*>(p.a.data)[row.at + at * p.a.col_step];
  }
  template <class T>
  __device__ T b16(Col col, int at) const {
    return reinterpret_cast<const T*>(p.b.data)[col.at + at * p.b.row_step];
  }
  // `run` elements from `at` if they are neighbors, inside and aligned.
  template <class T>
  __device__ const T* run(const Matrices& m, int64_t at, int64_t step, bool inside) const {
    const T* src = reinterpret_cast<const T*>(m.data) + at;
    const bool aligned = reinterpret_cast<uintptr_t>(src) % (kRun * sizeof(T)) == 0;
    return step == 1 && inside && aligned ? src : nullptr;
  }
  template <class T>
  __device__ const T* a_run(const Batch& batch, int64_t r, int at) const {
    if (r >= rows || at >= k) return nullptr;
    const int64_t from = row(batch, r).at + at * p.a.col_step;
    return a_along_k() ? run<T>(p.a, from, p.a.col_step, at + kRun <= k)
                       : run<T>(p.a, from, p.a.row_step, r + kRun <= rows);
  }
  template <class T>
  __device__ const T* b_run(const Batch& batch, int64_t c, int at) const {
    if (c >= cols || at >= k) return nullptr;
    const int64_t from = col(batch, c).at + at * p.b.row_step;
    return b_along_k() ? run<T>(p.b, from, p.b.row_step, at + kRun <= k)
                       : run<T>(p.b, from, p.b.col_step, c + kRun <= cols);
  }
  __device__ float alpha() const { return p.alpha; }
  template <class T>
  __device__ T* out_run(const Batch& batch, int64_t r, int64_t c) const {
    constexpr bool kHalf = std::is_same<T, __half>::value;
    T* to = reinterpret_cast<T*>(p.c.data) + batch.c + r * p.c.row_step + c;
    const bool runs = p.c.type == (kHalf ? DType::kF16 : DType::kBF16) && p.c.col_step == 1 &&
                      p.c.row_step % kRun == 0 && p.addend.data == nullptr &&
                      reinterpret_cast<uintptr_t>(to) % (kRun * sizeof(T)) == 0;
    return runs ? to : nullptr;
  }
  __device__ void store(const Batch& batch, int64_t r, int64_t c, float sum) const {
    float value = sum * p.alpha;
    if (p.addend.data != nullptr) {
      const int64_t at = batch.addend + r * p.addend.row_step + c * p.addend.col_step;
      value += p.beta * load_f32(p.addend.type, p.addend.data, at);
    }
    store_f32(p.c.type, p.c.data, batch.c + r * p.c.row_step + c * p.c.col_step, value);
  }
};

__global__ void __launch_bounds__(kBlock)
    product_integers(const __grid_constant__ StridedProduct s, int64_t total) {
  const ProductLaunch& p = s.p;
  for (int64_t i = first_item(); i < total; i += item_step()) {
    int64_t rest = i;
    const int64_t c = take_axis(rest, s.cols), r = take_axis(rest, s.rows);
    const StridedProduct::Batch batch = s.begin(rest);
    const int64_t left = s.row(batch, r).at, right = s.col(batch, c).at;
    uint64_t sum = 0;
    for (int k = 0; k < s.k; ++k) {
      sum += static_cast<uint64_t>(load_integer(p.a.type, p.a.data, left + k * p.a.col_step)) *
             static_cast<uint64_t>(load_integer(p.b.type, p.b.data, right + k * p.b.row_step));
    }
    store_integer(p.c.type, p.c.data, batch.c + r * p.c.row_step + c * p.c.col_step,
                  static_cast<int64_t>(sum));
  }
}

StridedProduct product_of(const ProductLaunch& p) { return {p, p.rows, p.cols, p.batches, p.k}; }

// ---- matmul_runs.cuh

constexpr int kMultiprocessors = 132;

bool has_runs(const Matrices& m, int batch_axes, int64_t step) {
  bool aligned = reinterpret_cast<uintptr_t>(m.data) % 16 == 0 && step % runs::kChunk == 0;
  for (int axis = 0; axis < batch_axes; ++axis)
    aligned = aligned && m.batch_step[axis] % runs::kChunk == 0;
  return aligned;
}
bool is_along_k(const ProductLaunch& p) {
  return p.b.row_step == 1 && has_runs(p.b, p.batch_axes, p.b.col_step);
}
constexpr int64_t tiles_of(int64_t size, int tile) { return (size + tile - 1) / tile; }
int64_t run_tiles(const ProductLaunch& p) {
  return tiles_of(p.rows, runs::kRows) * tiles_of(p.cols, runs::kCols) * p.batches;
}
// Smaller tiles occupy more multiprocessors where these would leave most without work.
bool takes_runs(const ProductLaunch& p) {
  const int64_t tiles = run_tiles(p);
  return tiles >= kMultiprocessors / 3 && tiles < int64_t{1} << 31 && p.k % runs::kChunk == 0 &&
         p.cols % runs::kChunk == 0 && p.addend.data == nullptr && p.a.col_step == 1 &&
         has_runs(p.a, p.batch_axes, p.a.row_step) &&
         (is_along_k(p) || (p.b.col_step == 1 && has_runs(p.b, p.batch_axes, p.b.row_step))) &&
         p.c.type == p.a.type && p.c.col_step == 1 && has_runs(p.c, p.batch_axes, p.c.row_step);
}
runs::Launch runs_of(const ProductLaunch& p) {
  return {p, static_cast<uint32_t>(tiles_of(p.rows, runs::kRows)),
          static_cast<uint32_t>(tiles_of(p.cols, runs::kCols)),
          static_cast<uint32_t>(run_tiles(p))};
}
template <class T, bool kAlongK>
cudaError_t launch_runs(const runs::Launch& launch, cudaStream_t stream) {
  constexpr int kBytes = runs::kStages * runs::kStageBytes, kMost = 2 * kMultiprocessors;
  const auto kernel = &runs::multiply_runs<T, kAlongK>;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  const unsigned blocks = launch.tiles < kMost ? launch.tiles : kMost;
  kernel<<<blocks, runs::kThreads, kBytes, stream>>>(launch);
  return cudaGetLastError();
}
template <class T>
cudaError_t launch_runs(const runs::Launch& launch, cudaStream_t stream) {
  return is_along_k(launch.p) ? launch_runs<T, true>(launch, stream)
                              : launch_runs<T, false>(launch, stream);
}

}  // namespace

cudaError_t multiply(const ProductLaunch& p, bool tensor_cores, cudaStream_t stream) {
  const StridedProduct s = product_of(p);
  if (p.rows == 0 || p.cols == 0 || p.batches == 0) return cudaSuccess;
  const dim3 grid = product_grid(s);
  if (tensor_cores && takes_runs(p))
    return p.a.type == DType::kF16 ? launch_runs<__half>(runs_of(p), stream)
                                   : launch_runs<__nv_bfloat16>(runs_of(p), stream);
  if (!tensor_cores)
    product_f32<<<grid, kBlock, 0, stream>>>(s);
  else if (p.a.type == DType::kF16)
    product_16<StridedProduct, __half><<<grid, kThreads16, 0, stream>>>(s);
  else
    product_16<StridedProduct, __nv_bfloat16><<<grid, kThreads16, 0, stream>>>(s);
  return cudaGetLastError();
}

cudaError_t multiply_integers(const ProductLaunch& p, cudaStream_t stream) {
  const int64_t total = p.rows * p.cols * p.batches;
  if (total == 0) return cudaSuccess;
  product_integers<<<blocks_for(total), kBlock, 0, stream>>>(product_of(p), total);
  return cudaGetLastError();
}

}  // namespace vernier::backend::cuda
