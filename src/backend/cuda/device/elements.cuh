// Device helpers for kernels that meet several types in one launch: one element of any type as f32
// or int64 and back, and flat indices taken apart. The type is a launch argument, so its branches
// are the same for all threads.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/device/array.h"

namespace vernier::backend::cuda {

inline constexpr int kBlock = 256;  // threads per block of kernels with one element per thread

/// Blocks of `threads` threads for `count` items, one or (beyond the grid's limit) more per thread.
inline unsigned blocks_for(int64_t count, int threads = kBlock) {
  constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;
  const int64_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

/// for (int64_t i = first_item(); i < count; i += item_step()): every item once.
__device__ inline int64_t first_item() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t item_step() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// rest % size; rest becomes rest / size. Both non-negative; in 32 bits where they fit.
__device__ inline int64_t take_axis(int64_t& rest, int64_t size) {
  if (((rest | size) >> 31) == 0) {
    const auto r = static_cast<uint32_t>(rest), s = static_cast<uint32_t>(size);
    const uint32_t quotient = r / s;
    rest = quotient;
    return r - quotient * s;
  }
  const int64_t quotient = rest / size, remainder = rest - quotient * size;
  rest = quotient;
  return remainder;
}
/// Offset in elements of element `flat` (row-major) of `a`.
__device__ inline int64_t offset_of(const Array& a, int64_t flat) {
  int64_t at = 0;
  for (int i = a.rank - 1; i >= 0; --i) at += take_axis(flat, a.size[i]) * a.stride[i];
  return at;
}

__device__ inline float to_f32(float x) { return x; }
__device__ inline float to_f32(__half x) { return __half2float(x); }
__device__ inline float to_f32(__nv_bfloat16 x) { return __bfloat162float(x); }

/// Element `i` of an f32, f16 or bf16 array; exact.
__device__ inline float load_f32(DType type, const void* data, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(data)[i];
  if (type == DType::kF16) return __half2float(static_cast<const __half*>(data)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}
/// Rounds to the nearest, halves to even; overflow gives infinity, NaN stays NaN.
__device__ inline void store_f32(DType type, void* data, int64_t i, float value) {
  if (type == DType::kF32)
    static_cast<float*>(data)[i] = value;
  else if (type == DType::kF16)
    static_cast<__half*>(data)[i] = __float2half_rn(value);
  else
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
}
/// From double, rounded once.
__device__ inline void store_f64(DType type, void* data, int64_t i, double value) {
  if (type == DType::kF64)
    static_cast<double*>(data)[i] = value;
  else if (type == DType::kF32)
    static_cast<float*>(data)[i] = static_cast<float>(value);
  else if (type == DType::kF16)
    static_cast<__half*>(data)[i] = __double2half(value);
  else
    static_cast<__nv_bfloat16*>(data)[i] = __double2bfloat16(value);
}
__device__ inline double load_f64(DType type, const void* data, int64_t i) {
  if (type == DType::kF64) return static_cast<const double*>(data)[i];
  return static_cast<double>(load_f32(type, data, i));
}

/// Element `i` of an integer or bool array; u64 keeps its bits.
__device__ inline int64_t load_integer(DType type, const void* data, int64_t i) {
  switch (type) {
    case DType::kI64:
    case DType::kU64:
      return static_cast<const int64_t*>(data)[i];
    case DType::kI32:
      return static_cast<const int32_t*>(data)[i];
    case DType::kU32:
      return static_cast<const uint32_t*>(data)[i];
    case DType::kI16:
      return static_cast<const int16_t*>(data)[i];
    case DType::kU16:
      return static_cast<const uint16_t*>(data)[i];
    case DType::kI8:
      return static_cast<const int8_t*>(data)[i];
    default:
      return static_cast<const uint8_t*>(data)[i];
  }
}
/// Wraps into the type's range; bool: value != 0.
__device__ inline void store_integer(DType type, void* data, int64_t i, int64_t value) {
  switch (type) {
    case DType::kI64:
    case DType::kU64:
      static_cast<int64_t*>(data)[i] = value;
      return;
    case DType::kI32:
    case DType::kU32:
      static_cast<uint32_t*>(data)[i] = static_cast<uint32_t>(value);
      return;
    case DType::kI16:
    case DType::kU16:
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(value);
      return;
    case DType::kBool:
      static_cast<uint8_t*>(data)[i] = value != 0 ? 1 : 0;
      return;
    default:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
  }
}

/// Element `i` of src becomes element `j` of dst: bits where the types are one, else f32, f16 and
/// bf16 into each other.
__device__ inline void move_element(DType src_type, const void* src, int64_t i, DType dst_type,
                                    void* dst, int64_t j, int width) {
  if (src_type != dst_type) return store_f32(dst_type, dst, j, load_f32(src_type, src, i));
  if (width == 8)
    static_cast<uint64_t*>(dst)[j] = static_cast<const uint64_t*>(src)[i];
  else if (width == 4)
    static_cast<uint32_t*>(dst)[j] = static_cast<const uint32_t*>(src)[i];
  else if (width == 2)
    static_cast<uint16_t*>(dst)[j] = static_cast<const uint16_t*>(src)[i];
  else
    static_cast<uint8_t*>(dst)[j] = static_cast<const uint8_t*>(src)[i];
}

/// `index` counted from the front of an axis of `size`; −1 where it is outside.
__device__ inline int64_t wrapped_index(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

/// f(T{}) with the unsigned type of `width` bytes (1, 2, 4, 8).
template <class F>
void with_width(int width, const F& f) {
  if (width == 8) return f(uint64_t{});
  if (width == 4) return f(uint32_t{});
  if (width == 2) return f(uint16_t{});
  f(uint8_t{});
}

}  // namespace vernier::backend::cuda
