// FP64 evaluators of MaxPool, where its maxima lie, AveragePool and the global forms. Contract:
// core/evaluator.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/attrs.h"
#include "reference/elementwise.h"
#include "reference/window.h"

namespace vernier::reference {
namespace {

Window pool_window(const EvalCall& call, const PoolAttrs& attrs) {
  return window_of({attrs.kernel_shape, attrs.strides, attrs.dilations, attrs.pads, attrs.auto_pad},
                   call.in[0]->shape, call.out[0].shape);
}

// out[plane][at] = reduce(input elements of the plane under the window at `at`) for every plane.
// reduce(plane_begin, at, taken): `taken` holds the plane's element indices outside the padding.
template <class Reduce>
void for_each_window(const EvalCall& call, const Window& window, const Reduce& reduce) {
  const int64_t planes = call.in[0]->shape[0] * call.in[0]->shape[1];
  if (planes == 0) return;  // planes may have any size
  const int64_t plane = num_elems(window.in), positions = num_elems(window.out);
  if (positions == 0) return;
  Shape at(window.out.size(), 0);
  int64_t index = 0;
  do {
    std::vector<int64_t> taken;
    Shape tap(window.kernel.size(), 0);
    do {
      const int64_t element = window.input_index(at, tap);
      if (element >= 0) taken.push_back(element);
    } while (next_position(tap, window.kernel));
    for (int64_t p = 0; p < planes; ++p)
      reduce(static_cast<size_t>(p * positions + index), p * plane, at, taken);
    ++index;
  } while (next_position(at, window.out));
}

// The largest of elements [begin + taken]; NaN wins; nothing taken gives the type's lowest value.
double largest(const std::vector<double>& x, int64_t begin, const std::vector<int64_t>& taken) {
  double best = -HUGE_VAL;
  for (int64_t i : taken) {
    const double v = x[begin + i];
    if (v > best || std::isnan(v)) best = v;
    if (std::isnan(best)) break;
  }
  return best;
}

// Element a is a larger maximum than b; the first NaN is the largest.
bool comes_before(const EvalTensor& x, int64_t a, int64_t b) {
  if (!x.is_float()) return integer_less(x.dtype, x.i[b], x.i[a]);
  return x.f[a] > x.f[b] || (std::isnan(x.f[a]) && !std::isnan(x.f[b]));
}

// The place of an element of a plane that is stored with its first axis as the innermost.
int64_t column_major(const Shape& plane, int64_t index) {
  int64_t result = 0, stride = num_elems(plane);
  for (size_t axis = plane.size(); axis-- > 0;) {
    stride /= plane[axis];
    result += index % plane[axis] * stride;
    index /= plane[axis];
  }
  return result;
}

// Taps of the window at `at` that lie inside the input or its declared padding.
int64_t taps_in_padded(const Window& window, const Shape& at) {
  int64_t count = 1;
  for (size_t i = 0; i < at.size(); ++i) {
    int64_t inside = 0;
    for (int64_t tap = 0; tap < window.kernel[i]; ++tap) {
      const int64_t p = at[i] * window.strides[i] + tap * window.dilations[i];
      if (p < window.in[i] + window.pad_begin[i] + window.pad_end[i]) ++inside;
    }
    count *= inside;
  }
  return count;
}

// y[n, c, 1, …] = f(the plane) for every plane.
template <class F>
void reduce_planes(const EvalCall& call, const F& f) {
  const std::vector<double>& x = call.in[0]->f;
  std::vector<double>& y = call.out[0].f;
  const size_t plane = y.empty() ? 0 : x.size() / y.size();
  for (size_t i = 0; i < y.size(); ++i) y[i] = f(std::span(x).subspan(i * plane, plane));
}

}  // namespace

void eval_max_pool(const EvalCall& call) {
  const Window window = pool_window(call, decode<PoolAttrs>(call.attrs));
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  for_each_window(call, window,
                  [&](size_t out, int64_t begin, const Shape&, const std::vector<int64_t>& taken) {
                    if (y.is_float()) {
                      y.f[out] = largest(x.f, begin, taken);
                      return;
                    }
                    int64_t best =
                        x.dtype == DType::kBool ? 0 : double_to_integer(x.dtype, -HUGE_VAL);
                    for (int64_t i : taken) {
                      const int64_t v = x.i[begin + i];
                      if (integer_less(x.dtype, best, v)) best = v;
                    }
                    y.i[out] = best;
                  });
}

void eval_max_pool_indices(const EvalCall& call) {
  const auto attrs = decode<PoolIndicesAttrs>(call.attrs);
  const Window window = pool_window(call, attrs);
  const EvalTensor& x = *call.in[0];
  for_each_window(call, window,
                  [&](size_t out, int64_t begin, const Shape&, const std::vector<int64_t>& taken) {
                    int64_t best = -1;
                    for (int64_t i : taken)
                      if (best < 0 || comes_before(x, begin + i, begin + best)) best = i;
                    if (best >= 0 && attrs.column_major) best = column_major(window.in, best);
                    call.out[0].i[out] = best < 0 ? -1 : begin + best;
                  });
}

// Padding counts as zeros only with count_include_pad; what ceil_mode adds beyond it never counts.
void eval_average_pool(const EvalCall& call) {
  const auto attrs = decode<PoolAttrs>(call.attrs);
  const Window window = pool_window(call, attrs);
  const EvalTensor& x = *call.in[0];
  require_float("AveragePool", x);
  for_each_window(
      call, window,
      [&](size_t out, int64_t begin, const Shape& at, const std::vector<int64_t>& taken) {
        Sum sum(call.rounding.accumulator());
        for (int64_t i : taken) sum.add(x.f[begin + i]);
        const int64_t count = attrs.count_include_pad ? taps_in_padded(window, at)
                                                      : static_cast<int64_t>(taken.size());
        call.out[0].f[out] = call.rounding(0, sum.value() / static_cast<double>(count));
      });
}

void eval_global_average_pool(const EvalCall& call) {
  require_float("GlobalAveragePool", *call.in[0]);
  reduce_planes(call, [&](std::span<const double> plane) {
    const double sum = carried_sum(call.rounding.accumulator(), plane, [](double v) { return v; });
    return call.rounding(0, sum / static_cast<double>(plane.size()));
  });
}

void eval_global_max_pool(const EvalCall& call) {
  require_float("GlobalMaxPool", *call.in[0]);
  reduce_planes(call, [](std::span<const double> plane) {
    double best = -HUGE_VAL;
    for (double v : plane) {
      if (v > best || std::isnan(v)) best = v;
      if (std::isnan(best)) break;
    }
    return best;
  });
}

}  // namespace vernier::reference
