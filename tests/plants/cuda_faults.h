// Device code of the plants of a GPU (cuda_plants.cpp): launchers in plain types, for C++17.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::test {

using backend::cuda::Array;
using backend::cuda::FloatArray;

/// y[r, last] += factor · y[r + 1, 0] for every row but the last, of a dense [rows, cols].
cudaError_t add_next_row(FloatArray y, int64_t rows, int64_t cols, float factor,
                         cudaStream_t stream);

/// y = (x + residual − mean) / √(var + ε) · scale + bias over the last axis of dense arrays, a row
/// per thread, in f32. `sum`: the x + residual too. residual, bias, sum may be absent.
struct FaultyNorm {
  FloatArray x, residual, scale, bias, y, sum;
  int64_t rows = 0, cols = 0;
  float epsilon = 0;
  bool one_pass = false;    ///< var = E[x²] − E[x]²
  int64_t first = 0;        ///< sums begin at this column
  bool by_arrival = false;  ///< sums begin where the order in which rows arrive says
};
cudaError_t faulty_norm(const FaultyNorm& norm, cudaStream_t stream);

/// exp(x) / Σ exp(x) over the last axis, f32.
cudaError_t softmax_without_maximum(const float* x, float* y, int64_t rows, int64_t cols,
                                    cudaStream_t stream);

/// `dense` of the shape of `keep`: every byte is that of the next along the last axis.
cudaError_t shift_keys(const Array& keep, uint8_t* dense, cudaStream_t stream);

/// y[0] += a quarter of (the lowest byte of *word) / 256.
cudaError_t add_leftover(FloatArray y, const uint32_t* word, cudaStream_t stream);

/// y[first], y[first + step], … *= factor, of `count` elements in all.
cudaError_t scale_elements(FloatArray y, int64_t count, int64_t first, int64_t step, float factor,
                           cudaStream_t stream);

/// |sum| of int8 products above 32767 becomes that, read off y = sum · x_scale · w_scale + bias of
/// [rows, cols].
struct SaturatedSums {
  FloatArray y, bias;
  const float *x_scales, *w_scales;
  int64_t rows = 0, cols = 0;
};
cudaError_t saturate_sums(const SaturatedSums& sums, cudaStream_t stream);

/// What a recording that is replayed does wrongly, from counts and arrays on the device: see
/// cuda_plants.cpp. `state`: two counts, then kMost elements of y and of x.
enum class ReplayFault : int { kFromTheThird, kFirstAnswer, kFromTheThirdChange };
struct FaultyReplay {
  static constexpr int64_t kMost = 1 << 16;
  float* state;
  FloatArray x, y;
  int64_t x_count = 0, y_count = 0;
  uint32_t fills[2] = {};  ///< the first word of y is one of them where somebody watches
  ReplayFault fault = ReplayFault::kFromTheThird;
};
/// Before the right kernel, and behind it.
cudaError_t note_replay(const FaultyReplay& replay, cudaStream_t stream);
cudaError_t spoil_replay(const FaultyReplay& replay, cudaStream_t stream);

}  // namespace vernier::test
