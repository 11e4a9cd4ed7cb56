// cpu.quantize_rows.rows: q = x / scale of its row, rounded to the nearest of -127 … 127, halves to
// even; scale = largest |x| of the row / 127.
//
// x        [..., K], f32, f16 or bf16; any outer strides. q [..., K] q8, scale [..., 1] f32
// Error    scale: half an ulp of f32. q: |x| · 127 / largest, off by 2^-23 of it before rounding. A
//          row of zeros, or of numbers below 1e-43: scale 0, q 0. NaN in a row: its scale is NaN, and
//          so is what is made of it
// Cost     reads x twice (the second time from the cache), writes a byte per element
#include <cmath>

#include "backend/cpu/body.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/elementwise/quantize_rows.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

// The largest |x| of a row; NaN if it holds one. Bits of numbers without their sign are ordered as
// the numbers are, NaN behind infinity.
float LargestOf(DType type, const std::byte* row, int64_t cols) {
  const F32 d;
  const hn::Rebind<int32_t, F32> di;
  auto largest = hn::Zero(di);
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(load_floats(d, type, row, c, lanes))));
  });
  return hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, largest)));
}

void QuantizeRow(DType type, const std::byte* row, int64_t cols, float largest, int8_t* q) {
  constexpr float kLargestQ8 = 127;
  const F32 d;
  const hn::Rebind<int8_t, F32> d8;
  // Of tiny numbers the inverse of the scale would be infinite.
  const bool tiny = largest < 1e-30F;
  const float scale = largest / kLargestQ8;
  const auto factor = hn::Set(d, tiny ? 0x1p100F : kLargestQ8 / largest);
  const auto factor2 = hn::Set(d, !tiny ? 1.0F : scale > 0 ? 1 / (scale * 0x1p100F) : 0.0F);
  const auto low = hn::Set(d, -kLargestQ8), high = hn::Set(d, kLargestQ8);
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    VF32 v = hn::Mul(load_floats(d, type, row, c, lanes), factor);
    if (tiny) v = hn::Mul(v, factor2);
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

HWY_EXPORT(LargestOf);
HWY_EXPORT(QuantizeRow);

void launch_quantize_rows(const LaunchCall& call) {
  constexpr int64_t kChunk = 8192;  // elements: a microsecond or two
  const TensorArg& x = call.in[0];
  const int64_t cols = x.dim(-1);
  if (x.elems() == 0) return;
  const Rows rows(x);
  auto* q = call.out[0].as<int8_t>();
  float* scales = given(call.out, 1) ? call.out[1].as<float>() : nullptr;
  const auto width = static_cast<int64_t>(size_bytes(x.dtype));
  const int64_t count = elems_between(x, 0, x.rank - 1);
  call.execution.threads->parallel_for(
      count, std::max<int64_t>(1, kChunk / cols), [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          const std::byte* row = x.data + rows.offset(r) * width;
          const float largest = HWY_DYNAMIC_DISPATCH(LargestOf)(x.dtype, row, cols);
          HWY_DYNAMIC_DISPATCH(QuantizeRow)(x.dtype, row, cols, largest, q + r * cols);
          if (scales != nullptr) scales[r] = largest / 127;
        }
      });
}

Support supports_quantize_rows(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  if (type != DType::kF32 && !is_16_bit_float(type))
    return no("input 0 is " + std::string(name(type)) + ", this kernel takes f32, f16 and bf16");
  if (problem.outputs[0].dtype != DType::kQ8)
    return no("output 0 is " + std::string(name(problem.outputs[0].dtype)));
  if (problem.outputs.size() > 1 && problem.outputs[1].present &&
      problem.outputs[1].dtype != DType::kF32)
    return no("the scales are " + std::string(name(problem.outputs[1].dtype)) +
              ", this kernel gives f32");
  return yes();
}

}  // namespace

extern const KernelBody quantize_rows;
constexpr KernelBody quantize_rows{
    .supports = &supports_quantize_rows,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .launch = &launch_quantize_rows,
};

}  // namespace vernier::backend::cpu
#endif
