// Functions on arrays of doubles: see vector_math.h. exp by the reduction to ±ln(2)/2 and its
// Taylor series; erfc(a) = exp(-a²)·P/(1 + 2a), with P in (a − 4)/(a + 4) as in Shepherd and
// Laframboise, Chebyshev Approximation of (1 + 2x)exp(x²)erfc(x), Math. Comp. 36(153), 1981; tanh
// below 0.625 as in Cephes. Polynomials without a source: interpolated at Chebyshev nodes in 60
// digits.
#include "reference/vector_math.h"

#include <cmath>
#include <numbers>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reference/vector_math.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vernier::reference {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::CappedTag<double, 8>;
using V = hn::Vec<F64>;

// Σ c[i]·x^i
template <size_t n>
HWY_INLINE V polynomial(F64 d, V x, const double (&c)[n]) {
  V sum = hn::Set(d, c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

// 2^k for whole numbers k from -1022 to 1023.
HWY_INLINE V power_of_two(F64 d, V k) {
  const hn::RebindToUnsigned<F64> bits;
  constexpr double kWhole = 0x1.8p52;  // the sum's lowest bits are k's
  const auto biased = hn::BitCast(bits, hn::Add(k, hn::Set(d, kWhole + 1023)));
  return hn::BitCast(d, hn::ShiftLeft<52>(biased));
}

// Within 1 ulp; twice that where the result is subnormal.
HWY_INLINE V exp_of(F64 d, V x) {
  // r^i / i! from i = 2 on; the next term is below 2^-58 of the sum.
  static constexpr double kTaylor[] = {
      1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
      1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  // ln 2 in two parts, the first of which has so few bits that k times it is exact.
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kZeroBelow = -746, kInfiniteAbove = 710;
  // What becomes 0 is not computed: a product below all numbers takes a hundred times as long.
  const auto is_zero = hn::Lt(x, hn::Set(d, kZeroBelow));
  const V in_range = hn::IfThenZeroElse(is_zero, hn::Min(x, hn::Set(d, kInfiniteAbove)));
  const V k = hn::Round(hn::Mul(in_range, hn::Set(d, std::numbers::log2e)));
  V r = hn::NegMulAdd(k, hn::Set(d, kLn2High), in_range);
  r = hn::NegMulAdd(k, hn::Set(d, kLn2Low), r);
  const V e = hn::Add(hn::Set(d, 1.0), hn::MulAdd(hn::Mul(r, r), polynomial(d, r, kTaylor), r));
  // 2^k as a product: k alone may lie outside the exponents of normal numbers.
  const V half = hn::Round(hn::Mul(k, hn::Set(d, 0.5)));
  const V y = hn::Mul(hn::Mul(e, power_of_two(d, half)), power_of_two(d, hn::Sub(k, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(is_zero, y));
}

// exp(-a²)
HWY_INLINE V exp_of_minus_square(F64 d, V a) {
  // The square in two parts, of which the first is exact; the second is below 2^-15.
  const hn::RebindToUnsigned<F64> bits;
  constexpr uint64_t kUpper26 = ~uint64_t{0} << 27;
  const V high = hn::BitCast(d, hn::And(hn::BitCast(bits, a), hn::Set(bits, kUpper26)));
  const V rest = hn::Mul(hn::Sub(a, high), hn::Add(a, high));
  const V e = exp_of(d, hn::Neg(hn::Mul(high, high)));
  // exp(-rest) to the fourth power of rest
  const V series = hn::MulAdd(hn::MulAdd(rest, hn::Set(d, -1.0 / 6), hn::Set(d, 0.5)),
                              hn::Mul(rest, rest), hn::Neg(rest));
  return hn::MulAdd(e, series, e);
}

// erfc(x) for x >= 0, which is below the smallest number from 27.3 on.
HWY_INLINE V erfc_of_positive(F64 d, V x) {
  static constexpr double kP[] = {
      1.2495014583519075,      -0.12322474886591302,    -0.014621983814386652,
      0.09002464328596517,     -0.10443534397651796,    0.08180671374976063,
      -0.04904621936443579,    0.022923064451856087,    -0.00805679679296507,
      0.0018526877734796048,   -0.00010110972083191359, -0.00010856446361861206,
      3.781182642814374e-05,   3.402438740388397e-07,   -3.4471789812808034e-06,
      5.491651616143005e-07,   2.5906475379093684e-07,  -8.420658436248479e-08,
      -1.9586604420270916e-08, 1.0123547608045006e-08,  1.5629831961063768e-09,
      -1.057190094395983e-09,  -9.813855975762885e-11,  7.287226560591249e-11};
  constexpr double kLargest = 30;  // (a − 4)/(a + 4) in [-1, 13/17], which is [-1, 1] in t
  const V a = hn::Min(x, hn::Set(d, kLargest)), four = hn::Set(d, 4.0);
  const V t = hn::MulAdd(hn::Div(hn::Sub(a, four), hn::Add(a, four)), hn::Set(d, 17.0 / 15),
                         hn::Set(d, 2.0 / 15));
  const V scaled = hn::Div(polynomial(d, t, kP), hn::MulAdd(hn::Set(d, 2.0), a, hn::Set(d, 1.0)));
  return hn::Mul(scaled, exp_of_minus_square(d, a));
}

HWY_INLINE V erfc_of(F64 d, V x) {
  const V c = erfc_of_positive(d, hn::Abs(x));
  const V y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0), c), c);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V erf_of(F64 d, V x) {
  // erf(x)/x for |x| <= 1, in 2x² − 1
  static constexpr double kQ[] = {
      0.9654687386698673,     -0.1405360890227171,    0.019852496688983708,
      -0.0022854855611441132, 0.00021751715604159932, -1.7537169441124866e-05,
      1.223382738359897e-06,  -7.511569286591727e-08, 4.115800583208149e-09,
      -2.035228405815769e-10, 9.167619596865806e-12,  -3.8078824063194953e-13,
      1.4543887079465116e-14};
  const V a = hn::Abs(x), one = hn::Set(d, 1.0), inner = hn::Min(a, one);
  const V t = hn::MulSub(hn::Mul(hn::Set(d, 2.0), inner), inner, one);
  const V small = hn::Mul(x, polynomial(d, t, kQ));
  const V large = hn::CopySign(hn::Sub(one, erfc_of_positive(d, a)), x);
  const V y = hn::IfThenElse(hn::Le(a, one), small, large);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V tanh_of(F64 d, V x) {
  static constexpr double kP[] = {-1.61468768441708447952e3, -9.92877231001918586564e1,
                                  -9.64399179425052238628e-1};
  static constexpr double kQ[] = {4.84406305325125486048e3, 2.23548839060100448583e3,
                                  1.12811678491632931402e2, 1.0};
  constexpr double kSmall = 0.625;
  const V a = hn::Abs(x), one = hn::Set(d, 1.0), two = hn::Set(d, 2.0);
  const V inner = hn::Min(a, hn::Set(d, kSmall)), z = hn::Mul(inner, inner);
  const V ratio = hn::Div(polynomial(d, z, kP), polynomial(d, z, kQ));
  const V small = hn::MulAdd(hn::Mul(x, z), ratio, x);
  const V e = exp_of(d, hn::Mul(two, a));
  const V large = hn::CopySign(hn::Sub(one, hn::Div(two, hn::Add(e, one))), x);
  const V y = hn::IfThenElse(hn::Lt(a, hn::Set(d, kSmall)), small, large);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V sigmoid_of(F64 d, V x) {
  const V one = hn::Set(d, 1.0), e = exp_of(d, hn::Neg(hn::Abs(x)));
  const V y = hn::Div(hn::IfThenElse(hn::Ge(x, hn::Zero(d)), one, e), hn::Add(one, e));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V gelu_erf_of(F64 d, V x) {
  const V c = erfc_of(d, hn::Div(hn::Neg(x), hn::Set(d, std::numbers::sqrt2)));
  return hn::Mul(hn::Mul(hn::Set(d, 0.5), x), c);
}

HWY_INLINE V gelu_tanh_of(F64 d, V x) {
  const double root = std::sqrt(2.0 / std::numbers::pi);
  const V cubic = hn::Mul(hn::Mul(hn::Mul(hn::Set(d, 0.044715), x), x), x);
  const V inner = hn::Mul(hn::Set(d, root), hn::Add(x, cubic));
  const V e = exp_of(d, hn::Mul(hn::Set(d, -2.0), inner));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0), e));
}

// The last elements go through a whole vector, too.
template <class F>
HWY_INLINE void each(const double* x, double* y, int64_t count, const F& f) {
  const F64 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  if (i == count) return;
  HWY_ALIGN double rest[hn::MaxLanes(F64())] = {};
  for (int64_t k = i; k < count; ++k) rest[k - i] = x[k];
  hn::Store(f(d, hn::Load(d, rest)), d, rest);
  for (int64_t k = i; k < count; ++k) y[k] = rest[k - i];
}

void ExpEach(const double* x, double* y, int64_t count) {
  each(x, y, count, [](F64 d, V v) HWY_ATTR { return exp_of(d, v); });
}
void TanhEach(const double* x, double* y, int64_t count) {
  each(x, y, count, [](F64 d, V v) HWY_ATTR { return tanh_of(d, v); });
}
void ErfEach(const double* x, double* y, int64_t count) {
  each(x, y, count, [](F64 d, V v) HWY_ATTR { return erf_of(d, v); });
}
void SigmoidEach(const double* x, double* y, int64_t count) {
  each(x, y, count, [](F64 d, V v) HWY_ATTR { return sigmoid_of(d, v); });
}
void GeluErfEach(const double* x, double* y, int64_t count) {
  each(x, y, count, [](F64 d, V v) HWY_ATTR { return gelu_erf_of(d, v); });
}
void GeluTanhEach(const double* x, double* y, int64_t count) {
  each(x, y, count, [](F64 d, V v) HWY_ATTR { return gelu_tanh_of(d, v); });
}
}  // namespace HWY_NAMESPACE
}  // namespace vernier::reference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::reference {
HWY_EXPORT(ExpEach);
HWY_EXPORT(TanhEach);
HWY_EXPORT(ErfEach);
HWY_EXPORT(SigmoidEach);
HWY_EXPORT(GeluErfEach);
HWY_EXPORT(GeluTanhEach);

void exp_each(const double* x, double* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ExpEach)(x, y, count);
}
void tanh_each(const double* x, double* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(TanhEach)(x, y, count);
}
void erf_each(const double* x, double* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ErfEach)(x, y, count);
}
void sigmoid_each(const double* x, double* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(SigmoidEach)(x, y, count);
}
void gelu_erf_each(const double* x, double* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(GeluErfEach)(x, y, count);
}
void gelu_tanh_each(const double* x, double* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(GeluTanhEach)(x, y, count);
}

}  // namespace vernier::reference
#endif
