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

/// The same where results are rounded to bf16 behind a sum in f32, in half of the operations; error
/// <= 3 ulp, e^0 is exactly 1. x > 0 gives e^x. Bits depend on the instruction set.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_for_bf16(D d, V x) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // e^x = 2^n · 2^f: n = round(x / ln 2), |f| <= 1/2; of 1 / ln 2 in two parts.
  const V inverse = hn::Set(d, 1.44269502f), round = hn::Set(d, 0x1.8p23f);
  const V n = hn::Sub(hn::MulAdd(x, inverse, round), round);
  const V f = hn::MulAdd(x, hn::Set(d, 1.92596303e-08f), hn::MulSub(x, inverse, n));
  const V p = horner(d, f, 1.0f, 6.931469774e-01f, 2.402224176e-01f, 5.550734003e-02f,
                     9.671534125e-03f, 1.326469983e-03f);
  // NaN is not less than the least number whose exponential is normal.
  const __mmask16 normal = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-87.3365f), _CMP_NLT_UQ);
  return V{_mm512_maskz_scalef_ps(normal, p.raw, n.raw)};
#else
  return exp_normal_f32(d, x);
#endif
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

/// 2·Φ(t) − 1 = erf(t/√2) for t in [h·i, h·(i + 1)), h = 3/16: coefficient k of a cubic in t/h - i
/// - ½ stands at [k][i]. Error times max(t, 1) <= 4e-7; 1 from t = 5.8125 on.
inline constexpr float kGeluTable[4][32] = {
    {7.469215989e-02f, 2.214810848e-01f, 3.607512712e-01f, 4.883362949e-01f, 6.011904478e-01f,
     6.975760460e-01f, 7.770606279e-01f, 8.403499126e-01f, 8.890078664e-01f, 9.251284003e-01f,
     9.510182738e-01f, 9.689359665e-01f, 9.809091687e-01f, 9.886344075e-01f, 9.934471846e-01f,
     9.963421822e-01f, 9.980236292e-01f, 9.989665747e-01f, 9.994771481e-01f, 9.997440577e-01f,
     9.998788238e-01f, 9.999445081e-01f, 9.999754429e-01f, 9.999895096e-01f, 9.999956489e-01f,
     9.999982715e-01f, 9.999993443e-01f, 9.999997616e-01f, 9.999998808e-01f, 9.999999404e-01f,
     1.000000000e+00f, 1.000000000e+00f},
    {1.489472240e-01f, 1.438017935e-01f, 1.340380460e-01f, 1.206212267e-01f, 1.047975793e-01f,
     8.790440857e-02f, 7.118719071e-02f, 5.565765128e-02f, 4.201260954e-02f, 3.061725013e-02f,
     2.154192142e-02f, 1.463303342e-02f, 9.596566670e-03f, 6.076157093e-03f, 3.714271123e-03f,
     2.192046028e-03f, 1.248984714e-03f, 6.870619836e-04f, 3.648933489e-04f, 1.870971610e-04f,
     9.261888044e-05f, 4.426524174e-05f, 2.042476808e-05f, 9.098760529e-06f, 3.913254204e-06f,
     1.624892093e-06f, 6.513906214e-07f, 2.521093165e-07f, 9.420340774e-08f, 3.398399784e-08f,
     1.183620313e-08f, 0.000000000e+00f},
    {-1.306250575e-03f, -3.783553373e-03f, -5.878368393e-03f, -7.407085504e-03f, -8.275772445e-03f,
     -8.486520499e-03f, -8.124664426e-03f, -7.332171779e-03f, -6.275145803e-03f, -5.113467108e-03f,
     -3.978535533e-03f, -2.961609047e-03f, -2.112466842e-03f, -1.445499016e-03f, -9.497521096e-04f,
     -5.996340769e-04f, -3.640030045e-04f, -2.125590254e-04f, -1.194504366e-04f, -6.462182500e-05f,
     -3.366518649e-05f, -1.689282362e-05f, -8.166516636e-06f, -3.804229664e-06f, -1.707903948e-06f,
     -7.390773931e-07f, -3.083201534e-07f, -1.240077836e-07f, -4.809225373e-08f, -1.798539984e-08f,
     -6.486637449e-09f, 0.000000000e+00f},
    {-8.633772377e-04f, -7.745349430e-04f, -6.119161262e-04f, -4.021064087e-04f, -1.772071701e-04f,
     3.193212615e-05f,  2.014285856e-04f,  3.177298931e-04f,  3.781691776e-04f,  3.891030210e-04f,
     3.625761019e-04f,  3.127162636e-04f,  2.526575990e-04f,  1.926422119e-04f,  1.392932318e-04f,
     9.584113286e-05f,  6.290702731e-05f,  3.946276047e-05f,  2.369455251e-05f,  1.363272440e-05f,
     7.523044133e-06f,  3.984852810e-06f,  2.027280289e-06f,  9.911273082e-07f,  4.658604666e-07f,
     2.106016126e-07f,  9.159942493e-08f,  3.834211881e-08f,  1.544981210e-08f,  5.994216679e-09f,
     2.239705088e-09f,  0.000000000e+00f},
};

/// x·(1 + erf(x/√2))/2 = h + |h|·(2·Φ(|x|) − 1) of h = x/2, by a table: a fifth of the time of
/// gelu_erf_f32. Error <= 2.7e-7·max(|x|, 1) absolute, not relative: for results that are stored in
/// fewer bits. -inf gives NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_erf_table_f32(D d, V x) {
  // Added to a number below 2^22, it leaves the nearest integer in the lowest bits.
  const V round = hn::Set(d, 0x1.8p23f);
  const V half = hn::Mul(x, hn::Set(d, 0.5f)), size = hn::Abs(half);
  const V t =
      hn::Min(hn::MulAdd(size, hn::Set(d, 32.0f / 3), hn::Set(d, -0.5f)), hn::Set(d, 31.0f));
  const V rounded = hn::Add(t, round);
  const V f = hn::Sub(t, hn::Sub(rounded, round));
  const auto i = hn::BitCast(hn::Rebind<int32_t, D>(), rounded);
  const auto coefficient = [&](int k) HWY_ATTR {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return V{_mm512_permutex2var_ps(_mm512_loadu_ps(kGeluTable[k]), i.raw,
                                    _mm512_loadu_ps(kGeluTable[k] + 16))};
#else
    return hn::GatherIndex(d, kGeluTable[k], hn::And(i, hn::Set(hn::Rebind<int32_t, D>(), 31)));
#endif
  };
  const V between =
      hn::MulAdd(hn::MulAdd(hn::MulAdd(coefficient(3), f, coefficient(2)), f, coefficient(1)), f,
                 coefficient(0));
  return hn::MulAdd(size, between, half);
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
