// Shared loops of the elementwise FP64 evaluators: one input, and two or three with broadcasting.
// Contract: core/evaluator.h. Every result passes through rounding point 0 where the operator has
// one.
#pragma once
#include <algorithm>
#include <array>
#include <string>

#include "core/broadcast.h"
#include "core/evaluator.h"
#include "core/threads.h"
#include "reference/parts.h"
#include "reference/round_each.h"

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
/// v as a Cast or QuantizeLinear to float type `type` takes it, not rounded to it: in the floats of
/// 8 bits within its range if it `saturates`, in f4e2m1 always, where NaN is 0. To f8e8m0 it is
/// rounded up to a power of two; beyond the type it is the nearest one if it `saturates`, else NaN,
/// and NaN of a negative number.
double double_to_float(DType type, double v, bool saturates);

/// Throws Error(kInput) naming the operator, its input and the type it got.
[[noreturn]] void unsupported_type(const char* op, DType got);
inline void require_float(const char* op, const EvalTensor& x) {
  if (!x.is_float()) unsupported_type(op, x.dtype);
}

/// y = f(x) for a float tensor; f takes arrays (x, y, count).
template <class F>
void map_arrays(const char* op, const EvalCall& call, const F& f) {
  const EvalTensor& x = *call.in[0];
  require_float(op, x);
  std::vector<double>& y = call.out[0].f;
  const double* from = x.f.data();
  in_rounded_parts(call, std::ssize(y), kFunctionGrain,
                   [&](const EvalCall& part, int64_t begin, int64_t end) {
                     double* to = y.data() + begin;
                     f(from + begin, to, end - begin);
                     round_each(part.rounding, 0, {to, static_cast<size_t>(end - begin)});
                   });
}

/// y = f(x) for a float tensor, element by element.
template <class F>
void map_float(const char* op, const EvalCall& call, const F& f) {
  map_arrays(op, call, [&](const double* x, double* y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
  });
}

/// y = f(x) for floats, wrap(g(x)) for integers and bool.
template <class F, class G>
void map_number(const EvalCall& call, const F& f, const G& g) {
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  if (y.is_float()) return map_float("", call, f);
  for (size_t i = 0; i < y.i.size(); ++i) y.i[i] = wrap_integer(y.dtype, g(x.i[i]));
}

/// Two arrays broadcast to one shape, as rows: of each array a row has a start and one step.
struct PairRows {
  int64_t count = 1, cols = 1;     ///< rows, and elements of each
  std::array<int64_t, 2> steps{};  ///< within a row
  Shape outer;                     ///< of the rows
  std::array<Shape, 2> strides;    ///< over `outer`
  std::array<int64_t, 2> starts(int64_t row) const;
};
/// With axes merged where both arrays allow it: rows are as long as they can be.
PairRows pair_rows(const Shape& a, const Shape& b, const Shape& out);

/// body(out_index, index_of_a, index_of_b) over the broadcast of a and b to `out`.
template <class Body>
void for_each_pair(const EvalTensor& a, const EvalTensor& b, const Shape& out, const Body& body) {
  const std::array strides{broadcast_strides(a.shape, out), broadcast_strides(b.shape, out)};
  for_each_broadcast(out, strides, [&](int64_t at, const std::array<int64_t, 2>& offsets) {
    body(static_cast<size_t>(at), static_cast<size_t>(offsets[0]), static_cast<size_t>(offsets[1]));
  });
}

/// The same on all threads. The body writes elements of its own and throws nothing.
template <class Body>
void for_each_pair_in_parts(const EvalTensor& a, const EvalTensor& b, const Shape& out,
                            const Body& body) {
  const PairRows rows = pair_rows(a.shape, b.shape, out);
  if (rows.cols == 0) return;
  const auto row = [&](const std::array<int64_t, 2>& starts, int64_t at, int64_t begin,
                       int64_t end) {
    for (int64_t j = begin; j < end; ++j)
      body(static_cast<size_t>(at + j), static_cast<size_t>(starts[0] + j * rows.steps[0]),
           static_cast<size_t>(starts[1] + j * rows.steps[1]));
  };
  if (rows.count == 1) {
    in_parallel(rows.cols, kCopyGrain,
                [&](int64_t begin, int64_t end) { row(rows.starts(0), 0, begin, end); });
    return;
  }
  in_parallel(rows.count, std::max<int64_t>(1, kCopyGrain / rows.cols),
              [&](int64_t begin, int64_t end) {
                for (int64_t r = begin; r < end; ++r)
                  row(rows.starts(r), r * rows.cols, 0, rows.cols);
              });
}

/// y[i] = f(a[…], b[…]) over the broadcast of a and b to the shape of y, for floats, on all
/// threads. y may be the memory of an operand that is not repeated.
template <class F>
void combine_floats(const EvalTensor& a, const EvalTensor& b, EvalTensor& y, const F& f) {
  const PairRows rows = pair_rows(a.shape, b.shape, y.shape);
  const double *from_a = a.f.data(), *from_b = b.f.data();
  double* to = y.f.data();
  const int64_t cols = rows.cols, step_a = rows.steps[0], step_b = rows.steps[1];
  const auto row = [&](const std::array<int64_t, 2>& starts, int64_t at, int64_t count) {
    const double *x = from_a + starts[0], *z = from_b + starts[1];
    double* out = to + at;
    // Loops that a compiler turns into vectors.
    if (step_a == 1 && step_b == 1) {
      for (int64_t j = 0; j < count; ++j) out[j] = f(x[j], z[j]);
    } else if (step_a == 1 && step_b == 0) {
      const double second = *z;
      for (int64_t j = 0; j < count; ++j) out[j] = f(x[j], second);
    } else if (step_a == 0 && step_b == 1) {
      const double first = *x;
      for (int64_t j = 0; j < count; ++j) out[j] = f(first, z[j]);
    } else {
      for (int64_t j = 0; j < count; ++j) out[j] = f(x[j * step_a], z[j * step_b]);
    }
  };
  if (rows.count == 1) {
    in_parallel(cols, kCopyGrain, [&](int64_t begin, int64_t end) {
      row({begin * step_a, begin * step_b}, begin, end - begin);
    });
    return;
  }
  const int64_t least = std::max<int64_t>(1, kCopyGrain / std::max<int64_t>(1, cols));
  in_parallel(rows.count, least, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) row(rows.starts(r), r * cols, cols);
  });
}

/// out = f(a, b) for floats, wrap(g(a, b)) for integers and bool, with broadcasting. They throw
/// nothing.
template <class F, class G>
void combine(const EvalCall& call, const F& f, const G& g) {
  const EvalTensor &a = *call.in[0], &b = *call.in[1];
  EvalTensor& y = call.out[0];
  if (y.is_float()) {
    combine_floats(a, b, y, f);
    return round_out_each(call, 0);
  }
  for_each_pair_in_parts(a, b, y.shape, [&](size_t at, size_t i, size_t j) {
    y.i[at] = wrap_integer(y.dtype, g(a.i[i], b.i[j]));
  });
}

}  // namespace vernier::reference
