// Device code of the plants of a GPU: see cuda_faults.h. Wrong on purpose, and slow.
#include "backend/cuda/device/elements.cuh"
#include "plants/cuda_faults.h"

namespace vernier::test {
namespace {

using backend::cuda::blocks_for;
using backend::cuda::first_item;
using backend::cuda::item_step;
using backend::cuda::kBlock;
using backend::cuda::load_f32;
using backend::cuda::store_f32;

__global__ void add_next_row_kernel(FloatArray y, int64_t rows, int64_t cols, float factor) {
  for (int64_t r = first_item(); r + 1 < rows; r += item_step()) {
    const int64_t last = (r + 1) * cols - 1;
    const float next = load_f32(y.type, y.data, last + 1);
    store_f32(y.type, y.data, last, load_f32(y.type, y.data, last) + factor * next);
  }
}

__device__ unsigned arrivals = 0;

__device__ float addend(const FaultyNorm& norm, int64_t i) {
  const float x = load_f32(norm.x.type, norm.x.data, i);
  return norm.residual.data ? x + load_f32(norm.residual.type, norm.residual.data, i) : x;
}

__global__ void faulty_norm_kernel(FaultyNorm norm) {
  const auto n = static_cast<float>(norm.cols);
  for (int64_t r = first_item(); r < norm.rows; r += item_step()) {
    constexpr unsigned kStep = 37;
    const int64_t row = r * norm.cols;
    const int64_t first = norm.by_arrival ? atomicAdd(&arrivals, 1U) * kStep : norm.first;
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < norm.cols; ++i) {
      const float x = addend(norm, row + (first + i) % norm.cols);
      sum += x;
      squares += x * x;
    }
    const float mean = sum / n;
    float variance = fmaxf(squares / n - mean * mean, 0.0F);
    if (!norm.one_pass) {
      squares = 0;
      for (int64_t i = 0; i < norm.cols; ++i) {
        const float d = addend(norm, row + (first + i) % norm.cols) - mean;
        squares += d * d;
      }
      variance = squares / n;
    }
    const float inverse = 1 / sqrtf(variance + norm.epsilon);
    for (int64_t c = 0; c < norm.cols; ++c) {
      const float x = addend(norm, row + c);
      const float bias = norm.bias.data ? load_f32(norm.bias.type, norm.bias.data, c) : 0;
      const float scale = load_f32(norm.scale.type, norm.scale.data, c);
      store_f32(norm.y.type, norm.y.data, row + c, (x - mean) * inverse * scale + bias);
      if (norm.sum.data) store_f32(norm.sum.type, norm.sum.data, row + c, x);
    }
  }
}

__global__ void softmax_kernel(const float* x, float* y, int64_t rows, int64_t cols) {
  for (int64_t r = first_item(); r < rows; r += item_step()) {
    float sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += expf(x[r * cols + c]);
    for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = expf(x[r * cols + c]) / sum;
  }
}

__global__ void shift_keys_kernel(Array keep, uint8_t* dense, int64_t count) {
  const int64_t keys = keep.size[keep.rank - 1];
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const int64_t from = i % keys + 1 < keys ? i + 1 : i;
    dense[i] = static_cast<uint8_t>(keep.data[backend::cuda::offset_of(keep, from)]);
  }
}

__global__ void add_leftover_kernel(FloatArray y, const uint32_t* word) {
  const float part = static_cast<float>(*word & 0xffU) / 1024;
  store_f32(y.type, y.data, 0, load_f32(y.type, y.data, 0) + part);
}

}  // namespace

cudaError_t add_next_row(FloatArray y, int64_t rows, int64_t cols, float factor,
                         cudaStream_t stream) {
  add_next_row_kernel<<<blocks_for(rows), kBlock, 0, stream>>>(y, rows, cols, factor);
  return cudaGetLastError();
}
cudaError_t faulty_norm(const FaultyNorm& norm, cudaStream_t stream) {
  faulty_norm_kernel<<<blocks_for(norm.rows), kBlock, 0, stream>>>(norm);
  return cudaGetLastError();
}
cudaError_t softmax_without_maximum(const float* x, float* y, int64_t rows, int64_t cols,
                                    cudaStream_t stream) {
  softmax_kernel<<<blocks_for(rows), kBlock, 0, stream>>>(x, y, rows, cols);
  return cudaGetLastError();
}
cudaError_t shift_keys(const Array& keep, uint8_t* dense, cudaStream_t stream) {
  const int64_t count = backend::cuda::elems_of(keep);
  shift_keys_kernel<<<blocks_for(count), kBlock, 0, stream>>>(keep, dense, count);
  return cudaGetLastError();
}
cudaError_t add_leftover(FloatArray y, const uint32_t* word, cudaStream_t stream) {
  add_leftover_kernel<<<1, 1, 0, stream>>>(y, word);
  return cudaGetLastError();
}

}  // namespace vernier::test
