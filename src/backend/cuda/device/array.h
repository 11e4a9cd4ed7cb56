// An array on the device in plain types, as kernels written in C++17 get it: TensorArg of
// backend/kernel.h without its C++20 header. Made by array_of() of body.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cuda/arrays.h"
#include "vernier/dtype.h"

namespace vernier::backend::cuda {

/// Sizes and strides in elements. `data` null: absent.
struct Array {
  std::byte* data;
  DType dtype;
  int rank;
  int64_t size[kMaxAxes], stride[kMaxAxes];
};

/// Bytes of one element.
constexpr int width_of(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    default:
      return 1;
  }
}

/// Number of elements.
inline int64_t elems_of(const Array& a) {
  int64_t count = 1;
  for (int i = 0; i < a.rank; ++i) count *= a.size[i];
  return count;
}

}  // namespace vernier::backend::cuda
