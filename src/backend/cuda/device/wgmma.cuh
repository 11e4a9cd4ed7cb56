// wgmma over 32 bytes of K: d[64, N] += a[64, k] · b[N, k]ᵀ with f32 sums, k = 16 elements of 16
// bits or 8 of TF32 (f32 of which the low 13 bits are not looked at); a and b are K-major tiles in
// shared memory. One struct for each N. C++17.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/device/wgmma_registers.cuh"

namespace vernier::backend::cuda {

// N: columns; R: registers of d, which is also the number of operand a; B and ADD: of the others.
// clang-format off
#define VERNIER_WGMMA(N, TYPES, TAIL, R, B, ADD)                                                         \
  asm volatile(                                                                                         \
      "{\n.reg .pred add;\nsetp.ne.b32 add, %" #ADD ", 0;\n"                                            \
      "wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" VERNIER_REGISTERS_##R "}, %" #R ", %" #B ", add, 1, 1" TAIL ";\n}\n" \
      : VERNIER_FLOATS_##R(VERNIER_IN_OUT, d)                                                           \
      : "l"(a), "l"(b), "r"(add))
// clang-format on

/// The instruction for N columns, d = a·b + (add ? d : 0); `T` is __half, __nv_bfloat16 or, for
/// TF32, float.
template <int N, class T>
struct Wgmma;
#define VERNIER_WGMMA_OF(T, N, TYPES, TAIL, R, B, ADD)                                           \
  template <>                                                                                    \
  struct Wgmma<N, T> {                                                                           \
    static __device__ __forceinline__ void run(float (&d)[R], uint64_t a, uint64_t b, int add) { \
      VERNIER_WGMMA(N, TYPES, TAIL, R, B, ADD);                                                  \
    }                                                                                            \
  };
#define VERNIER_WGMMA_STRUCTS(N, R, B, ADD)                                    \
  VERNIER_WGMMA_OF(__half, N, "k16.f32.f16.f16", ", 0, 0", R, B, ADD)          \
  VERNIER_WGMMA_OF(__nv_bfloat16, N, "k16.f32.bf16.bf16", ", 0, 0", R, B, ADD) \
  VERNIER_WGMMA_OF(float, N, "k8.f32.tf32.tf32", "", R, B, ADD)
VERNIER_WGMMA_STRUCTS(8, 4, 5, 6)
VERNIER_WGMMA_STRUCTS(16, 8, 9, 10)
VERNIER_WGMMA_STRUCTS(24, 12, 13, 14)
VERNIER_WGMMA_STRUCTS(32, 16, 17, 18)
VERNIER_WGMMA_STRUCTS(48, 24, 25, 26)
VERNIER_WGMMA_STRUCTS(64, 32, 33, 34)
VERNIER_WGMMA_STRUCTS(128, 64, 65, 66)
VERNIER_WGMMA_STRUCTS(192, 96, 97, 98)
VERNIER_WGMMA_STRUCTS(256, 128, 129, 130)
#undef VERNIER_WGMMA_STRUCTS
#undef VERNIER_WGMMA_OF
#undef VERNIER_WGMMA

}  // namespace vernier::backend::cuda
