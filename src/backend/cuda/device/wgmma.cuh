// wgmma over 32 bytes of K: d[64, N] += a[64, k] · b[N, k]ᵀ with f32 sums, k = 16 elements of 16
// bits or 8 of TF32 (f32 of which the low 13 bits are not looked at); a and b are K-major tiles in
// shared memory. One overload set by N; PTX wants the registers of d spelt out. C++17.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace vernier::backend::cuda {

// clang-format off
#define VERNIER_P0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define VERNIER_P1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define VERNIER_P2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define VERNIER_P3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define VERNIER_P4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define VERNIER_P5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define VERNIER_P6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define VERNIER_P7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define VERNIER_P8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define VERNIER_P9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define VERNIER_P10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define VERNIER_P11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define VERNIER_P12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define VERNIER_P13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define VERNIER_P14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define VERNIER_P15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define VERNIER_D0 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define VERNIER_D1 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define VERNIER_D2 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define VERNIER_D3 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define VERNIER_D4 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define VERNIER_D5 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define VERNIER_D6 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define VERNIER_D7 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define VERNIER_D8 "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define VERNIER_D9 "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define VERNIER_D10 "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define VERNIER_D11 "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define VERNIER_D12 "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define VERNIER_D13 "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define VERNIER_D14 "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define VERNIER_D15 "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

#define VERNIER_WGMMA(N, TYPES, TAIL, P, A, B, ADD, ...)                                          \
  asm volatile(                                                                              \
      "{\n.reg .pred add;\nsetp.ne.b32 add, %" #ADD ", 0;\n"                                 \
      "wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" P "}, %" #A ", %" #B ", add, 1, 1" TAIL ";\n}\n" \
      : __VA_ARGS__                                                                          \
      : "l"(a), "l"(b), "r"(add))

/// The instruction for N columns, d = a·b + (add ? d : 0); `T` is __half, __nv_bfloat16 or, for
/// TF32, float.
template <int N, class T>
struct Wgmma;
#define VERNIER_WGMMA_STRUCT(N, REGISTERS, P, A, B, ADD, ...)                                  \
  template <>                                                                                \
  struct Wgmma<N, __half> {                                                                  \
    static __device__ __forceinline__ void run(float (&d)[REGISTERS], uint64_t a, uint64_t b, int add) { \
      VERNIER_WGMMA(N, "k16.f32.f16.f16", ", 0, 0", P, A, B, ADD, __VA_ARGS__);               \
    }                                                                                        \
  };                                                                                         \
  template <>                                                                                \
  struct Wgmma<N, __nv_bfloat16> {                                                           \
    static __device__ __forceinline__ void run(float (&d)[REGISTERS], uint64_t a, uint64_t b, int add) { \
      VERNIER_WGMMA(N, "k16.f32.bf16.bf16", ", 0, 0", P, A, B, ADD, __VA_ARGS__);             \
    }                                                                                        \
  };                                                                                         \
  template <>                                                                                \
  struct Wgmma<N, float> {                                                                   \
    static __device__ __forceinline__ void run(float (&d)[REGISTERS], uint64_t a, uint64_t b, int add) { \
      VERNIER_WGMMA(N, "k8.f32.tf32.tf32", "", P, A, B, ADD, __VA_ARGS__);                    \
    }                                                                                        \
  };
VERNIER_WGMMA_STRUCT(8, 4, "%0, %1, %2, %3", 4, 5, 6,
                     "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]))
VERNIER_WGMMA_STRUCT(16, 8, VERNIER_P0, 8, 9, 10,
                     VERNIER_D0)
VERNIER_WGMMA_STRUCT(24, 12, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11", 12, 13, 14,
                     "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]))
VERNIER_WGMMA_STRUCT(32, 16, VERNIER_P0 ", " VERNIER_P1, 16, 17, 18,
                     VERNIER_D0, VERNIER_D1)
VERNIER_WGMMA_STRUCT(48, 24, VERNIER_P0 ", " VERNIER_P1 ", " VERNIER_P2, 24, 25, 26,
                     VERNIER_D0, VERNIER_D1, VERNIER_D2)
VERNIER_WGMMA_STRUCT(64, 32, VERNIER_P0 ", " VERNIER_P1 ", " VERNIER_P2 ", " VERNIER_P3, 32, 33, 34,
                     VERNIER_D0, VERNIER_D1, VERNIER_D2, VERNIER_D3)
VERNIER_WGMMA_STRUCT(128, 64, VERNIER_P0 ", " VERNIER_P1 ", " VERNIER_P2 ", " VERNIER_P3 ", " VERNIER_P4 ", " VERNIER_P5 ", " VERNIER_P6 ", " VERNIER_P7, 64, 65, 66,
                     VERNIER_D0, VERNIER_D1, VERNIER_D2, VERNIER_D3, VERNIER_D4, VERNIER_D5, VERNIER_D6, VERNIER_D7)
VERNIER_WGMMA_STRUCT(192, 96, VERNIER_P0 ", " VERNIER_P1 ", " VERNIER_P2 ", " VERNIER_P3 ", " VERNIER_P4 ", " VERNIER_P5 ", " VERNIER_P6 ", " VERNIER_P7 ", " VERNIER_P8 ", " VERNIER_P9 ", " VERNIER_P10 ", " VERNIER_P11, 96, 97, 98,
                     VERNIER_D0, VERNIER_D1, VERNIER_D2, VERNIER_D3, VERNIER_D4, VERNIER_D5, VERNIER_D6, VERNIER_D7, VERNIER_D8, VERNIER_D9, VERNIER_D10, VERNIER_D11)
VERNIER_WGMMA_STRUCT(256, 128, VERNIER_P0 ", " VERNIER_P1 ", " VERNIER_P2 ", " VERNIER_P3 ", " VERNIER_P4 ", " VERNIER_P5 ", " VERNIER_P6 ", " VERNIER_P7 ", " VERNIER_P8 ", " VERNIER_P9 ", " VERNIER_P10 ", " VERNIER_P11 ", " VERNIER_P12 ", " VERNIER_P13 ", " VERNIER_P14 ", " VERNIER_P15, 128, 129, 130,
                     VERNIER_D0, VERNIER_D1, VERNIER_D2, VERNIER_D3, VERNIER_D4, VERNIER_D5, VERNIER_D6, VERNIER_D7, VERNIER_D8, VERNIER_D9, VERNIER_D10, VERNIER_D11, VERNIER_D12, VERNIER_D13, VERNIER_D14, VERNIER_D15)
#undef VERNIER_WGMMA_STRUCT
#undef VERNIER_WGMMA
#undef VERNIER_P0
#undef VERNIER_D0
#undef VERNIER_P1
#undef VERNIER_D1
#undef VERNIER_P2
#undef VERNIER_D2
#undef VERNIER_P3
#undef VERNIER_D3
#undef VERNIER_P4
#undef VERNIER_D4
#undef VERNIER_P5
#undef VERNIER_D5
#undef VERNIER_P6
#undef VERNIER_D6
#undef VERNIER_P7
#undef VERNIER_D7
#undef VERNIER_P8
#undef VERNIER_D8
#undef VERNIER_P9
#undef VERNIER_D9
#undef VERNIER_P10
#undef VERNIER_D10
#undef VERNIER_P11
#undef VERNIER_D11
#undef VERNIER_P12
#undef VERNIER_D12
#undef VERNIER_P13
#undef VERNIER_D13
#undef VERNIER_P14
#undef VERNIER_D14
#undef VERNIER_P15
#undef VERNIER_D15
// clang-format on

}  // namespace vernier::backend::cuda
