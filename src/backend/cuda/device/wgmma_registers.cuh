// The accumulators of wgmma, spelled out as PTX requires: VERNIER_REGISTERS_n names the first n
// operands of an instruction, VERNIER_FLOATS_n(io, d) passes it d[0] to d[n - 1]. C++17.
#pragma once

#define VERNIER_OUT "=f"     // what d was does not matter
#define VERNIER_IN_OUT "+f"  // d is added to
#define VERNIER_INTEGERS_IN_OUT "+r"

// clang-format off
#define VERNIER_REGISTERS_4 "%0, %1, %2, %3"
#define VERNIER_REGISTERS_8 VERNIER_REGISTERS_4 \
  ", %4, %5, %6, %7"
#define VERNIER_REGISTERS_12 VERNIER_REGISTERS_8 \
  ", %8, %9, %10, %11"
#define VERNIER_REGISTERS_16 VERNIER_REGISTERS_12 \
  ", %12, %13, %14, %15"
#define VERNIER_REGISTERS_24 VERNIER_REGISTERS_16 \
  ", %16, %17, %18, %19, %20, %21, %22, %23"
#define VERNIER_REGISTERS_32 VERNIER_REGISTERS_24 \
  ", %24, %25, %26, %27, %28, %29, %30, %31"
#define VERNIER_REGISTERS_48 VERNIER_REGISTERS_32 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define VERNIER_REGISTERS_64 VERNIER_REGISTERS_48 \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define VERNIER_REGISTERS_96 VERNIER_REGISTERS_64 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define VERNIER_REGISTERS_128 VERNIER_REGISTERS_96 \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define VERNIER_FLOATS_4(io, d) io(d[0]), io(d[1]), io(d[2]), io(d[3])
#define VERNIER_FLOATS_8(io, d) VERNIER_FLOATS_4(io, d), \
  io(d[4]), io(d[5]), io(d[6]), io(d[7])
#define VERNIER_FLOATS_12(io, d) VERNIER_FLOATS_8(io, d), \
  io(d[8]), io(d[9]), io(d[10]), io(d[11])
#define VERNIER_FLOATS_16(io, d) VERNIER_FLOATS_12(io, d), \
  io(d[12]), io(d[13]), io(d[14]), io(d[15])
#define VERNIER_FLOATS_24(io, d) VERNIER_FLOATS_16(io, d), \
  io(d[16]), io(d[17]), io(d[18]), io(d[19]), io(d[20]), io(d[21]), io(d[22]), io(d[23])
#define VERNIER_FLOATS_32(io, d) VERNIER_FLOATS_24(io, d), \
  io(d[24]), io(d[25]), io(d[26]), io(d[27]), io(d[28]), io(d[29]), io(d[30]), io(d[31])
#define VERNIER_FLOATS_48(io, d) VERNIER_FLOATS_32(io, d), \
  io(d[32]), io(d[33]), io(d[34]), io(d[35]), io(d[36]), io(d[37]), io(d[38]), io(d[39]), \
  io(d[40]), io(d[41]), io(d[42]), io(d[43]), io(d[44]), io(d[45]), io(d[46]), io(d[47])
#define VERNIER_FLOATS_64(io, d) VERNIER_FLOATS_48(io, d), \
  io(d[48]), io(d[49]), io(d[50]), io(d[51]), io(d[52]), io(d[53]), io(d[54]), io(d[55]), \
  io(d[56]), io(d[57]), io(d[58]), io(d[59]), io(d[60]), io(d[61]), io(d[62]), io(d[63])
#define VERNIER_FLOATS_96(io, d) VERNIER_FLOATS_64(io, d), \
  io(d[64]), io(d[65]), io(d[66]), io(d[67]), io(d[68]), io(d[69]), io(d[70]), io(d[71]), \
  io(d[72]), io(d[73]), io(d[74]), io(d[75]), io(d[76]), io(d[77]), io(d[78]), io(d[79]), \
  io(d[80]), io(d[81]), io(d[82]), io(d[83]), io(d[84]), io(d[85]), io(d[86]), io(d[87]), \
  io(d[88]), io(d[89]), io(d[90]), io(d[91]), io(d[92]), io(d[93]), io(d[94]), io(d[95])
#define VERNIER_FLOATS_128(io, d) VERNIER_FLOATS_96(io, d), \
  io(d[96]), io(d[97]), io(d[98]), io(d[99]), io(d[100]), io(d[101]), io(d[102]), io(d[103]), \
  io(d[104]), io(d[105]), io(d[106]), io(d[107]), io(d[108]), io(d[109]), io(d[110]), io(d[111]), \
  io(d[112]), io(d[113]), io(d[114]), io(d[115]), io(d[116]), io(d[117]), io(d[118]), io(d[119]), \
  io(d[120]), io(d[121]), io(d[122]), io(d[123]), io(d[124]), io(d[125]), io(d[126]), io(d[127])
// clang-format on
