// wgmma as attention needs it: products that begin a sum, and products whose first operand is in
// registers and whose second is a tile of values, rows of keys (N-major). The others: wgmma.cuh.
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". C++17.
#pragma once
#include "backend/cuda/device/mma.cuh"

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
// Register lists of the accumulators.
// clang-format off
#define VERNIER_LIST_16 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define VERNIER_LIST_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define VERNIER_LIST_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define VERNIER_FLOATS_16(io, d) \
  io(d[0]), io(d[1]), io(d[2]), io(d[3]), io(d[4]), io(d[5]), \
  io(d[6]), io(d[7]), io(d[8]), io(d[9]), io(d[10]), io(d[11]), \
  io(d[12]), io(d[13]), io(d[14]), io(d[15])
#define VERNIER_FLOATS_32(io, d) \
  io(d[0]), io(d[1]), io(d[2]), io(d[3]), io(d[4]), io(d[5]), \
  io(d[6]), io(d[7]), io(d[8]), io(d[9]), io(d[10]), io(d[11]), \
  io(d[12]), io(d[13]), io(d[14]), io(d[15]), io(d[16]), io(d[17]), \
  io(d[18]), io(d[19]), io(d[20]), io(d[21]), io(d[22]), io(d[23]), \
  io(d[24]), io(d[25]), io(d[26]), io(d[27]), io(d[28]), io(d[29]), \
  io(d[30]), io(d[31])
#define VERNIER_FLOATS_64(io, d) \
  io(d[0]), io(d[1]), io(d[2]), io(d[3]), io(d[4]), io(d[5]), \
  io(d[6]), io(d[7]), io(d[8]), io(d[9]), io(d[10]), io(d[11]), \
  io(d[12]), io(d[13]), io(d[14]), io(d[15]), io(d[16]), io(d[17]), \
  io(d[18]), io(d[19]), io(d[20]), io(d[21]), io(d[22]), io(d[23]), \
  io(d[24]), io(d[25]), io(d[26]), io(d[27]), io(d[28]), io(d[29]), \
  io(d[30]), io(d[31]), io(d[32]), io(d[33]), io(d[34]), io(d[35]), \
  io(d[36]), io(d[37]), io(d[38]), io(d[39]), io(d[40]), io(d[41]), \
  io(d[42]), io(d[43]), io(d[44]), io(d[45]), io(d[46]), io(d[47]), \
  io(d[48]), io(d[49]), io(d[50]), io(d[51]), io(d[52]), io(d[53]), \
  io(d[54]), io(d[55]), io(d[56]), io(d[57]), io(d[58]), io(d[59]), \
  io(d[60]), io(d[61]), io(d[62]), io(d[63])
#define VERNIER_OUT "=f"
#define VERNIER_IN_OUT "+f"
// clang-format on

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
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" VERNIER_LIST_64          \
        "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                           \
        : VERNIER_FLOATS_64(VERNIER_OUT, d)                                                        \
        : "l"(a), "l"(b));                                                                         \
  }                                                                                                \
  template <>                                                                                      \
  __device__ inline void multiply_add_shared<T>(float(&d)[64], uint64_t a, uint64_t b) {           \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" VERNIER_LIST_64          \
        "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                           \
        : VERNIER_FLOATS_64(VERNIER_IN_OUT, d)                                                     \
        : "l"(a), "l"(b));                                                                         \
  }                                                                                                \
  template <>                                                                                      \
  __device__ inline void multiply_registers<T>(float(&d)[16], const uint32_t(&a)[4], uint64_t b) { \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type " {" VERNIER_LIST_16           \
        "}, {%16, %17, %18, %19}, %20, p, 1, 1, 1;\n}"                                             \
        : VERNIER_FLOATS_16(VERNIER_IN_OUT, d)                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
  }                                                                                                \
  template <>                                                                                      \
  __device__ inline void multiply_registers<T>(float(&d)[32], const uint32_t(&a)[4], uint64_t b) { \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" VERNIER_LIST_32           \
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"                                             \
        : VERNIER_FLOATS_32(VERNIER_IN_OUT, d)                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
  }                                                                                                \
  template <>                                                                                      \
  __device__ inline void multiply_registers<T>(float(&d)[64], const uint32_t(&a)[4], uint64_t b) { \
    asm volatile(                                                                                  \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                 \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" VERNIER_LIST_64          \
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"                                             \
        : VERNIER_FLOATS_64(VERNIER_IN_OUT, d)                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
  }
VERNIER_ATTENTION_PRODUCTS(__half, "f16")
VERNIER_ATTENTION_PRODUCTS(__nv_bfloat16, "bf16")
#undef VERNIER_ATTENTION_PRODUCTS
#undef VERNIER_OUT
#undef VERNIER_IN_OUT
#undef VERNIER_FLOATS_64
#undef VERNIER_FLOATS_32
#undef VERNIER_FLOATS_16
#undef VERNIER_LIST_64
#undef VERNIER_LIST_32
#undef VERNIER_LIST_16

}  // namespace vernier::backend::cuda
