// FP64 evaluators of Gather*, Scatter* and OneHot. Contract: core/evaluator.h.
#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "core/threads.h"
#include "reference/layout.h"
#include "reference/parts.h"

namespace vernier::reference {
namespace {

bool is_nan(double v) { return std::isnan(v); }
template <class T>
bool is_nan(T) {
  return false;  // an integer
}

template <class T>
T combine(ScatterReduction reduction, T old, T update) {
  switch (reduction) {
    case ScatterReduction::kNone:
      return update;
    case ScatterReduction::kAdd:
      return old + update;
    case ScatterReduction::kMul:
      return old * update;
    case ScatterReduction::kMin:
      return update < old || is_nan(update) ? update : old;
    case ScatterReduction::kMax:
      return update > old || is_nan(update) ? update : old;
  }
  return update;
}

void scatter(const EvalCall& call, ScatterReduction reduction, int64_t from, int64_t to) {
  const EvalTensor& updates = *call.in[2];
  EvalTensor& y = call.out[0];
  const auto source = static_cast<size_t>(from), target = static_cast<size_t>(to);
  if (y.is_float()) {
    y.f[target] = call.rounding(0, combine(reduction, y.f[target], updates.f[source]));
  } else {
    // Sums and products wrap: computed as unsigned, which is defined behavior.
    const int64_t old = y.i[target], update = updates.i[source];
    const bool arithmetic =
        reduction == ScatterReduction::kAdd || reduction == ScatterReduction::kMul;
    const int64_t result = arithmetic
                               ? static_cast<int64_t>(combine(reduction, static_cast<uint64_t>(old),
                                                              static_cast<uint64_t>(update)))
                               : combine(reduction, old, update);
    y.i[target] = wrap_integer(y.dtype, result);
  }
}

void copy_data(const EvalCall& call) {
  call.out[0].f = call.in[0]->f;
  call.out[0].i = call.in[0]->i;
  for (double& v : call.out[0].f) v = call.rounding(0, v);
}

// The element offset that the index tuple of `depth` numbers at `tuple` selects in shape[first..].
struct TupleIndex {
  const EvalTensor& indices;
  const Shape& shape;
  const Shape& strides;
  size_t first;
  int64_t depth;
  int64_t offset(int64_t tuple) const {
    int64_t sum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t position = tuple * depth + k;
      const size_t axis = first + static_cast<size_t>(k);
      sum += strides[axis] * wrap_index(indices.i[position], shape[axis], position);
    }
    return sum;
  }
};

}  // namespace

void eval_gather(const EvalCall& call) {
  const EvalTensor &data = *call.in[0], &indices = *call.in[1];
  const AxisView view =
      view_axis(data.shape, normalize_axis(decode<AxisAttrs>(call.attrs).axis, data.rank()));
  const int64_t count = indices.elems(), inner = view.inner;
  std::vector<int64_t> rows(static_cast<size_t>(count));
  const auto wrap = [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) rows[k] = wrap_index(indices.i[k], view.size, k);
  };
  const auto [least, most] = std::ranges::minmax_element(indices.i);
  if (count > 0 && *least >= -view.size && *most < view.size)
    in_parallel(count, kCopyGrain, wrap);
  else
    wrap(0, count);  // throws
  if (inner == 0 || count == 0) return;
  const auto copy_rows = [&](const auto& from, auto& to) {
    in_parallel(view.outer * count, std::max<int64_t>(1, kCopyGrain / inner),
                [&](int64_t begin, int64_t end) {
                  for (int64_t at = begin; at < end; ++at)
                    std::copy_n(from.data() + view.at(at / count, rows[at % count], 0), inner,
                                to.data() + at * inner);
                });
  };
  EvalTensor& y = call.out[0];
  if (y.is_float())
    copy_rows(data.f, y.f);
  else
    copy_rows(data.i, y.i);
}

void eval_gather_elements(const EvalCall& call) {
  const EvalTensor &data = *call.in[0], &indices = *call.in[1];
  const size_t axis = normalize_axis(decode<AxisAttrs>(call.attrs).axis, data.rank());
  Shape strides = row_major_strides(data.shape);
  const int64_t along = strides[axis];
  strides[axis] = 0;
  walk(indices.shape, strides, [&](int64_t flat, int64_t offset) {
    const int64_t row = wrap_index(indices.i[flat], data.shape[axis], flat);
    copy_element(data, offset + row * along, call.out[0], flat);
  });
}

void eval_gather_nd(const EvalCall& call) {
  const EvalTensor &data = *call.in[0], &indices = *call.in[1];
  const auto batch = static_cast<size_t>(decode<GatherNDAttrs>(call.attrs).batch_dims);
  const int64_t depth = indices.shape.back();
  const Shape strides = row_major_strides(data.shape);
  const TupleIndex tuples{indices, data.shape, strides, batch, depth};
  int64_t batches = 1, slice = 1;
  for (size_t i = 0; i < batch; ++i) batches *= data.shape[i];
  for (size_t i = batch + static_cast<size_t>(depth); i < data.rank(); ++i) slice *= data.shape[i];
  int64_t count = 1;
  for (size_t i = 0; i + 1 < indices.rank(); ++i) count *= indices.shape[i];
  const int64_t per_batch = std::max<int64_t>(1, count / std::max<int64_t>(1, batches));
  const int64_t batch_elems = batches == 0 ? 0 : data.elems() / batches;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t base = t / per_batch * batch_elems + tuples.offset(t);
    for (int64_t k = 0; k < slice; ++k) copy_element(data, base + k, call.out[0], t * slice + k);
  }
}

void eval_scatter_elements(const EvalCall& call) {
  const auto attrs = decode<ScatterAttrs>(call.attrs);
  const EvalTensor &data = *call.in[0], &indices = *call.in[1];
  copy_data(call);
  const size_t axis = normalize_axis(attrs.axis, data.rank());
  Shape strides = row_major_strides(data.shape);
  const int64_t along = strides[axis];
  strides[axis] = 0;
  walk(indices.shape, strides, [&](int64_t flat, int64_t offset) {
    const int64_t row = wrap_index(indices.i[flat], data.shape[axis], flat);
    scatter(call, attrs.reduction, flat, offset + row * along);
  });
}

void eval_scatter_nd(const EvalCall& call) {
  const auto attrs = decode<ScatterAttrs>(call.attrs);
  const EvalTensor &data = *call.in[0], &indices = *call.in[1];
  copy_data(call);
  const int64_t depth = indices.shape.back();
  const Shape strides = row_major_strides(data.shape);
  const TupleIndex tuples{indices, data.shape, strides, 0, depth};
  int64_t slice = 1, count = 1;
  for (size_t i = static_cast<size_t>(depth); i < data.rank(); ++i) slice *= data.shape[i];
  for (size_t i = 0; i + 1 < indices.rank(); ++i) count *= indices.shape[i];
  for (int64_t t = 0; t < count; ++t) {
    const int64_t base = tuples.offset(t);
    for (int64_t k = 0; k < slice; ++k) scatter(call, attrs.reduction, t * slice + k, base + k);
  }
}

// An index outside [-depth, depth) gives a line of off values.
void eval_one_hot(const EvalCall& call) {
  const EvalTensor &indices = *call.in[0], &values = *call.in[2];
  EvalTensor& y = call.out[0];
  if (values.elems() != 2)
    throw Error(ErrorCode::kInput,
                "OneHot values must be [off, on], got shape " + str(values.shape));
  const AxisView view =
      view_axis(y.shape, normalize_axis(decode<OneHotAttrs>(call.attrs).axis, y.rank()));
  for (int64_t k = 0; k < y.elems(); ++k) copy_element(values, 0, y, k);
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      const double index = indices.value(o * view.inner + i);
      const double row = index < 0 ? index + static_cast<double>(view.size) : index;
      if (row >= 0 && row < static_cast<double>(view.size))
        copy_element(values, 1, y, view.at(o, static_cast<int64_t>(row), i));
    }
  }
}

}  // namespace vernier::reference
