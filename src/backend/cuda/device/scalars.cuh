// One element of any type in 64 bits: floats as double, integers and bool as int64_t (u64 keeps its
// bits). C++17.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/arrays.h"
#include "backend/cuda/device/integer_math.cuh"

namespace vernier::backend::cuda {

__device__ inline double load_double(const AnyArray& array, int64_t at) {
  switch (array.type) {
    case DType::kF32:
      return static_cast<double>(static_cast<const float*>(array.data)[at]);
    case DType::kF16:
      return static_cast<double>(__half2float(static_cast<const __half*>(array.data)[at]));
    case DType::kBF16:
      return static_cast<double>(
          __bfloat162float(static_cast<const __nv_bfloat16*>(array.data)[at]));
    default:
      return static_cast<const double*>(array.data)[at];
  }
}
/// Rounded once, to nearest even.
__device__ inline void store_double(const AnyArray& array, int64_t at, double v) {
  switch (array.type) {
    case DType::kF32:
      static_cast<float*>(array.data)[at] = static_cast<float>(v);
      return;
    case DType::kF16:
      static_cast<__half*>(array.data)[at] = __double2half(v);
      return;
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(array.data)[at] = __double2bfloat16(v);
      return;
    default:
      static_cast<double*>(array.data)[at] = v;
  }
}
__device__ inline int64_t load_int64(const AnyArray& array, int64_t at) {
  switch (array.type) {
    case DType::kI8:
      return static_cast<const int8_t*>(array.data)[at];
    case DType::kU8:
      return static_cast<const uint8_t*>(array.data)[at];
    case DType::kI16:
      return static_cast<const int16_t*>(array.data)[at];
    case DType::kU16:
      return static_cast<const uint16_t*>(array.data)[at];
    case DType::kI32:
      return static_cast<const int32_t*>(array.data)[at];
    case DType::kU32:
      return static_cast<const uint32_t*>(array.data)[at];
    case DType::kBool:
      return static_cast<const uint8_t*>(array.data)[at] != 0;
    default:
      return static_cast<const int64_t*>(array.data)[at];
  }
}
/// Wrapped to the array's type.
__device__ inline void store_int64(const AnyArray& array, int64_t at, int64_t v) {
  if (array.type == DType::kBool) {
    static_cast<uint8_t*>(array.data)[at] = v != 0;
    return;
  }
  switch (bits_of(array.type)) {
    case 8:
      static_cast<uint8_t*>(array.data)[at] = static_cast<uint8_t>(v);
      return;
    case 16:
      static_cast<uint16_t*>(array.data)[at] = static_cast<uint16_t>(v);
      return;
    case 32:
      static_cast<uint32_t*>(array.data)[at] = static_cast<uint32_t>(v);
      return;
    default:
      static_cast<int64_t*>(array.data)[at] = v;
  }
}

}  // namespace vernier::backend::cuda
