// Arrays that follow from a few numbers (OneHot, Range, EyeLike, Shape, Size), triangles and
// reversed sequences. Host-side entry of patterns.cu in plain types. All arrays dense.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

struct OneHotLaunch {
  Array indices, values, y;  // indices of any integer type, f32, f16 or bf16; values [off, on]
  int axis;
};
/// y[o, k, i] = on where k is indices[o, i] (from the end where negative), else off. Indices
/// outside the axis, fractions and NaN give off everywhere: a fraction's whole part is its index.
cudaError_t one_hot(const OneHotLaunch& args, cudaStream_t stream);

/// y[i] = start + i·delta; floats in f64, rounded once; integers wrap. start and delta: one element
/// of y's type.
cudaError_t range(const Array& start, const Array& delta, const Array& y, cudaStream_t stream);

/// y[r, c] = `one` (its low bytes) where c = r + k, else 0.
cudaError_t eye_like(const Array& y, int64_t k, uint64_t one, cudaStream_t stream);

/// y[i] = sizes[i] for the elements of y (i64).
struct SizesLaunch {
  int count;
  int64_t sizes[kMaxAxes];
};
cudaError_t store_sizes(const SizesLaunch& args, const Array& y, cudaStream_t stream);

struct TriangleLaunch {
  Array x, k, y;  // k: one integer, or absent: 0
  bool upper;
};
/// y = x on and above (below) diagonal k of the last two axes, 0 elsewhere. Any type.
cudaError_t keep_triangle(const TriangleLaunch& args, cudaStream_t stream);

struct ReverseLaunch {
  Array x, lengths, y;
  int batch_axis, time_axis;
};
/// y[t, b] = x[lengths[b] − 1 − t, b] for t < lengths[b], x[t, b] from there on. Lengths are kept
/// inside the axis.
cudaError_t reverse_sequences(const ReverseLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
