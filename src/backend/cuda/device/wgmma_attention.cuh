// wgmma as attention needs it: products that begin a sum, and products whose first operand is in
// registers and whose second is a tile of values, rows of keys (N-major). The others: wgmma.cuh.
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". C++17.
#pragma once
#include "backend/cuda/device/mma.cuh"
#include "backend/cuda/device/wgmma_registers.cuh"

namespace vernier::backend::cuda {

// A tile of rows of 64 or 128 bytes under the swizzle of that width: 8 rows are 512 or 1024 bytes.
// `leading` is the distance of the next columns of a transposed tile of more than one row's.
template <int kRowBytes>
struct TileDescriptor {
  static_assert(kRowBytes == 64 || kRowBytes == 128, "a swizzle of 64 or 128 bytes");
  uint32_t low;
  __device__ TileDescriptor(uint32_t address, uint32_t leading_bytes)
      : low(address >> 4 | (leading_bytes >> 4) << 16) {}
  // The tile that begins `bytes` later.
  __device__ uint64_t after(uint32_t bytes) const {
    constexpr uint32_t kSwizzle = kRowBytes == 128 ? 1u << 30 : 2u << 30;
    return uint64_t{kSwizzle | 8 * kRowBytes >> 4} << 32 | (low + (bytes >> 4));
  }
};

// d[64, 128] = a[64, 16] · b[128, 16]ᵀ, both in shared memory; what d was does not matter.
template <class T>
__device__ inline void multiply_shared(float (&d)[64], uint64_t a, uint64_t b);
// d[64, 128] += a[64, 16] · b[128, 16]ᵀ
template <class T>
__device__ inline void multiply_add_shared(float (&d)[64], uint64_t a, uint64_t b);
// d[64, n] += a[64, 16] · b[16, n], n = 32, 64 or 128; a in registers, b in shared memory, 16 rows.
template <class T>
__device__ inline void multiply_registers(float (&d)[16], const uint32_t (&a)[4], uint64_t b);
template <class T>
__device__ inline void multiply_registers(float (&d)[32], const uint32_t (&a)[4], uint64_t b);
template <class T>
__device__ inline void multiply_registers(float (&d)[64], const uint32_t (&a)[4], uint64_t b);

#define VERNIER_ATTENTION_PRODUCTS(T, type)                                                        \
  template <>                                                                                      \
  __device__ inline void multiply_shared<T>(float(&d)[64], uint64_t a, uint64_t b) {               \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" VERNIER_REGISTERS_64     \
        "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                           \
        : VERNIER_FLOATS_64(VERNIER_OUT, d)                                                        \
        : "l"(a), "l"(b));                                                                         \
  }                                                                                                \
  template <>                                                                                      \
  __device__ inline void multiply_add_shared<T>(float(&d)[64], uint64_t a, uint64_t b) {           \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" VERNIER_REGISTERS_64     \
        "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                           \
        : VERNIER_FLOATS_64(VERNIER_IN_OUT, d)                                                     \
        : "l"(a), "l"(b));                                                                         \
  }                                                                                                \
  template <>                                                                                      \
  __device__ inline void multiply_registers<T>(float(&d)[16], const uint32_t(&a)[4], uint64_t b) { \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type " {" VERNIER_REGISTERS_16      \
        "}, {%16, %17, %18, %19}, %20, p, 1, 1, 1;\n}"                                             \
        : VERNIER_FLOATS_16(VERNIER_IN_OUT, d)                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
  }                                                                                                \
  template <>                                                                                      \
  __device__ inline void multiply_registers<T>(float(&d)[32], const uint32_t(&a)[4], uint64_t b) { \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" VERNIER_REGISTERS_32      \
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"                                             \
        : VERNIER_FLOATS_32(VERNIER_IN_OUT, d)                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
  }                                                                                                \
  template <>                                                                                      \
  __device__ inline void multiply_registers<T>(float(&d)[64], const uint32_t(&a)[4], uint64_t b) { \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" VERNIER_REGISTERS_64     \
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"                                             \
        : VERNIER_FLOATS_64(VERNIER_IN_OUT, d)                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
  }
VERNIER_ATTENTION_PRODUCTS(__half, "f16")
VERNIER_ATTENTION_PRODUCTS(__nv_bfloat16, "bf16")
#undef VERNIER_ATTENTION_PRODUCTS

}  // namespace vernier::backend::cuda
