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

__global__ void scale_elements_kernel(FloatArray y, int64_t count, int64_t first, int64_t step,
                                      float factor) {
  for (int64_t i = first + first_item() * step; i < count; i += item_step() * step)
    store_f32(y.type, y.data, i, load_f32(y.type, y.data, i) * factor);
}

__global__ void saturate_sums_kernel(SaturatedSums sums) {
  constexpr float kMost = 32767;
  for (int64_t i = first_item(); i < sums.rows * sums.cols; i += item_step()) {
    const int64_t row = i / sums.cols, col = i % sums.cols;
    const float scale = sums.x_scales[row] * sums.w_scales[col];
    const float bias = sums.bias.data ? load_f32(sums.bias.type, sums.bias.data, col) : 0;
    const float sum = (load_f32(sums.y.type, sums.y.data, i) - bias) / scale;
    if (fabsf(sum) > kMost)
      store_f32(sums.y.type, sums.y.data, i, copysignf(kMost, sum) * scale + bias);
  }
}

// state: [0] watched, [1] runs, [2] changes; then y of the second run, then x of the last.
constexpr int kHead = 4;
__device__ bool is_watched(const FaultyReplay& replay) { return replay.state[0] != 0; }

// One block: what it compares it also writes.
__global__ void note_replay_kernel(FaultyReplay replay) {
  __shared__ int changed;
  const uint32_t word = *static_cast<const uint32_t*>(replay.y.data);
  const bool watched = word == replay.fills[0] || word == replay.fills[1];
  if (threadIdx.x == 0) {
    replay.state[0] = watched ? 1.0F : 0.0F;
    changed = 0;
  }
  __syncthreads();
  if (watched) return;
  float* last = replay.state + kHead + FaultyReplay::kMost;
  for (int64_t i = threadIdx.x; i < replay.x_count && i < FaultyReplay::kMost; i += blockDim.x) {
    const float x = load_f32(replay.x.type, replay.x.data, i);
    if (x != last[i]) changed = 1;
    last[i] = x;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (replay.state[1] > 0 && changed) replay.state[2] += 1;
  replay.state[1] += 1;
  replay.state[3] = static_cast<float>(changed);
}

__global__ void spoil_replay_kernel(FaultyReplay replay) {
  constexpr float kRight = 2;
  if (is_watched(replay)) return;
  const float runs = replay.state[1], changes = replay.state[2], changed = replay.state[3];
  if (replay.fault == ReplayFault::kFirstAnswer) {
    float* answer = replay.state + kHead;
    for (int64_t i = threadIdx.x; i < replay.y_count && i < FaultyReplay::kMost; i += blockDim.x) {
      if (runs == kRight) answer[i] = load_f32(replay.y.type, replay.y.data, i);
      if (runs > kRight) store_f32(replay.y.type, replay.y.data, i, answer[i]);
    }
    return;
  }
  const bool wrong =
      replay.fault == ReplayFault::kFromTheThird ? runs > kRight : changed != 0 && changes > kRight;
  if (wrong && threadIdx.x == 0)
    store_f32(replay.y.type, replay.y.data, 0, load_f32(replay.y.type, replay.y.data, 0) * 1.5F);
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

cudaError_t scale_elements(FloatArray y, int64_t count, int64_t first, int64_t step, float factor,
                           cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  scale_elements_kernel<<<blocks_for((count + step - 1) / step), kBlock, 0, stream>>>(
      y, count, first, step, factor);
  return cudaGetLastError();
}
cudaError_t saturate_sums(const SaturatedSums& sums, cudaStream_t stream) {
  saturate_sums_kernel<<<blocks_for(sums.rows * sums.cols), kBlock, 0, stream>>>(sums);
  return cudaGetLastError();
}
cudaError_t note_replay(const FaultyReplay& replay, cudaStream_t stream) {
  note_replay_kernel<<<1, kBlock, 0, stream>>>(replay);
  return cudaGetLastError();
}
cudaError_t spoil_replay(const FaultyReplay& replay, cudaStream_t stream) {
  spoil_replay_kernel<<<1, kBlock, 0, stream>>>(replay);
  return cudaGetLastError();
}

}  // namespace vernier::test
