// cpu.quantize_rows.rows: q = x / scale + zero, rounded to the nearest of -127 … 127, halves to
// even, with the scale and zero of its row: [low, high] = all of its numbers and 0 become [-127,
// 127].
//
// x        [..., K], f32, f16 or bf16; any outer strides. q [..., K] q8; scale, zero [..., 1] f32
// Error    scale and zero: an ulp of f32. q: off by 2^-22 · 127 before rounding. A row of zeros, or
//          of numbers below 1e-42: scale, zero and q 0. NaN or infinity in a row: its scale is NaN,
//          and so is what is made of it
// Cost     reads x twice (the second time from the cache), writes a byte per element
#include <cmath>

#include "backend/cpu/body.h"
#include "backend/supports.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/elementwise/quantize_rows.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/convert-inl.h"

#ifndef VERNIER_CPU_QUANTIZE_ROWS_H_
#define VERNIER_CPU_QUANTIZE_ROWS_H_
namespace vernier::backend::cpu {
struct RowRange {
  float low, high;
};
/// q = (x - middle)·first·second. Of tiny numbers the product of both factors is infinite.
struct RowScale {
  float middle, first, second;
};
}  // namespace vernier::backend::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

// The range of a row and 0. NaN or infinity in it: NaN.
RowRange RangeOf(DType type, const std::byte* row, int64_t cols) {
  const F32 d;
  VF32 low = hn::Zero(d), high = low, differences = low;  // x - x is 0 or NaN
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    const VF32 x = load_floats(d, type, row, c, lanes);
    low = hn::Min(low, x);
    high = hn::Max(high, x);
    differences = hn::Or(differences, hn::Sub(x, x));
  });
  if (!hn::AllTrue(d, hn::Eq(differences, hn::Zero(d)))) return {NAN, NAN};
  return {hn::GetLane(hn::MinOfLanes(d, low)), hn::GetLane(hn::MaxOfLanes(d, high))};
}

void QuantizeRow(DType type, const std::byte* row, int64_t cols, const RowScale& by, int8_t* q) {
  constexpr float kLargestQ8 = 127;
  const F32 d;
  const hn::Rebind<int8_t, F32> d8;
  const auto middle = hn::Set(d, by.middle), first = hn::Set(d, by.first),
             second = hn::Set(d, by.second);
  const auto low = hn::Set(d, -kLargestQ8), high = hn::Set(d, kLargestQ8);
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    VF32 v = hn::Mul(hn::Sub(load_floats(d, type, row, c, lanes), middle), first);
    if (by.second != 1) v = hn::Mul(v, second);
    v = hn::Min(hn::Max(v, low), high);
    const auto bytes = hn::DemoteTo(d8, hn::NearestInt(v));
    if (lanes == static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(bytes, d8, q + c);
    HWY_ALIGN int8_t last[hn::MaxLanes(d)];
    hn::Store(bytes, d8, last);
    std::memcpy(q + c, last, static_cast<size_t>(lanes));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
namespace {

HWY_EXPORT(RangeOf);
HWY_EXPORT(QuantizeRow);

struct Scaling {
  RowScale by;
  float scale, zero;
};
Scaling scaling_of(const RowRange& range) {
  const double low = range.low, high = range.high;
  const auto scale = static_cast<float>((high - low) / 254);
  if (scale == 0) return {{0, 0, 1}, 0, 0};
  const double middle = (high + low) / 2, factor = 254 / (high - low);
  const auto zero = static_cast<float>(-middle * factor);
  if (factor < 1e30)
    return {{static_cast<float>(middle), static_cast<float>(factor), 1}, scale, zero};
  return {
      {static_cast<float>(middle), 0x1p100F, static_cast<float>(factor * 0x1p-100)}, scale, zero};
}

void launch_quantize_rows(const LaunchCall& call) {
  constexpr int64_t kChunk = 8192;  // elements: a microsecond or two
  const TensorArg& x = call.in[0];
  const int64_t cols = x.dim(-1);
  if (x.elems() == 0) return;
  const Rows rows(x);
  auto* q = call.out[0].as<int8_t>();
  const auto output = [&](size_t i) {
    return given(call.out, i) ? call.out[i].as<float>() : nullptr;
  };
  float *scales = output(1), *zeros = output(2);
  const auto width = static_cast<int64_t>(size_bytes(x.dtype));
  const int64_t count = elems_between(x, 0, x.rank - 1);
  call.execution.threads->parallel_for(
      count, std::max<int64_t>(1, kChunk / cols), [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          const std::byte* row = x.data + rows.offset(r) * width;
          const Scaling made = scaling_of(HWY_DYNAMIC_DISPATCH(RangeOf)(x.dtype, row, cols));
          HWY_DYNAMIC_DISPATCH(QuantizeRow)(x.dtype, row, cols, made.by, q + r * cols);
          if (scales != nullptr) scales[r] = made.scale;
          if (zeros != nullptr) zeros[r] = made.zero;
        }
      });
}

}  // namespace

extern const KernelBody quantize_rows;
constexpr KernelBody quantize_rows{
    .supports = &quantize_rows_operands,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .launch = &launch_quantize_rows,
};

}  // namespace vernier::backend::cpu
#endif
