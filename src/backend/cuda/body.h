// What the kernels of the CUDA backend need besides backend/body.h: the stream of a launch,
// operands as the plain structs that device code takes (arrays.h, device/array.h), and constants
// read back. X.cu holds device code and a launcher in plain types (X.h, C++17), X.cpp supports,
// numerics and the KernelBody.
#pragma once
#include <cuda_runtime_api.h>

#include <vector>

#include "backend/body.h"
#include "backend/cuda/arrays.h"
#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

/// The GPU that engines run on: the first of those that CUDA_VISIBLE_DEVICES names.
inline constexpr int kGpu = 0;

/// The stream everything of a launch goes to.
inline cudaStream_t stream_of(const Execution& execution) {
  return static_cast<cudaStream_t>(execution.stream);
}

Array array_of(const TensorArg& t);
/// Operand `i`; absent where it is.
Array optional_array(std::span<const TensorArg> operands, size_t i);
inline FloatArray float_array(std::span<const TensorArg> operands, size_t i) {
  return given(operands, i) ? FloatArray{operands[i].data, operands[i].dtype} : FloatArray{};
}
inline AnyArray any_array(std::span<const TensorArg> operands, size_t i) {
  return given(operands, i) ? AnyArray{operands[i].data, operands[i].dtype} : AnyArray{};
}

/// Axes with these sizes and strides in elements, outermost first.
StridedIndex strided_index(std::span<const int64_t> sizes, std::span<const int64_t> strides);
/// Axes [begin, end) of `t`.
StridedIndex strided_index(const TensorArg& t, int begin, int end);
/// True if vectors of `lanes` elements that start at multiples of `lanes` in the last axis lie at
/// aligned addresses in every row of `rows`.
bool is_aligned(const FloatArray& array, const StridedIndex& rows, int64_t lanes);
/// The same for a dense array whose rows are a multiple of `lanes`.
bool is_aligned(const FloatArray& array, int64_t lanes);
/// Elements of one 16-byte access where all of `arrays` that are there have one type, else 4.
int64_t common_lanes(std::span<const FloatArray> arrays);
/// The one type of those of `arrays` that are there; kUndefined where they differ.
DType common_type(std::span<const FloatArray> arrays);

/// The elements of constant input `i`, which create() reads back from the device once; empty where
/// it is absent or no constant.
std::vector<double> constant_floats(const CreateCall& call, size_t i);

}  // namespace vernier::backend::cuda
