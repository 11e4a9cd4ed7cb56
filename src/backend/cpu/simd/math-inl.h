// exp, log, tanh, sigmoid, erf, GELU on f32 vectors: one formula and one set of polynomials for all
// instruction sets; NaN in gives NaN out. Bounds hold for every finite input and are checked
// against long double in tests/backend/cpu/math_test.cpp. Included once per Highway target.
#if defined(VERNIER_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VERNIER_CPU_MATH_INL_H_
#undef VERNIER_CPU_MATH_INL_H_
#else
#define VERNIER_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// c0 + x·(c1 + x·(c2 + …)).
template <class D, class V>
HWY_INLINE V horner(D d, V /*x*/, float c) {
  return hn::Set(d, c);
}
template <class D, class V, class... C>
HWY_INLINE V horner(D d, V x, float c, C... rest) {
  return hn::MulAdd(horner(d, x, rest...), x, hn::Set(d, c));
}

/// 2^n for integer lanes -126 <= n <= 127.
template <class D, class VI>
HWY_INLINE hn::Vec<D> power_of_two(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

/// e^x = 2^n · e^r: n = round(x / ln 2), e^r = 1 + r + r²·P(r), |r| <= ln2/2, P within 2^-28.3.
template <class D, class V = hn::Vec<D>>
struct ExpParts {
  V n, e;  ///< e = e^r
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE ExpParts<D> exp_parts(D d, V x) {
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  // ln 2 in two parts; the first has 9 trailing zero bits, so n·part is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  const V p = horner(d, r, 4.999999404e-01f, 1.666652113e-01f, 4.166838899e-02f, 8.368716575e-03f,
                     1.381459879e-03f);
  return {n, hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f))};
}

/// e^x. Error <= 2 ulp (subnormal results: 1 ulp of the smallest subnormal more); e^0 is exactly 1;
/// x > 88.73 gives +inf, x < -104 gives +0, NaN gives NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_f32(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto [n, e] = exp_parts(d, hn::Min(hn::Max(x, hn::Set(d, -105.0f)), hn::Set(d, 89.0f)));
  // Two factors: a result may be subnormal or overflow although 1 <= e < 2 does not.
  const auto exponent = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(exponent);
  const V y = hn::Mul(hn::Mul(e, power_of_two(d, half)), power_of_two(d, hn::Sub(exponent, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// e^x for x <= 0, with +0 for results below the smallest normal number (x < -87.33): what a
/// softmax adds to a sum of at least 1. All other bits are those of exp_f32. Operations on
/// subnormal numbers take more than 100 cycles on some CPUs. x > 0 gives e^0; NaN gives NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_normal_f32(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V least = hn::Set(d, -87.3365f);  // its exponential is normal, in f32 too
  const auto [n, e] = exp_parts(d, hn::Min(hn::Max(x, least), hn::Zero(d)));
  const V y = hn::Mul(e, power_of_two(d, hn::ConvertTo(di, n)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(hn::Lt(x, least), y));
}

/// ln x. Error <= 2 ulp; ln 0 = -inf, x < 0 and NaN give NaN, +inf gives +inf.
/// x = 2^k·(1+f), sqrt(1/2) <= 1+f < sqrt 2; ln(1+f) = f - f²/2 + f³·P(f), P within 2^-30.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_f32(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);  // · 2^23
  // Bits of 1/sqrt(2) subtracted: the exponent field becomes k with 1+f in [sqrt(1/2), sqrt 2).
  const auto bits = hn::Sub(hn::BitCast(di, scaled), hn::Set(di, 0x3f3504f3));
  const auto k = hn::ShiftRight<23>(bits);
  const V m =
      hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x007fffff)), hn::Set(di, 0x3f3504f3)));
  const V kf = hn::Sub(hn::ConvertTo(d, k), hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
  const V f = hn::Sub(m, hn::Set(d, 1.0f));
  const V f2 = hn::Mul(f, f);
  const V p = horner(d, f, 3.333331347e-01f, -2.500000894e-01f, 2.000211924e-01f, -1.666799635e-01f,
                     1.421955228e-01f, -1.240558848e-01f, 1.188816279e-01f, -1.167565584e-01f,
                     6.746643782e-02f);
  V y = hn::Mul(hn::Mul(f, f2), p);
  y = hn::MulAdd(kf, hn::Set(d, -2.12194440e-4f), y);
  y = hn::NegMulAdd(hn::Set(d, 0.5f), f2, y);
  y = hn::MulAdd(kf, hn::Set(d, 0.693359375f), hn::Add(f, y));
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Eq(x, infinity), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  const V nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, nan);
}

/// 1 / (1 + e^-x). Error <= 4 ulp where the result is a normal number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_f32(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp_f32(d, hn::Neg(x))));
}

/// tanh x. Error <= 3 ulp. |x| < 0.625: x + x³·P(x²); else ±(1 - 2/(e^2|x| + 1)).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_f32(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V magnitude = hn::Abs(x);
  const V u = hn::Mul(x, x);
  const V p = horner(d, u, -3.333328366e-01f, 1.333149076e-01f, -5.374349654e-02f, 2.065058611e-02f,
                     -5.717043765e-03f);
  const V small = hn::MulAdd(hn::Mul(x, u), p, x);
  const V e = exp_f32(d, hn::Add(magnitude, magnitude));
  const V large = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), small, hn::CopySign(large, x));
}

inline constexpr float kErfSplit = 0.921875f;  ///< below: odd polynomial, above: exp(polynomial)
inline constexpr float kErfcZero = 4.0f;       ///< erfc(4) = 1.5e-8 < ulp(1)/2: taken as 0

/// erf(t) for |t| < kErfSplit: t·P(t²) within 2^-31.
template <class D, class V>
HWY_INLINE V erf_small(D d, V t) {
  return hn::Mul(t,
                 horner(d, hn::Mul(t, t), 1.128379226e+00f, -3.761263490e-01f, 1.128370166e-01f,
                        -2.685970254e-02f, 5.201716442e-03f, -8.149808273e-04f, 8.397804777e-05f));
}
/// erfc(t) for t >= kErfSplit: exp(Q(t)), relative error <= 2e-6; 0 from kErfcZero on.
template <class D, class V>
HWY_INLINE V erfc_large(D d, V t) {
  const V limited = hn::Min(t, hn::Set(d, kErfcZero));
  const V q = horner(d, limited, 2.942716237e-04f, -1.130131483e+00f, -6.319953799e-01f,
                     -1.099251583e-01f, 2.633552812e-02f, -4.730277695e-03f, 5.907143932e-04f,
                     -4.535448898e-05f, 1.602485440e-06f);
  return hn::IfThenZeroElse(hn::Ge(t, hn::Set(d, kErfcZero)), exp_f32(d, q));
}

/// erf x. Error <= 3 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf_f32(D d, V x) {
  const V t = hn::Abs(x);
  const V large = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), erfc_large(d, t)), x);
  const V y = hn::IfThenElse(hn::Lt(t, hn::Set(d, kErfSplit)), erf_small(d, x), large);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// x·(1 + erf(x/√2))/2. Error <= 2e-7·max(|x|, 1) absolute, and <= 4e-6 relative for x >= -5.6;
/// below -5.66 the result is -0 (true value above -4.3e-8). -inf gives NaN (-inf · 0), as the
/// definition does.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_erf_f32(D d, V x) {
  const V t = hn::Mul(hn::Abs(x), hn::Set(d, 0.707106781f));
  const V half = hn::Set(d, 0.5f);
  // Φ(x) = ½ + ½ erf(x/√2); in the tails ½ erfc(t) or its complement, without cancellation.
  const V signed_t = hn::CopySign(t, x);
  const V middle = hn::MulAdd(half, erf_small(d, signed_t), half);
  const V tail = hn::Mul(half, erfc_large(d, t));
  const V outer = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
  const V phi = hn::IfThenElse(hn::Lt(t, hn::Set(d, kErfSplit)), middle, outer);
  return hn::Mul(x, phi);
}

/// Φ(-t) = ½ erfc(t/√2) for t in [h·i, h·(i + 1)), h = 3/16: coefficient k of a cubic in t/h - i -
/// ½ stands at [k][i]. Error times max(t, 1) <= 2.2e-7; 0 from t = 5.8125 on.
inline constexpr float kGeluTail[4][32] = {
    {4.626539052e-01f, 3.892594576e-01f, 3.196243644e-01f, 2.558318675e-01f, 1.994047761e-01f,
     1.512119919e-01f, 1.114696860e-01f, 7.982503623e-02f, 5.549605191e-02f, 3.743579984e-02f,
     2.449086308e-02f, 1.553201862e-02f, 9.545421228e-03f, 5.682784133e-03f, 3.276408184e-03f,
     1.828908105e-03f, 9.881925071e-04f, 5.167216877e-04f, 2.614305995e-04f, 1.279582648e-04f,
     6.057971405e-05f, 2.773795131e-05f, 1.228165092e-05f, 5.258069450e-06f, 2.176403768e-06f,
     8.708763062e-07f, 3.368536170e-07f, 1.259391098e-07f, 4.550764743e-08f, 1.589222620e-08f,
     5.363349764e-09f, 0.000000000e+00f},
    {-7.447361201e-02f, -7.190089673e-02f, -6.701902300e-02f, -6.031061336e-02f, -5.239878967e-02f,
     -4.395213351e-02f, -3.559353203e-02f, -2.782879211e-02f, -2.100629359e-02f, -1.530862879e-02f,
     -1.077097189e-02f, -7.316531148e-03f, -4.798297770e-03f, -3.038090887e-03f, -1.857145340e-03f,
     -1.096030232e-03f, -6.244973047e-04f, -3.435342223e-04f, -1.824486681e-04f, -9.354975191e-05f,
     -4.631009870e-05f, -2.213297739e-05f, -1.021256685e-05f, -4.549470759e-06f, -1.956670076e-06f,
     -8.124656574e-07f, -3.257038941e-07f, -1.260582820e-07f, -4.710317114e-08f, -1.699257091e-08f,
     -5.918316059e-09f, 0.000000000e+00f},
    {6.531253457e-04f, 1.891776919e-03f, 2.939184895e-03f, 3.703543684e-03f, 4.137887154e-03f,
     4.243241623e-03f, 4.062335938e-03f, 3.666087054e-03f, 3.137572668e-03f, 2.556732623e-03f,
     1.989266835e-03f, 1.480803476e-03f, 1.056232606e-03f, 7.227489259e-04f, 4.748756764e-04f,
     2.998168056e-04f, 1.820013567e-04f, 1.062794327e-04f, 5.972518193e-05f, 3.231089067e-05f,
     1.683259143e-05f, 8.446408174e-06f, 4.083259228e-06f, 1.902115514e-06f, 8.539524288e-07f,
     3.695389807e-07f, 1.541602188e-07f, 6.200395575e-08f, 2.404615707e-08f, 8.992714129e-09f,
     3.243324498e-09f, 0.000000000e+00f},
    {4.316882405e-04f,  3.872672096e-04f,  3.059578885e-04f,  2.010531462e-04f,  8.860364323e-05f,
     -1.633997090e-05f, -1.010612468e-04f, -1.590480824e-04f, -1.891468710e-04f, -1.945345284e-04f,
     -1.812274859e-04f, -1.562806137e-04f, -1.262519218e-04f, -9.625456005e-05f, -6.959417078e-05f,
     -4.788216756e-05f, -3.142710557e-05f, -1.971420534e-05f, -1.183666427e-05f, -6.810113973e-06f,
     -3.758008461e-06f, -1.990535566e-06f, -1.012665507e-06f, -4.950817925e-07f, -2.327015949e-07f,
     -1.051965910e-07f, -4.575406720e-08f, -1.915183567e-08f, -7.717119388e-09f, -2.994072323e-09f,
     -1.118713344e-09f, 0.000000000e+00f},
};

/// x·(1 + erf(x/√2))/2 by a table: a fifth of the time of gelu_erf_f32. Error <= 2.7e-7·max(|x|, 1)
/// absolute, not relative: for results that are stored in fewer bits. -inf gives NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_erf_table_f32(D d, V x) {
  // Added to a number below 2^22, it leaves the nearest integer in the lowest bits.
  const V round = hn::Set(d, 0x1.8p23f);
  const V t =
      hn::Min(hn::MulAdd(hn::Abs(x), hn::Set(d, 16.0f / 3), hn::Set(d, -0.5f)), hn::Set(d, 31.0f));
  const V rounded = hn::Add(t, round);
  const V f = hn::Sub(t, hn::Sub(rounded, round));
  const auto i = hn::BitCast(hn::Rebind<int32_t, D>(), rounded);
  const auto coefficient = [&](int k) HWY_ATTR {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return V{_mm512_permutex2var_ps(_mm512_loadu_ps(kGeluTail[k]), i.raw,
                                    _mm512_loadu_ps(kGeluTail[k] + 16))};
#else
    return hn::GatherIndex(d, kGeluTail[k], hn::And(i, hn::Set(hn::Rebind<int32_t, D>(), 31)));
#endif
  };
  const V tail =
      hn::MulAdd(hn::MulAdd(hn::MulAdd(coefficient(3), f, coefficient(2)), f, coefficient(1)), f,
                 coefficient(0));
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail)));
}

/// x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2 = x·sigmoid(2·√(2/π)·(x + 0.044715·x³)).
/// Error <= 4e-7·max(|x|, 1) absolute. -inf gives NaN, as the definition does.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh_f32(D d, V x) {
  // Beyond ±12 the sigmoid is 0 or 1 in f32; bounding keeps x³ finite.
  const V limited = hn::Min(hn::Max(x, hn::Set(d, -12.0f)), hn::Set(d, 12.0f));
  const V inner =
      hn::MulAdd(hn::Mul(hn::Mul(limited, limited), limited), hn::Set(d, 0.044715f), limited);
  const V phi = sigmoid_f32(d, hn::Mul(inner, hn::Set(d, 1.595769122f)));
  // The bounded argument gives about 1e-39, not 0, which times a large negative x is not 0.
  const V tail = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -12.0f)), phi);
  const V y = hn::Mul(x, tail);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// max(x, 0), NaN stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V relu_f32(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#endif
