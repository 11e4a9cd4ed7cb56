// What Hopper adds (sm_90a): warpgroup matrix products on shared memory, the tensor copy engine and
// the barriers that it completes on. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions" and
// "cp.async.bulk.tensor". Tiles lie in rows of 128 bytes under the 128-byte swizzle, 1024-byte
// aligned. C++17.
#pragma once
#include <cuda.h>

#include "backend/cuda/kernels/mma.cuh"

namespace vernier::backend::cuda {

// ---- barriers in shared memory

__device__ inline void init_barrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void expect_bytes(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Until the phase of that parity is complete.
__device__ inline void wait_for(uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Makes ordinary writes to shared memory (barriers too) visible to the copy engine and wgmma.
__device__ inline void fence_shared_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// A barrier of the 128 threads of warpgroup `group`.
__device__ inline void sync_group(int group) {
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}

// ---- the copy engine

// A box of a four-dimensional array; elements outside the array arrive as 0.
__device__ inline void load_box(uint32_t dst, const CUtensorMap& map, uint32_t barrier, int x, int y,
                                int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2];" ::"r"(dst),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// ---- warpgroup products

// A tile under the 128-byte swizzle: 8 rows of 128 bytes are 1024 bytes. `leading` is the distance
// of the next 64 columns of a transposed tile.
__device__ inline uint64_t tile_descriptor(uint32_t address, uint32_t leading_bytes) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<uint64_t>(leading_bytes >> 4) << 16 | static_cast<uint64_t>(1024 >> 4) << 32 |
         uint64_t{1} << 62;
}
// Before the first product, and after other instructions wrote its registers.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Register lists of the accumulators.
// clang-format off
#define VERNIER_LIST_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define VERNIER_LIST_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define VERNIER_FLOATS_32(d) \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), \
  "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), \
  "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), \
  "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), \
  "+f"(d[30]), "+f"(d[31])
#define VERNIER_FLOATS_64(d) \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), \
  "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), \
  "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), \
  "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), \
  "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), \
  "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), \
  "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), \
  "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), \
  "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
// clang-format on

// d[64, 128] = a[64, 16] · b[128, 16]ᵀ (+ d if `add`), both in shared memory.
template <class T>
__device__ inline void multiply_shared(float (&d)[64], uint64_t a, uint64_t b, int add);
// d[64, n] += a[64, 16] · b[16, n], n = 64 or 128; a in registers, b in shared memory as 16 rows.
template <class T>
__device__ inline void multiply_registers(float (&d)[32], const uint32_t (&a)[4], uint64_t b);
template <class T>
__device__ inline void multiply_registers(float (&d)[64], const uint32_t (&a)[4], uint64_t b);

#define VERNIER_DEFINE_PRODUCTS(T, type)                                                          \
  template <>                                                                                     \
  __device__ inline void multiply_shared<T>(float (&d)[64], uint64_t a, uint64_t b, int add) {    \
    asm volatile(                                                                                 \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                              \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" VERNIER_LIST_64         \
        "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                          \
        : VERNIER_FLOATS_64(d)                                                                    \
        : "l"(a), "l"(b), "r"(add));                                                              \
  }                                                                                               \
  template <>                                                                                     \
  __device__ inline void multiply_registers<T>(float (&d)[32], const uint32_t (&a)[4],            \
                                               uint64_t b) {                                      \
    asm volatile(                                                                                 \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" VERNIER_LIST_32          \
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"                                            \
        : VERNIER_FLOATS_32(d)                                                                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }                                                                                               \
  template <>                                                                                     \
  __device__ inline void multiply_registers<T>(float (&d)[64], const uint32_t (&a)[4],            \
                                               uint64_t b) {                                      \
    asm volatile(                                                                                 \
        "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" VERNIER_LIST_64         \
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"                                            \
        : VERNIER_FLOATS_64(d)                                                                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                    \
  }
VERNIER_DEFINE_PRODUCTS(__half, "f16")
VERNIER_DEFINE_PRODUCTS(__nv_bfloat16, "bf16")
#undef VERNIER_DEFINE_PRODUCTS
#undef VERNIER_FLOATS_64
#undef VERNIER_FLOATS_32
#undef VERNIER_LIST_64
#undef VERNIER_LIST_32

}  // namespace vernier::backend::cuda
