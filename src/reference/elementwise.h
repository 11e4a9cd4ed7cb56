// Shared loops of the elementwise FP64 evaluators: one input, and two or three with broadcasting.
// Contract: core/evaluator.h. Every result passes through rounding point 0 where the operator has
// one.
#pragma once
#include <string>

#include "core/broadcast.h"
#include "core/evaluator.h"
#include "reference/parts.h"

namespace vernier::reference {

/// Two's complement arithmetic without undefined behavior; results are wrapped by the caller.
inline int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrapping_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrapping_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
/// a < b in the order of integer type `type` (u64 keeps its bits in int64).
inline bool integer_less(DType type, int64_t a, int64_t b) {
  if (type == DType::kU64) return static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
  return a < b;
}
/// An element of integer type `type` as double.
inline double integer_to_double(DType type, int64_t v) {
  return type == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(v))
                             : static_cast<double>(v);
}
/// v as integer type `type`: truncated toward zero, saturated to the type's range, NaN gives 0.
int64_t double_to_integer(DType type, double v);

/// Throws Error(kInput) naming the operator, its input and the type it got.
[[noreturn]] void unsupported_type(const char* op, DType got);
inline void require_float(const char* op, const EvalTensor& x) {
  if (!x.is_float()) unsupported_type(op, x.dtype);
}

/// y = f(x) for a float tensor.
template <class F>
void map_float(const char* op, const EvalCall& call, const F& f) {
  const EvalTensor& x = *call.in[0];
  require_float(op, x);
  std::vector<double>& y = call.out[0].f;
  for_each_rounded(call, std::ssize(y), kFunctionGrain,
                   [&](const Rounding& rounding, size_t i) { y[i] = rounding(0, f(x.f[i])); });
}

/// y = f(x) for floats, wrap(g(x)) for integers and bool.
template <class F, class G>
void map_number(const EvalCall& call, const F& f, const G& g) {
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  for (size_t i = 0; i < y.f.size(); ++i) y.f[i] = call.rounding(0, f(x.f[i]));
  for (size_t i = 0; i < y.i.size(); ++i) y.i[i] = wrap_integer(y.dtype, g(x.i[i]));
}

/// body(out_index, index_of_a, index_of_b) over the broadcast of a and b to `out`.
template <class Body>
void for_each_pair(const EvalTensor& a, const EvalTensor& b, const Shape& out, const Body& body) {
  const std::array strides{broadcast_strides(a.shape, out), broadcast_strides(b.shape, out)};
  for_each_broadcast(out, strides, [&](int64_t at, const std::array<int64_t, 2>& offsets) {
    body(static_cast<size_t>(at), static_cast<size_t>(offsets[0]), static_cast<size_t>(offsets[1]));
  });
}

/// out = f(a, b) for floats, wrap(g(a, b)) for integers and bool, with broadcasting.
template <class F, class G>
void combine(const EvalCall& call, const F& f, const G& g) {
  const EvalTensor &a = *call.in[0], &b = *call.in[1];
  EvalTensor& y = call.out[0];
  if (y.is_float()) {
    for_each_pair(a, b, y.shape, [&](size_t at, size_t i, size_t j) {
      y.f[at] = call.rounding(0, f(a.f[i], b.f[j]));
    });
    return;
  }
  for_each_pair(a, b, y.shape, [&](size_t at, size_t i, size_t j) {
    y.i[at] = wrap_integer(y.dtype, g(a.i[i], b.i[j]));
  });
}

}  // namespace vernier::reference
