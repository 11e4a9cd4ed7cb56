// Loads and stores of f32, f16 and bf16 arrays through f32 registers, 16 bytes at a time where they
// are aligned; strided indices. Conversions round to nearest even and keep NaN. C++17.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/arrays.h"

namespace vernier::backend::cuda {

/// Element type of a FloatArray that is known at run time only: each access asks `type`.
struct AnyFloat {};

/// Elements of one 16-byte access; of AnyFloat as many as f32 has.
template <class T>
inline constexpr int kLanes = 16 / sizeof(T);
template <>
inline constexpr int kLanes<AnyFloat> = 4;

__device__ inline float to_f32(float x) { return x; }
__device__ inline float to_f32(__half x) { return __half2float(x); }
__device__ inline float to_f32(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T from_f32(float x);
template <>
__device__ inline float from_f32<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_f32<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_f32<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// N elements, read and written in accesses of up to 16 bytes.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T element[N];
};

/// body(T{}) for the array's type, or body(T{}) for the type it is known to have.
template <class T, class Body>
__device__ void with_type(const FloatArray& array, const Body& body) {
  if constexpr (!std::is_same_v<T, AnyFloat>) {
    body(T{});
  } else if (array.type == DType::kF32) {
    body(float{});
  } else if (array.type == DType::kF16) {
    body(__half{});
  } else {
    body(__nv_bfloat16{});
  }
}

/// v = elements [at, at + N); the address must be aligned to N elements, or 16 bytes.
template <class T, int N>
__device__ void load_vector(const FloatArray& array, int64_t at, float (&v)[N]) {
  with_type<T>(array, [&](auto element) {
    using E = decltype(element);
    const auto pack = *reinterpret_cast<const Pack<E, N>*>(static_cast<const E*>(array.data) + at);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = to_f32(pack.element[i]);
  });
}
template <int N>
__device__ void fill_vector(float value, float (&v)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = value;
}
/// Elements [at, at + count), any alignment; the rest of v is `fill`.
template <class T, int N>
__device__ void load_part(const FloatArray& array, int64_t at, int64_t count, float (&v)[N],
                          float fill = 0) {
  with_type<T>(array, [&](auto element) {
    using E = decltype(element);
    const E* src = static_cast<const E*>(array.data) + at;
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = i < count ? to_f32(src[i]) : fill;
  });
}
template <class T>
__device__ float load_one(const FloatArray& array, int64_t at) {
  float v[1];
  load_part<T>(array, at, 1, v);
  return v[0];
}

template <class T, int N>
__device__ void store_vector(const FloatArray& array, int64_t at, const float (&v)[N]) {
  with_type<T>(array, [&](auto element) {
    using E = decltype(element);
    Pack<E, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.element[i] = from_f32<E>(v[i]);
    *reinterpret_cast<Pack<E, N>*>(static_cast<E*>(array.data) + at) = pack;
  });
}
template <class T, int N>
__device__ void store_part(const FloatArray& array, int64_t at, int64_t count,
                           const float (&v)[N]) {
  with_type<T>(array, [&](auto element) {
    using E = decltype(element);
    E* dst = static_cast<E*>(array.data) + at;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < count) dst[i] = from_f32<E>(v[i]);
    }
  });
}
template <class T>
__device__ void store_one(const FloatArray& array, int64_t at, float value) {
  const float v[1] = {value};
  store_part<T>(array, at, 1, v);
}

__device__ inline uint32_t divide(uint32_t n, const Divisor& by) {
  return (__umulhi(n, by.magic) + n) >> by.shift;
}

/// Offset of element `i` in elements.
__device__ inline int64_t offset_of(const StridedIndex& index, int64_t i) {
  if (index.axes == 0) return 0;
  if (index.axes == 1) return i * index.strides[0];
  int64_t at = 0;
  if (index.is_small) {
    auto rest = static_cast<uint32_t>(i);
    for (int axis = index.axes - 1; axis > 0; --axis) {
      const uint32_t next = divide(rest, index.divisors[axis]);
      at += static_cast<int64_t>(rest - next * index.divisors[axis].size) * index.strides[axis];
      rest = next;
    }
    return at + static_cast<int64_t>(rest) * index.strides[0];
  }
  for (int axis = index.axes - 1; axis > 0; --axis) {
    at += i % index.sizes[axis] * index.strides[axis];
    i /= index.sizes[axis];
  }
  return at + i * index.strides[0];
}

}  // namespace vernier::backend::cuda
