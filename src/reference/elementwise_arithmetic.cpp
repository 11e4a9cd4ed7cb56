// FP64 evaluators of the broadcasting arithmetic operators.
// Contract: core/evaluator.h; each function is one row of ops.def.
#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "reference/elementwise.h"

namespace vernier::reference {
namespace {

void require_divisors(const char* op, const EvalCall& call) {
  const EvalTensor& y = call.out[0];
  if (y.is_float() || y.elems() == 0 || std::ranges::count(call.in[1]->i, 0) == 0) return;
  throw Error(ErrorCode::kInput,
              std::string(op) + ": integer division by zero; the second input must not hold 0");
}

// Truncates toward zero; INT64_MIN / −1 wraps.
int64_t integer_div(DType type, int64_t a, int64_t b) {
  if (type == DType::kU64)
    return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == -1 ? wrapping_sub(0, a) : a / b;
}
// Sign of the dividend.
int64_t integer_rem(DType type, int64_t a, int64_t b) {
  if (type == DType::kU64)
    return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  return b == -1 ? 0 : a % b;
}

// Repeated squaring, wrapping.
int64_t integer_pow(int64_t base, uint64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = wrapping_mul(result, base);
    base = wrapping_mul(base, base);
  }
  return result;
}

// Combines all inputs pairwise, left to right: out = (in0 ∘ in1) ∘ in2 …, before the point "out".
// Intermediate results are inner results.
template <class F, class G>
void accumulate(const EvalCall& call, const F& f, const G& g) {
  EvalTensor& y = call.out[0];
  const EvalTensor& first = *call.in[0];
  for_each_pair(first, first, y.shape, [&](size_t at, size_t i, size_t) {
    if (y.is_float())
      y.f[at] = first.f[i];
    else
      y.i[at] = first.i[i];
  });
  for (size_t n = 1; n < call.in.size(); ++n) {
    const EvalTensor& x = *call.in[n];
    if (y.is_float()) {
      combine_floats(y, x, y, f);
      round_inner_parts(call, y.f);
      continue;
    }
    for_each_pair(x, x, y.shape, [&](size_t at, size_t i, size_t) {
      y.i[at] = wrap_integer(y.dtype, g(y.i[at], x.i[i]));
    });
  }
}

void round_output(const EvalCall& call) { round_out_each(call, 0); }

}  // namespace

void eval_add(const EvalCall& call) {
  combine(
      call, [](double a, double b) { return a + b; }, wrapping_add);
}
void eval_sub(const EvalCall& call) {
  combine(
      call, [](double a, double b) { return a - b; }, wrapping_sub);
}
void eval_mul(const EvalCall& call) {
  combine(
      call, [](double a, double b) { return a * b; }, wrapping_mul);
}
void eval_div(const EvalCall& call) {
  const DType type = call.out[0].dtype;
  require_divisors("Div", call);
  combine(
      call, [](double a, double b) { return a / b; },
      [=](int64_t a, int64_t b) { return integer_div(type, a, b); });
}

// The result has the type of the base. int ^ int is exact (modulo 2^bits) for exponents >= 0;
// negative exponents and float exponents of an integer base go through double and truncate.
void eval_pow(const EvalCall& call) {
  const EvalTensor &a = *call.in[0], &b = *call.in[1];
  EvalTensor& y = call.out[0];
  const auto exponent = [&](size_t j) {
    return b.is_float() ? b.f[j] : integer_to_double(b.dtype, b.i[j]);
  };
  for_each_pair(a, b, y.shape, [&](size_t at, size_t i, size_t j) {
    if (y.is_float()) {
      y.f[at] = call.rounding(0, std::pow(a.f[i], exponent(j)));
    } else if (!b.is_float() && !integer_less(b.dtype, b.i[j], 0)) {
      y.i[at] = wrap_integer(y.dtype, integer_pow(a.i[i], static_cast<uint64_t>(b.i[j])));
    } else {
      const double power = std::pow(integer_to_double(a.dtype, a.i[i]), exponent(j));
      y.i[at] = double_to_integer(y.dtype, power);
    }
  });
}

// fmod: sign of the dividend (C); otherwise sign of the divisor (Python).
void eval_mod(const EvalCall& call) {
  const bool truncated = decode<ModAttrs>(call.attrs).fmod;
  require_divisors("Mod", call);
  const DType type = call.out[0].dtype;
  combine(
      call,
      [=](double a, double b) {
        const double r = std::fmod(a, b);
        return !truncated && r != 0 && (r < 0) != (b < 0) ? r + b : r;
      },
      [=](int64_t a, int64_t b) {
        const int64_t r = integer_rem(type, a, b);
        const bool shift = !truncated && type != DType::kU64 && r != 0 && (r < 0) != (b < 0);
        return shift ? r + b : r;
      });
}

// NaN in either operand gives NaN.
void eval_min(const EvalCall& call) {
  const DType type = call.out[0].dtype;
  accumulate(
      call, [](double a, double b) { return a < b || std::isnan(a) ? a : b; },
      [=](int64_t a, int64_t b) { return integer_less(type, b, a) ? b : a; });
  round_output(call);
}
void eval_max(const EvalCall& call) {
  const DType type = call.out[0].dtype;
  accumulate(
      call, [](double a, double b) { return a > b || std::isnan(a) ? a : b; },
      [=](int64_t a, int64_t b) { return integer_less(type, a, b) ? b : a; });
  round_output(call);
}
void eval_sum(const EvalCall& call) {
  accumulate(
      call, [](double a, double b) { return a + b; }, wrapping_add);
  round_output(call);
}
void eval_mean(const EvalCall& call) {
  require_float("Mean", *call.in[0]);
  accumulate(
      call, [](double a, double b) { return a + b; }, wrapping_add);
  const auto count = static_cast<double>(call.in.size());
  for (double& v : call.out[0].f) v /= count;
  round_output(call);
}
void eval_prelu(const EvalCall& call) {
  combine(
      call, [](double x, double slope) { return x < 0 ? slope * x : x; },
      [](int64_t x, int64_t slope) { return x < 0 ? wrapping_mul(slope, x) : x; });
}

}  // namespace vernier::reference
