// Placing elements by index: ScatterElements, ScatterND. Host-side entry of scatter.cu in plain
// types.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

enum class Combine : uint8_t { kReplace, kAdd, kMul, kMin, kMax };

struct ScatterLaunch {
  Array data, indices, updates, y;  // dense
  int axis;     // ScatterElements: coordinate `axis` of an update's place is its index
  bool tuples;  // ScatterND: indices [.., depth] name slices of data
  Combine combine;
  int64_t* marks;  // workspace: scatter_mark_count() elements
};

/// Elements of `marks`: two per place that an index can name.
int64_t scatter_mark_count(const Array& data, const Array& indices, bool tuples);

/// y = data, then y[place(t)] = combine(y[place(t)], updates[t]) for t in row-major order; updates
/// whose index is outside are left out. Types: any one type, or f32, f16 and bf16 in any mix; sums
/// and products of floats in f32, rounded once to y's type; integers wrap. A NaN on
/// either side of minimum and maximum stays NaN.
/// Deterministic: integer minima and maxima find the first and the last update of each place, then
/// one thread per element of y applies what lies between, in order.
/// Cost: reads and writes y once, indices once; with a combination also the indices between the
/// first and last update of each place.
cudaError_t scatter(const ScatterLaunch& args, cudaStream_t stream);

}  // namespace vernier::backend::cuda
