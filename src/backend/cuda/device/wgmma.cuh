// wgmma over 32 bytes of K: d[64, N] += a[64, k] · b[N, k]ᵀ with f32 sums, k = 16 elements of 16
// bits or 8 of TF32 (f32 of which the low 13 bits are not looked at), or with i32 sums and k = 32
// of i8, or f32 sums and k = 32 of f8e4m3, which are less exact than f32 (gemm_sm90.h); a and b are
// K-major tiles in shared memory. One struct for each N. C++17.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/device/wgmma_registers.cuh"

namespace vernier::backend::cuda {

// N: columns; R: registers of d, which is also the number of operand a; B and ADD: of the others.
// clang-format off
#define VERNIER_WGMMA(N, TYPES, IO, TAIL, R, B, ADD)                                                     \
  asm volatile(                                                                                         \
      "{\n.reg .pred add;\nsetp.ne.b32 add, %" #ADD ", 0;\n"                                            \
      "wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" VERNIER_REGISTERS_##R "}, %" #R ", %" #B ", add" TAIL ";\n}\n" \
      : VERNIER_FLOATS_##R(IO, d)                                                                       \
      : "l"(a), "l"(b), "r"(add))
// clang-format on

/// The types of products of i8 and of f8e4m3.
struct Int8 {};
struct Fp8 {};

/// The instruction for N columns, d = a·b + (add ? d : 0); `T` is __half, __nv_bfloat16, float for
/// TF32, Int8 or Fp8.
template <int N, class T>
struct Wgmma;
#define VERNIER_WGMMA_OF(T, SUM, N, TYPES, IO, TAIL, R, B, ADD)                                \
  template <>                                                                                  \
  struct Wgmma<N, T> {                                                                         \
    static __device__ __forceinline__ void run(SUM (&d)[R], uint64_t a, uint64_t b, int add) { \
      VERNIER_WGMMA(N, TYPES, IO, TAIL, R, B, ADD);                                            \
    }                                                                                          \
  };
#define VERNIER_WGMMA_STRUCTS(N, R, B, ADD)                                                        \
  VERNIER_WGMMA_OF(__half, float, N, "k16.f32.f16.f16", VERNIER_IN_OUT, ", 1, 1, 0, 0", R, B, ADD) \
  VERNIER_WGMMA_OF(__nv_bfloat16, float, N, "k16.f32.bf16.bf16", VERNIER_IN_OUT, ", 1, 1, 0, 0",   \
                   R, B, ADD)                                                                      \
  VERNIER_WGMMA_OF(float, float, N, "k8.f32.tf32.tf32", VERNIER_IN_OUT, ", 1, 1", R, B, ADD)       \
  VERNIER_WGMMA_OF(Fp8, float, N, "k32.f32.e4m3.e4m3", VERNIER_IN_OUT, ", 1, 1", R, B, ADD)        \
  VERNIER_WGMMA_OF(Int8, int, N, "k32.s32.s8.s8", VERNIER_INTEGERS_IN_OUT, "", R, B, ADD)
VERNIER_WGMMA_STRUCTS(8, 4, 5, 6)
VERNIER_WGMMA_STRUCTS(16, 8, 9, 10)
VERNIER_WGMMA_STRUCTS(24, 12, 13, 14)
VERNIER_WGMMA_STRUCTS(32, 16, 17, 18)
VERNIER_WGMMA_STRUCTS(48, 24, 25, 26)
VERNIER_WGMMA_STRUCTS(64, 32, 33, 34)
VERNIER_WGMMA_STRUCTS(96, 48, 49, 50)
VERNIER_WGMMA_STRUCTS(128, 64, 65, 66)
VERNIER_WGMMA_STRUCTS(192, 96, 97, 98)
VERNIER_WGMMA_STRUCTS(256, 128, 129, 130)
#undef VERNIER_WGMMA_STRUCTS
#undef VERNIER_WGMMA_OF
#undef VERNIER_WGMMA

}  // namespace vernier::backend::cuda
