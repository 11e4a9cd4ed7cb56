// FP64 evaluators of Reduce*. Each is a function of the list of reduced elements; floats in double
// (sums with the accumulator), integers in int64 (wrapped at the end). Contract: core/evaluator.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/attrs.h"
#include "reference/elementwise.h"
#include "reference/layout.h"

namespace vernier::reference {
namespace {

using Floats = std::span<const double>;
using Integers = std::span<const int64_t>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<bool> reduced_axes(const EvalCall& call) {
  const auto attrs = decode<ReduceAttrs>(call.attrs);
  const bool has_input = call.in.size() > 1 && call.in[1] != nullptr;
  const std::vector<int64_t>& axes = has_input ? call.in[1]->i : attrs.axes;
  const size_t rank = call.in[0]->rank();
  if (axes.empty()) return std::vector<bool>(rank, !attrs.noop_with_empty_axes);
  std::vector<bool> reduced(rank, false);
  for (int64_t axis : axes) reduced[normalize_axis(axis, rank)] = true;
  return reduced;
}

// Calls write(output index, list of reduced elements of `from`) for every output element.
template <class T, class Write>
void for_each_group(const EvalCall& call, const std::vector<T>& from, const Write& write) {
  const std::vector<bool> reduced = reduced_axes(call);
  const Shape& shape = call.in[0]->shape;
  const Shape strides = row_major_strides(shape);
  Shape kept_sizes, kept_strides, group_sizes, group_strides;
  for (size_t i = 0; i < shape.size(); ++i) {
    (reduced[i] ? group_sizes : kept_sizes).push_back(shape[i]);
    (reduced[i] ? group_strides : kept_strides).push_back(strides[i]);
  }
  if (num_elems(kept_sizes) != call.out[0].elems()) {
    throw Error(ErrorCode::kInput, "these axes leave shape " + str(kept_sizes) +
                                       ", which is not the output's " + str(call.out[0].shape));
  }
  std::vector<T> group(static_cast<size_t>(num_elems(group_sizes)));
  walk(kept_sizes, kept_strides, [&](int64_t out, int64_t base) {
    walk(group_sizes, group_strides,
         [&](int64_t k, int64_t offset) { group[k] = from[base + offset]; });
    write(static_cast<size_t>(out), std::span<const T>(group));
  });
}

template <class F, class G>
void reduce(const EvalCall& call, const F& of_floats, const G& of_integers) {
  EvalTensor& y = call.out[0];
  if (y.is_float()) {
    for_each_group(call, call.in[0]->f,
                   [&](size_t at, Floats group) { y.f[at] = call.rounding(0, of_floats(group)); });
    return;
  }
  for_each_group(call, call.in[0]->i, [&](size_t at, Integers group) {
    y.i[at] = wrap_integer(y.dtype, of_integers(group));
  });
}

// Reductions whose integer form is the double form rounded toward zero.
template <class F>
void reduce_as_double(const EvalCall& call, const F& f) {
  reduce(call, f, [&](Integers group) {
    const std::vector<double> values(group.begin(), group.end());
    return double_to_integer(DType::kI64, f(values));
  });
}

enum class ReduceEnd : uint8_t { kMin, kMax };

// Σ term(v) of a group with the call's accumulator; terms are inner results.
template <class Term>
double sum(const EvalCall& call, Floats group, const Term& term) {
  return carried_sum(call.rounding.accumulator(), group,
                     [&](double v) { return call.rounding.inner(term(v)); });
}
double itself(double v) { return v; }
double square(double v) { return v * v; }
int64_t sum(Integers group) {
  uint64_t total = 0;  // wraps without undefined behavior
  for (int64_t v : group) total += static_cast<uint64_t>(v);
  return static_cast<int64_t>(total);
}

// NaN wins over every number.
template <class Better>
double extreme(Floats group, double start, const Better& better) {
  double best = start;
  for (double v : group) {
    if (std::isnan(v)) return v;
    if (better(v, best)) best = v;
  }
  return best;
}
// The largest or smallest integer in the order of `type`; for an empty group the identity.
int64_t integer_extreme(DType type, Integers group, ReduceEnd end) {
  const int bits = type == DType::kBool ? 1 : static_cast<int>(8 * size_bytes(type));
  const bool is_signed = is_signed_integer(type);
  const auto all_ones = static_cast<int64_t>(~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0)));
  const int64_t lowest = is_signed ? -all_ones - 1 : 0;
  const bool largest = end == ReduceEnd::kMax;
  const auto less = [&](int64_t a, int64_t b) {
    return type == DType::kU64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
  };
  int64_t best = largest ? lowest : all_ones;
  for (int64_t v : group) {
    if (largest ? less(best, v) : less(v, best)) best = v;
  }
  return best;
}

}  // namespace

void eval_reduce_sum(const EvalCall& call) {
  reduce(
      call, [&](Floats g) { return sum(call, g, itself); }, [](Integers g) { return sum(g); });
}

void eval_reduce_mean(const EvalCall& call) {
  reduce(
      call, [&](Floats g) { return sum(call, g, itself) / static_cast<double>(g.size()); },
      [](Integers g) {
        if (g.empty()) throw Error(ErrorCode::kInput, "ReduceMean of no integers has no value");
        return sum(g) / static_cast<int64_t>(g.size());
      });
}

void eval_reduce_max(const EvalCall& call) {
  reduce(
      call, [](Floats g) { return extreme(g, -kInfinity, std::greater<double>()); },
      [&](Integers g) { return integer_extreme(call.out[0].dtype, g, ReduceEnd::kMax); });
}

void eval_reduce_min(const EvalCall& call) {
  reduce(
      call, [](Floats g) { return extreme(g, kInfinity, std::less<double>()); },
      [&](Integers g) { return integer_extreme(call.out[0].dtype, g, ReduceEnd::kMin); });
}

void eval_reduce_prod(const EvalCall& call) {
  reduce(
      call,
      [&](Floats g) {
        double product = 1;
        for (double v : g) product = rounded(call.rounding.accumulator(), product * v);
        return product;
      },
      [](Integers g) {
        uint64_t product = 1;
        for (int64_t v : g) product *= static_cast<uint64_t>(v);
        return static_cast<int64_t>(product);
      });
}

void eval_reduce_l1(const EvalCall& call) {
  reduce(
      call, [&](Floats g) { return sum(call, g, [](double v) { return std::abs(v); }); },
      [](Integers g) {
        uint64_t total = 0;
        for (int64_t v : g)
          total += v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
        return static_cast<int64_t>(total);
      });
}

void eval_reduce_sum_square(const EvalCall& call) {
  reduce(
      call, [&](Floats g) { return sum(call, g, square); },
      [](Integers g) {
        uint64_t total = 0;
        for (int64_t v : g) total += static_cast<uint64_t>(v) * static_cast<uint64_t>(v);
        return static_cast<int64_t>(total);
      });
}

void eval_reduce_l2(const EvalCall& call) {
  reduce_as_double(call, [&](Floats g) { return std::sqrt(sum(call, g, square)); });
}

void eval_reduce_log_sum(const EvalCall& call) {
  reduce_as_double(call, [&](Floats g) { return std::log(sum(call, g, itself)); });
}

void eval_reduce_log_sum_exp(const EvalCall& call) {
  reduce_as_double(call, [&](Floats g) {
    const double top = extreme(g, -kInfinity, std::greater<double>());
    if (!std::isfinite(top)) return top;  // NaN, +inf, all −inf, or nothing
    const double total = sum(call, g, [&](double v) { return std::exp(v - top); });
    return top + call.rounding.inner(std::log(total));
  });
}

}  // namespace vernier::reference
