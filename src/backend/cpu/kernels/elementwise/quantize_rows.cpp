// cpu.quantize_rows.rows: q = x·factor / scale + zero, rounded to the nearest of -127 … 127, halves
// to even, with the scale and zero of its row: [low, high] = all of its products x·factor and 0
// become [-127, 127]. Or, of f8e4m3, q = x·factor / scale, rounded to the nearest, where the
// largest |x·factor| of the row becomes 448.
//
// Or with a given scale and zero point for all rows.
//
// x        [..., K], f32, f16 or bf16; any outer strides. factor [K] f32, optional (absent: 1)
//          q [..., K] q8 or f8e4m3; scale, zero [..., 1] f32, or one number each, given
// Error    scale and zero: an ulp of f32. q: off by 2^-22 · 127 before rounding (f8e4m3: by a part
//          of 2^-22), and by x·factor's
//          rounding to f32, which is none where factors are powers of two. A row of zeros, or of
//          numbers below 1e-42: scale, zero and q 0. NaN or infinity in a row, or a product beyond
//          f32: its scale is NaN, and so is what is made of it
// Cost     reads x and factor twice (the second time from the cache), writes a byte per element
#include "backend/cpu/kernels/elementwise/quantize_rows.h"

#include <cmath>

#include "backend/cpu/body.h"
#include "backend/supports.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/elementwise/quantize_rows.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/kernels/elementwise/quantize_rows-inl.h"

#ifndef VERNIER_CPU_QUANTIZE_ROWS_H_
#define VERNIER_CPU_QUANTIZE_ROWS_H_
namespace vernier::backend::cpu {
struct RowOfX {
  DType type;
  const std::byte* x;
  const float* factors;  ///< of its columns; null: 1
  bool to_f8;            ///< q is f8e4m3, else q8
};
struct RowRange {
  float low, high;
};
/// q = (x·factor - middle)·first·second. Of tiny numbers the product of both factors is infinite.
struct RowScale {
  float middle, first, second;
};
}  // namespace vernier::backend::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {

// A row of x, or of x·factor.
template <bool kFactors>
struct ScaledRow {
  DType type;
  const std::byte* x;
  const float* factors;
  HWY_INLINE VF32 load(F32 d, int64_t c, int64_t lanes) const {
    const VF32 v = load_floats(d, type, x, c, lanes);
    if constexpr (!kFactors) return v;
    return hn::Mul(
        v, load_floats(d, DType::kF32, reinterpret_cast<const std::byte*>(factors), c, lanes));
  }
};

// The range of a row and 0. NaN or infinity in it: NaN.
template <class Row>
RowRange range_of(const Row& row, int64_t cols) {
  const F32 d;
  VF32 low = hn::Zero(d), high = low, differences = low;  // x - x is 0 or NaN
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    const VF32 x = row.load(d, c, lanes);
    low = hn::Min(low, x);
    high = hn::Max(high, x);
    differences = hn::Or(differences, hn::Sub(x, x));
  });
  if (!hn::AllTrue(d, hn::Eq(differences, hn::Zero(d)))) return {NAN, NAN};
  return {hn::GetLane(hn::MinOfLanes(d, low)), hn::GetLane(hn::MaxOfLanes(d, high))};
}

// q[c] = by(v), rounded, of every vector of the row.
template <class Row, class By>
void quantize_row(const Row& row, int64_t cols, const By& by, int8_t* q) {
  const F32 d;
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    store_bytes<int8_t>(nearest_q8(d, by(row.load(d, c, lanes))), q + c, lanes);
  });
}

// The bits of the nearest number of f8e4m3, halves to even, saturated: NaN is 0x7f. Above 2^-6, the
// smallest normal number, three bits of f32's mantissa stay, and f32's exponent is 120 larger;
// below, numbers are multiples of 2^-9.
HWY_INLINE hn::Vec<hn::Rebind<int32_t, F32>> bits_of_f8(F32 d, VF32 v) {
  const hn::Rebind<int32_t, F32> di;
  const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(di, v)), hn::Set(di, 0x80));
  const auto is_nan = hn::RebindMask(di, hn::IsNaN(v));
  const VF32 size = hn::Min(hn::Abs(v), hn::Set(d, 448.0F));
  const auto bits = hn::BitCast(di, size);
  const auto odd = hn::And(hn::ShiftRight<20>(bits), hn::Set(di, 1));
  const auto nearest = hn::ShiftRight<20>(hn::Add(hn::Add(bits, hn::Set(di, (1 << 19) - 1)), odd));
  const auto normal = hn::Sub(nearest, hn::Set(di, 120 << 3));
  const auto small = hn::NearestInt(hn::Mul(size, hn::Set(d, 0x1p9F)));
  const auto is_small = hn::RebindMask(di, hn::Lt(size, hn::Set(d, 0x1p-6F)));
  const auto number = hn::Or(sign, hn::IfThenElse(is_small, small, normal));
  return hn::IfThenElse(is_nan, hn::Set(di, 0x7f), number);
}
// As quantize_row, of f8e4m3.
template <class Row, class By>
void quantize_row_to_f8(const Row& row, int64_t cols, const By& by, uint8_t* q) {
  const F32 d;
  const hn::Rebind<uint8_t, F32> d8;
  for_each_vector(d, cols, [&](int64_t c, int64_t lanes) {
    const auto bytes = hn::DemoteTo(d8, bits_of_f8(d, by(row.load(d, c, lanes))));
    store_bytes<uint8_t>(bytes, q + c, lanes);
  });
}
template <class Row, class By>
void quantize_row_to(bool is_f8, const Row& row, int64_t cols, const By& by, uint8_t* q) {
  if (is_f8) return quantize_row_to_f8(row, cols, by, q);
  quantize_row(row, cols, by, reinterpret_cast<int8_t*>(q));
}
template <class By>
void quantize_either(const RowOfX& row, int64_t cols, const By& by, uint8_t* q) {
  if (row.factors == nullptr)
    return quantize_row_to(row.to_f8, ScaledRow<false>{row.type, row.x, nullptr}, cols, by, q);
  quantize_row_to(row.to_f8, ScaledRow<true>{row.type, row.x, row.factors}, cols, by, q);
}

// As range_of, of f16 and bf16 numbers without factors, compared as integers: 32 at a time.
RowRange range_of_halves(const RowOfX& row, int64_t cols) {
  const hn::CappedTag<int16_t, 32> d;
  using V = hn::Vec<decltype(d)>;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  const auto* x = reinterpret_cast<const int16_t*>(row.x);
  // The order of signed integers is that of numbers where all other bits of negative ones are
  // flipped, which is its own inverse.
  const auto flip = hn::Set(d, int16_t{0x7fff});
  V low = hn::Zero(d), high = low;
  const auto take = [&](V bits) HWY_ATTR {
    const V ordered = hn::Xor(bits, hn::And(hn::ShiftRight<15>(bits), flip));
    low = hn::Min(low, ordered);
    high = hn::Max(high, ordered);
  };
  int64_t c = 0;
  for (; c + width <= cols; c += width) take(hn::LoadU(d, x + c));
  if (c < cols) {
    HWY_ALIGN int16_t last[hn::MaxLanes(d)] = {};
    std::memcpy(last, x + c, static_cast<size_t>(cols - c) * sizeof(int16_t));
    take(hn::Load(d, last));
  }
  const auto number = [&](V ordered_in_all_lanes) HWY_ATTR {
    int16_t bits = hn::GetLane(ordered_in_all_lanes);
    if (bits < 0) bits = static_cast<int16_t>(bits ^ 0x7fff);
    return static_cast<float>(load_float(row.type, &bits));
  };
  const RowRange range{number(hn::MinOfLanes(d, low)), number(hn::MaxOfLanes(d, high))};
  // Infinity and NaN are beyond all numbers on both sides.
  if (!std::isfinite(range.low) || !std::isfinite(range.high)) return {NAN, NAN};
  return range;
}

RowRange RangeOf(const RowOfX& row, int64_t cols) {
  if (row.factors != nullptr) return range_of(ScaledRow<true>{row.type, row.x, row.factors}, cols);
  if (row.type != DType::kF32) return range_of_halves(row, cols);
  return range_of(ScaledRow<false>{row.type, row.x, nullptr}, cols);
}

void QuantizeRow(const RowOfX& row, int64_t cols, const RowScale& by, uint8_t* q) {
  const F32 d;
  const auto middle = hn::Set(d, by.middle), first = hn::Set(d, by.first),
             second = hn::Set(d, by.second);
  quantize_either(
      row, cols,
      [&](VF32 x) HWY_ATTR {
        const VF32 v = hn::Mul(hn::Sub(x, middle), first);
        return by.second != 1 ? hn::Mul(v, second) : v;
      },
      q);
}
void QuantizeGiven(const RowOfX& row, int64_t cols, const GivenScale& by, uint8_t* q) {
  if (!row.to_f8) {
    auto* bytes = reinterpret_cast<int8_t*>(q);
    return quantize_given({bytes, row.factors, by, cols}, row.type, row.x, cols);
  }
  const F32 d;
  const auto inverse = hn::Set(d, by.inverse), zero = hn::Set(d, by.zero);
  quantize_either(
      row, cols, [&](VF32 x) HWY_ATTR { return hn::MulAdd(x, inverse, zero); }, q);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
namespace {

HWY_EXPORT(RangeOf);
HWY_EXPORT(QuantizeRow);
HWY_EXPORT(QuantizeGiven);

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

Scaling f8_scaling_of(const RowRange& range) {
  constexpr double kLargest = 448;
  const double largest = std::max(double{range.high}, -double{range.low});
  const auto scale = static_cast<float>(largest / kLargest);
  if (scale == 0) return {{0, 0, 1}, 0, 0};
  const double factor = kLargest / largest;
  if (factor < 1e30) return {{0, static_cast<float>(factor), 1}, scale, 0};
  return {{0, 0x1p100F, static_cast<float>(factor * 0x1p-100)}, scale, 0};
}

GivenScale given_scale(const LaunchCall& call) {
  const bool has_zero = call.out[0].dtype != DType::kF8E4M3;
  return {1 / *call.in[2].as<const float>(), has_zero ? *call.in[3].as<const float>() : 0};
}

}  // namespace

void launch_quantize_rows(const LaunchCall& call) {
  constexpr int64_t kChunk = 8192;  // elements: a microsecond or two
  if (call.in[0].elems() == 0) return;
  const QuantizeRowsLaunch launch(call);
  call.execution.threads->parallel_for(launch.rows(), std::max<int64_t>(1, kChunk / launch.cols()),
                                       [&](int64_t begin, int64_t end, int) {
                                         for (int64_t r = begin; r < end; ++r) launch.run(r);
                                       });
}

GivenRows GivenRows::of(const LaunchCall& call) {
  return {.q = call.out[0].as<int8_t>(),
          .factors = given(call.in, 1) ? call.in[1].as<const float>() : nullptr,
          .by = given_scale(call),
          .cols = call.in[0].dim(-1)};
}

bool is_given_q8(const Problem& next) {
  return next.has_input(2) && next.outputs[0].dtype == DType::kQ8;
}

QuantizeRowsLaunch::QuantizeRowsLaunch(const LaunchCall& call)
    : x_(call.in[0]),
      rows_(x_),
      cols_(x_.dim(-1)),
      factors_(given(call.in, 1) ? call.in[1].as<const float>() : nullptr),
      is_f8_(call.out[0].dtype == DType::kF8E4M3),
      q_(call.out[0].as<uint8_t>()),
      scales_(given(call.out, 1) ? call.out[1].as<float>() : nullptr),
      zeros_(given(call.out, 2) ? call.out[2].as<float>() : nullptr) {
  if (!given(call.in, 2)) return;
  is_given_ = true;
  by_ = given_scale(call);
}

void QuantizeRowsLaunch::run(int64_t r) const {
  const auto width = static_cast<int64_t>(size_bytes(x_.dtype));
  const RowOfX row{x_.dtype, x_.data + rows_.offset(r) * width, factors_, is_f8_};
  uint8_t* q = q_ + r * cols_;
  if (is_given_) return HWY_DYNAMIC_DISPATCH(QuantizeGiven)(row, cols_, by_, q);
  const RowRange range = HWY_DYNAMIC_DISPATCH(RangeOf)(row, cols_);
  const Scaling made = is_f8_ ? f8_scaling_of(range) : scaling_of(range);
  HWY_DYNAMIC_DISPATCH(QuantizeRow)(row, cols_, made.by, q);
  if (scales_ != nullptr) scales_[r] = made.scale;
  if (zeros_ != nullptr) zeros_[r] = made.zero;
}

extern const KernelBody quantize_rows;
constexpr KernelBody quantize_rows{
    .supports = &quantize_rows_operands,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .launch = &launch_quantize_rows,
    .may_be_joined = true,
};

}  // namespace vernier::backend::cpu
#endif
