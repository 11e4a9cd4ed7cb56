// FP64 evaluators of Identity, Cast, BitCast and Clip. Contract: core/evaluator.h.
// Cast: float to float keeps the double (rounding point 0 may round it); float to integer truncates
// toward zero and saturates to the target's range, NaN gives 0 (ONNX leaves both undefined), but to
// 4 and 2 bits keeps the lowest bits, as ONNX's own tests do, and 0 of what int64 cannot hold; any
// non-zero, NaN included, is true; integer to integer wraps; floats of 8 and 4 bits: see
// double_to_float.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/attrs.h"
#include "reference/elementwise.h"

namespace vernier::reference {
namespace {

int64_t cast_to_integer(DType type, double v) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!is_small_integer(type)) return double_to_integer(type, v);
  return std::abs(v) < kLimit ? wrap_integer(type, static_cast<int64_t>(v)) : 0;
}

}  // namespace

void eval_identity(const EvalCall& call) {
  call.out[0].f = call.in[0]->f;
  call.out[0].i = call.in[0]->i;
}

void eval_cast(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  const bool saturates = decode<CastAttrs>(call.attrs).saturate;
  for (size_t i = 0; i < y.f.size(); ++i) {
    const double v = x.is_float() ? x.f[i] : integer_to_double(x.dtype, x.i[i]);
    y.f[i] = call.rounding(0, double_to_float(y.dtype, v, saturates));
  }
  for (size_t i = 0; i < y.i.size(); ++i)
    y.i[i] = x.is_float() ? cast_to_integer(y.dtype, x.f[i]) : wrap_integer(y.dtype, x.i[i]);
}

// A float is rounded to `from` first, of which it has the bits. A bool is true if any bit is set.
void eval_bit_cast(const EvalCall& call) {
  const auto [from, to] = decode<BitCastAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  std::array<std::byte, sizeof(double)> bits{};
  for (int64_t i = 0; i < x.elems(); ++i) {
    if (x.is_float())
      store_float(from, x.f[i], bits.data());
    else
      store_integer(from, x.i[i], bits.data());
    if (y.is_float())
      y.f[i] = call.rounding(0, load_float(to, bits.data()));
    else
      y.i[i] = load_integer(to, bits.data());
  }
}

// y = min(max(x, low), high) with each bound optional; NaN passes; where low > high, y is high.
void eval_clip(const EvalCall& call) {
  const auto bound = [&](size_t n) { return call.in.size() > n ? call.in[n] : nullptr; };
  const EvalTensor &x = *call.in[0], *low = bound(1), *high = bound(2);
  for (const EvalTensor* b : {low, high}) {
    if (b && b->elems() != 1) {
      throw Error(ErrorCode::kInput,
                  "Clip: a bound must be one number, got shape " + str(b->shape));
    }
  }
  map_number(
      call,
      [=](double v) {
        if (low && v < low->f[0]) v = low->f[0];
        return high && v > high->f[0] ? high->f[0] : v;
      },
      [=, type = x.dtype](int64_t v) {
        if (low && integer_less(type, v, low->i[0])) v = low->i[0];
        return high && integer_less(type, high->i[0], v) ? high->i[0] : v;
      });
}

}  // namespace vernier::reference
