// FP64 evaluators of the operators along one axis: ArgMax, ArgMin, CumSum, CumProd, TopK,
// Softmax, LogSoftmax, Hardmax, LpNormalization. Contract: core/evaluator.h.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/attrs.h"
#include "reference/layout.h"
#include "reference/parts.h"
#include "reference/round_each.h"
#include "reference/vector_math.h"

namespace vernier::reference {
namespace {

// The order of one line: NaN above every number, integers exactly.
struct LineOrder {
  const EvalTensor& x;
  bool less(int64_t a, int64_t b) const {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    if (!x.is_float()) {
      if (x.dtype == DType::kU64)
        return static_cast<uint64_t>(x.i[i]) < static_cast<uint64_t>(x.i[j]);
      return x.i[i] < x.i[j];
    }
    return x.f[i] < x.f[j] || (std::isnan(x.f[j]) && !std::isnan(x.f[i]));
  }
  bool is_nan(int64_t a) const { return x.is_float() && std::isnan(x.f[a]); }
};

// better(order, candidate, best): the candidate comes before the best so far.
template <class Better>
void arg_reduce(const EvalCall& call, const Better& better) {
  const auto attrs = decode<ArgReduceAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  const AxisView view = view_axis(x.shape, normalize_axis(attrs.axis, x.rank()));
  const LineOrder order{x};
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t best = 0;
      for (int64_t k = 1; k < view.size; ++k) {
        const int64_t candidate = view.at(o, k, i), current = view.at(o, best, i);
        const bool wins = better(order, candidate, current);
        const bool ties = !wins && !better(order, current, candidate);
        if (wins || (ties && attrs.select_last_index)) best = k;
      }
      call.out[0].i[o * view.inner + i] = best;
    }
  }
}

// line(values) for every line of a float tensor along `axis`, on all threads; results round at
// "out". They may be written over x: a line is read before it is written.
template <class Line>
void for_each_line(const EvalCall& call, int64_t axis, const Line& line) {
  const EvalTensor& x = *call.in[0];
  if (!x.is_float()) {
    throw Error(ErrorCode::kInput, "expected a floating type, got " + std::string(name(x.dtype)));
  }
  const size_t rank = std::max<size_t>(x.rank(), 1);
  const AxisView view = x.rank() == 0 ? AxisView{} : view_axis(x.shape, normalize_axis(axis, rank));
  const double* from = x.f.data();
  double* to = call.out[0].f.data();
  const int64_t least = std::max<int64_t>(1, kFunctionGrain / std::max<int64_t>(1, view.size));
  in_rounded_parts(call, view.outer * view.inner, least,
                   [&](const EvalCall& part, int64_t begin, int64_t end) {
                     std::vector<double> values(static_cast<size_t>(view.size));
                     for (int64_t at = begin; at < end; ++at) {
                       const int64_t start = view.at(at / view.inner, 0, at % view.inner);
                       for (int64_t k = 0; k < view.size; ++k)
                         values[k] = from[start + k * view.inner];
                       line(values);
                       round_each(part.rounding, 0, values);
                       for (int64_t k = 0; k < view.size; ++k)
                         to[start + k * view.inner] = values[k];
                     }
                   });
}

// What CumSum and CumProd carry along a line, of floats or of integers.
struct RunningSum {
  explicit RunningSum(const PointRounding& accumulator) : floats(accumulator) {}
  void take(double v) { floats.add(v); }
  void take(int64_t v) { integers += static_cast<uint64_t>(v); }
  double value() const { return floats.value(); }

  Sum floats;
  uint64_t integers = 0;
};
struct RunningProduct {
  explicit RunningProduct(const PointRounding& rounding) : accumulator(rounding) {}
  void take(double v) { floats = rounded(accumulator, floats * v); }
  void take(int64_t v) { integers *= static_cast<uint64_t>(v); }
  double value() const { return floats; }

  PointRounding accumulator;
  double floats = 1;
  uint64_t integers = 1;
};

template <class Running>
void accumulate_lines(const EvalCall& call) {
  const auto attrs = decode<CumSumAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  if (call.in[1]->elems() != 1 || call.in[1]->is_float())
    throw Error(ErrorCode::kInput, "the axis must be one integer");
  const AxisView view = view_axis(x.shape, normalize_axis(call.in[1]->i[0], x.rank()));
  if (x.elems() == 0) return;
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      Running running(call.rounding.accumulator());
      for (int64_t k = 0; k < view.size; ++k) {
        const auto at = static_cast<size_t>(view.at(o, attrs.reverse ? view.size - 1 - k : k, i));
        if (x.is_float()) {
          const double before = running.value();
          running.take(x.f[at]);
          y.f[at] = call.rounding(0, attrs.exclusive ? before : running.value());
        } else {
          const uint64_t before = running.integers;
          running.take(x.i[at]);
          y.i[at] = wrap_integer(y.dtype,
                                 static_cast<int64_t>(attrs.exclusive ? before : running.integers));
        }
      }
    }
  }
}

}  // namespace

void eval_arg_max(const EvalCall& call) {
  arg_reduce(call, [](const LineOrder& order, int64_t a, int64_t b) { return order.less(b, a); });
}
void eval_arg_min(const EvalCall& call) {
  // NaN wins here too, as in every reduction.
  arg_reduce(call, [](const LineOrder& order, int64_t a, int64_t b) {
    if (order.is_nan(a) || order.is_nan(b)) return order.less(b, a);
    return order.less(a, b);
  });
}

void eval_cum_sum(const EvalCall& call) { accumulate_lines<RunningSum>(call); }
void eval_cum_prod(const EvalCall& call) { accumulate_lines<RunningProduct>(call); }

void eval_top_k(const EvalCall& call) {
  const auto attrs = decode<TopKAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  const size_t axis = normalize_axis(attrs.axis, x.rank());
  const AxisView view = view_axis(x.shape, axis);
  const int64_t k = call.in[1]->i.at(0);
  if (k < 0 || k > view.size) {
    throw Error(ErrorCode::kInput,
                "k = " + std::to_string(k) + " is outside [0, " + std::to_string(view.size) + "]");
  }
  for (const EvalTensor& y : call.out) {
    if (y.dtype == DType::kUndefined || y.shape[axis] == k) continue;
    throw Error(ErrorCode::kInput, "k = " + std::to_string(k) + " is not the size " +
                                       std::to_string(y.shape[axis]) + " of the output's axis " +
                                       std::to_string(axis));
  }
  const AxisView out_view{view.outer, k, view.inner};
  const LineOrder order{x};
  std::vector<int64_t> ranked(static_cast<size_t>(view.size));
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      std::iota(ranked.begin(), ranked.end(), 0);
      std::stable_sort(ranked.begin(), ranked.end(), [&](int64_t a, int64_t b) {
        const int64_t at = view.at(o, a, i), bt = view.at(o, b, i);
        return attrs.largest ? order.less(bt, at) : order.less(at, bt);
      });
      for (int64_t n = 0; n < k; ++n) {
        const int64_t to = out_view.at(o, n, i), from = ranked[n];
        if (call.out[0].dtype != DType::kUndefined)
          copy_element(x, view.at(o, from, i), call.out[0], to);
        if (call.out.size() > 1 && call.out[1].dtype != DType::kUndefined) call.out[1].i[to] = from;
      }
    }
  }
}

// y = exp(x − max) / sum exp(x − max). Its compute type is the type of its operands: x is an inner
// value. NaN gives NaN; a line that is all −inf gives NaN.
void eval_softmax(const EvalCall& call) {
  const Rounding& rounding = call.rounding;
  for_each_line(call, decode<AxisAttrs>(call.attrs).axis, [&](std::vector<double>& v) {
    if (v.empty()) return;
    round_inner_each(rounding, v);
    const double top = largest_of(v);
    for (double& e : v) e -= top;
    round_inner_each(rounding, v);
    exp_each(v.data(), v.data(), std::ssize(v));
    round_inner_each(rounding, v);
    const double sum = Sum::is_exact(rounding.accumulator())
                           ? sum_of(v)
                           : carried_sum(rounding.accumulator(), v, [](double e) { return e; });
    divide_each(v, sum);
  });
}

void eval_log_softmax(const EvalCall& call) {
  const Rounding& rounding = call.rounding;
  for_each_line(call, decode<AxisAttrs>(call.attrs).axis, [&](std::vector<double>& v) {
    if (v.empty()) return;
    for (double& e : v) e = rounding.inner(e);
    const double top = *std::max_element(v.begin(), v.end());
    for (double& e : v) e = rounding.inner(e - top);
    const double sum = carried_sum(rounding.accumulator(), v,
                                   [&](double e) { return rounding.inner(std::exp(e)); });
    const double log_sum = rounding.inner(std::log(sum));
    for (double& e : v) e -= log_sum;
  });
}

// 1 at the first largest element, 0 elsewhere; a line with a NaN is NaN throughout.
void eval_hardmax(const EvalCall& call) {
  for_each_line(call, decode<AxisAttrs>(call.attrs).axis, [](std::vector<double>& v) {
    if (v.empty()) return;
    const auto nan = std::find_if(v.begin(), v.end(), [](double e) { return std::isnan(e); });
    const auto best = std::max_element(v.begin(), v.end()) - v.begin();
    const double fill = nan == v.end() ? 0.0 : *nan;
    std::fill(v.begin(), v.end(), fill);
    if (nan == v.end()) v[best] = 1;
  });
}

// y = x / (sum |x|^p)^(1/p); a line of zeros stays zero.
void eval_lp_normalization(const EvalCall& call) {
  const auto attrs = decode<LpNormAttrs>(call.attrs);
  if (attrs.p != 1 && attrs.p != 2)
    throw Error(ErrorCode::kInput, "p = " + std::to_string(attrs.p) + ", expected 1 or 2");
  for_each_line(call, attrs.axis, [&](std::vector<double>& v) {
    const Rounding& rounding = call.rounding;
    const double sum = carried_sum(rounding.accumulator(), v, [&](double e) {
      return rounding.inner(attrs.p == 1 ? std::abs(e) : e * e);
    });
    const double norm = rounding.inner(attrs.p == 1 ? sum : std::sqrt(sum));
    for (double& e : v) e = norm == 0 ? 0 : e / norm;
  });
}

}  // namespace vernier::reference
