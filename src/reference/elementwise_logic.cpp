// FP64 evaluators of comparisons, boolean and bitwise operators, tests, Where.
// Contract: core/evaluator.h; each function is one row of ops.def.
#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "reference/elementwise.h"

namespace vernier::reference {
namespace {

// out (bool) = f(a, b) on doubles, or g(a, b) on integers and bools.
template <class F, class G>
void compare(const EvalCall& call, const F& f, const G& g) {
  const EvalTensor &a = *call.in[0], &b = *call.in[1];
  std::vector<int64_t>& y = call.out[0].i;
  if (a.is_float()) {
    for_each_pair_in_parts(a, b, call.out[0].shape, [&](size_t at, size_t i, size_t j) {
      y[at] = f(a.f[i], b.f[j]) ? 1 : 0;
    });
    return;
  }
  for_each_pair_in_parts(a, b, call.out[0].shape,
                         [&](size_t at, size_t i, size_t j) { y[at] = g(a.i[i], b.i[j]) ? 1 : 0; });
}

// out = g(a, b) on integers and bools.
template <class G>
void combine_integers(const char* op, const EvalCall& call, const G& g) {
  if (call.in[0]->is_float()) {
    throw Error(ErrorCode::kInput, std::string(op) + " needs integer or bool inputs, got " +
                                       std::string(name(call.in[0]->dtype)));
  }
  combine(
      call, [](double a, double) { return a; }, g);
}

}  // namespace

void eval_not(const EvalCall& call) {
  map_number(
      call, [](double x) { return x; }, [](int64_t x) { return x == 0 ? 1 : 0; });
}
void eval_bitwise_not(const EvalCall& call) {
  map_number(
      call, [](double x) { return x; }, [](int64_t x) { return ~x; });
}
void eval_is_nan(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  require_float("IsNaN", x);
  for (size_t i = 0; i < x.f.size(); ++i) call.out[0].i[i] = std::isnan(x.f[i]) ? 1 : 0;
}
void eval_is_inf(const EvalCall& call) {
  const EvalTensor& x = *call.in[0];
  require_float("IsInf", x);
  const auto attrs = decode<IsInfAttrs>(call.attrs);
  for (size_t i = 0; i < x.f.size(); ++i) {
    const bool wanted = x.f[i] > 0 ? attrs.detect_positive : attrs.detect_negative;
    call.out[0].i[i] = std::isinf(x.f[i]) && wanted ? 1 : 0;
  }
}

void eval_and(const EvalCall& call) {
  combine_integers("And", call, [](int64_t a, int64_t b) { return a & b; });
}
void eval_or(const EvalCall& call) {
  combine_integers("Or", call, [](int64_t a, int64_t b) { return a | b; });
}
void eval_xor(const EvalCall& call) {
  combine_integers("Xor", call, [](int64_t a, int64_t b) { return a ^ b; });
}
void eval_bitwise_and(const EvalCall& call) {
  combine_integers("BitwiseAnd", call, [](int64_t a, int64_t b) { return a & b; });
}
void eval_bitwise_or(const EvalCall& call) {
  combine_integers("BitwiseOr", call, [](int64_t a, int64_t b) { return a | b; });
}
void eval_bitwise_xor(const EvalCall& call) {
  combine_integers("BitwiseXor", call, [](int64_t a, int64_t b) { return a ^ b; });
}
// Right shifts of signed types fill with the sign bit. A shift by the width or more, or by a
// negative number, gives only fill bits.
void eval_bit_shift(const EvalCall& call) {
  const bool left = decode<BitShiftAttrs>(call.attrs).left;
  const uint64_t width = element_bits(call.in[0]->dtype);
  const bool arithmetic = !left && is_signed_integer(call.in[0]->dtype);
  combine_integers("BitShift", call, [=](int64_t a, int64_t b) -> int64_t {
    const auto bits = static_cast<uint64_t>(a), shift = static_cast<uint64_t>(b);
    if (shift >= width) return arithmetic && a < 0 ? -1 : 0;
    if (arithmetic) return a >> shift;
    return static_cast<int64_t>(left ? bits << shift : bits >> shift);
  });
}

// A comparison with NaN is false.
void eval_equal(const EvalCall& call) {
  compare(
      call, [](double a, double b) { return a == b; }, [](int64_t a, int64_t b) { return a == b; });
}
void eval_less(const EvalCall& call) {
  const DType type = call.in[0]->dtype;
  compare(
      call, [](double a, double b) { return a < b; },
      [=](int64_t a, int64_t b) { return integer_less(type, a, b); });
}
void eval_less_or_equal(const EvalCall& call) {
  const DType type = call.in[0]->dtype;
  compare(
      call, [](double a, double b) { return a <= b; },
      [=](int64_t a, int64_t b) { return !integer_less(type, b, a); });
}
void eval_greater(const EvalCall& call) {
  const DType type = call.in[0]->dtype;
  compare(
      call, [](double a, double b) { return a > b; },
      [=](int64_t a, int64_t b) { return integer_less(type, b, a); });
}
void eval_greater_or_equal(const EvalCall& call) {
  const DType type = call.in[0]->dtype;
  compare(
      call, [](double a, double b) { return a >= b; },
      [=](int64_t a, int64_t b) { return !integer_less(type, a, b); });
}

void eval_where(const EvalCall& call) {
  const EvalTensor &condition = *call.in[0], &x = *call.in[1], &y = *call.in[2];
  EvalTensor& out = call.out[0];
  if (out.elems() == 0) return;
  const std::array strides{broadcast_strides(condition.shape, out.shape),
                           broadcast_strides(x.shape, out.shape),
                           broadcast_strides(y.shape, out.shape)};
  const size_t outer = std::max<size_t>(out.rank(), 1) - 1;
  const int64_t cols = out.rank() == 0 ? 1 : out.shape.back();
  const auto choose = [&](const auto& from_x, const auto& from_y, auto& to) {
    in_parallel(out.elems() / cols, std::max<int64_t>(1, kCopyGrain / cols),
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    std::array<int64_t, 3> at{}, step{};
                    int64_t place = row;
                    for (size_t axis = outer; axis-- > 0; place /= out.shape[axis]) {
                      for (size_t n = 0; n < 3; ++n)
                        at[n] += place % out.shape[axis] * strides[n][axis];
                    }
                    for (size_t n = 0; n < 3 && out.rank() > 0; ++n) step[n] = strides[n].back();
                    for (int64_t j = 0; j < cols; ++j) {
                      const bool first = condition.i[at[0] + j * step[0]] != 0;
                      to[row * cols + j] =
                          first ? from_x[at[1] + j * step[1]] : from_y[at[2] + j * step[2]];
                    }
                  }
                });
  };
  if (out.is_float())
    choose(x.f, y.f, out.f);
  else
    choose(x.i, y.i, out.i);
}

}  // namespace vernier::reference
