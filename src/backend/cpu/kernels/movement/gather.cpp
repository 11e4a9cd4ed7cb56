// Kernels that read or write elements by index, and that make index patterns: Gather,
// GatherElements, GatherND, ScatterElements, ScatterND (without reduction), OneHot, Range,
// ConstantOfShape, EyeLike, Trilu, CumSum. Contract of each: its attributes in core/attrs.h.
// Negative indices count from the end; indices outside their table are Error(kInput).
#include <algorithm>
#include <cstring>

#include "backend/cpu/index.h"
#include "backend/cpu/kernels/movement/copy.h"
#include "core/error.h"

namespace vernier::backend::cpu {

namespace {

// ---- Gather: rows [outer, size, inner] of data picked by count indices

void launch_gather(const LaunchCall& call) {
  const TensorArg &data = call.in[0], &indices = call.in[1];
  const auto axis = static_cast<int>(positive_axis(decode<AxisAttrs>(call.attrs).axis, data.rank));
  const int64_t size = data.dim(axis), outer = elems_between(data, 0, axis);
  check_indices(indices, size, "Gather");
  const auto row_bytes =
      static_cast<size_t>(elems_between(data, axis + 1, data.rank)) * size_bytes(data.dtype);
  const int64_t count = indices.elems();
  if (row_bytes == 0) return;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>((1 << 14) / row_bytes));
  call.execution.threads->parallel_for(outer * count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t index = positive_axis(read_index(indices, k % count), size);
      std::memcpy(call.out[0].data + static_cast<size_t>(k) * row_bytes,
                  data.data + static_cast<size_t>(k / count * size + index) * row_bytes, row_bytes);
    }
  });
}

// ---- GatherElements, ScatterElements: one index per element

// visit(flat index, offset in a dense array of `shape` with `axis` replaced by the index)
template <class Visit>
void for_each_indexed(const TensorArg& indices, const TensorArg& data, int axis,
                      const Visit& visit) {
  std::array<int64_t, kMaxRank> strides{}, position{};
  int64_t step = 1;
  for (int i = data.rank - 1; i >= 0; --i) {
    strides[i] = step;
    step *= data.dim(i);
  }
  const int64_t along = strides[axis], size = data.dim(axis);
  strides[axis] = 0;
  const int64_t count = indices.elems();
  int64_t at = 0;
  for (int64_t flat = 0; flat < count; ++flat) {
    visit(flat, at + positive_axis(read_index(indices, flat), size) * along);
    for (int i = data.rank - 1; i >= 0; --i) {
      const auto k = static_cast<size_t>(i);
      at += strides[k];
      if (++position[k] < indices.dim(i)) break;
      at -= strides[k] * indices.dim(i);
      position[k] = 0;
    }
  }
}

int axis_of(const LaunchCall& call) {
  return static_cast<int>(positive_axis(decode<AxisAttrs>(call.attrs).axis, call.in[0].rank));
}

void launch_gather_elements(const LaunchCall& call) {
  const int axis = axis_of(call);
  check_indices(call.in[1], call.in[0].dim(axis), "GatherElements");
  const size_t width = size_bytes(call.in[0].dtype);
  for_each_indexed(call.in[1], call.in[0], axis, [&](int64_t flat, int64_t offset) {
    std::memcpy(call.out[0].data + static_cast<size_t>(flat) * width,
                call.in[0].data + static_cast<size_t>(offset) * width, width);
  });
}

void copy_all(const LaunchCall& call) {
  const size_t bytes = static_cast<size_t>(call.in[0].elems()) * size_bytes(call.in[0].dtype);
  if (bytes > 0) std::memcpy(call.out[0].data, call.in[0].data, bytes);
}
Support supports_scatter(const Problem& problem) {
  if (problem.attrs_as<ScatterAttrs>().reduction != ScatterReduction::kNone)
    return no("a reduction is not supported");
  return one_float_type(problem);
}

void launch_scatter_elements(const LaunchCall& call) {
  const auto axis =
      static_cast<int>(positive_axis(decode<ScatterAttrs>(call.attrs).axis, call.in[0].rank));
  check_indices(call.in[1], call.in[0].dim(axis), "ScatterElements");
  copy_all(call);
  const size_t width = size_bytes(call.in[0].dtype);
  for_each_indexed(call.in[1], call.in[0], axis, [&](int64_t flat, int64_t offset) {
    std::memcpy(call.out[0].data + static_cast<size_t>(offset) * width,
                call.in[2].data + static_cast<size_t>(flat) * width, width);
  });
}

// ---- GatherND, ScatterND: tuples of indices

struct Tuples {
  Tuples(const TensorArg& data_arg, const TensorArg& indices_arg, int64_t batch_dims)
      : data(data_arg),
        indices(indices_arg),
        batch(static_cast<int>(batch_dims)),
        depth(static_cast<int>(indices_arg.dim(-1))),
        count(elems_between(indices_arg, 0, indices_arg.rank - 1)),
        batches(elems_between(data_arg, 0, batch)),
        slice(elems_between(data_arg, batch + depth, data_arg.rank)) {}
  const TensorArg &data, &indices;
  int batch, depth;
  int64_t count, batches, slice;

  // Element offset of tuple t, or Error(kInput) naming the operator.
  int64_t offset(int64_t t, const char* what) const {
    int64_t at = batches == 0 ? 0 : t / std::max<int64_t>(1, count / batches);
    for (int k = 0; k < depth; ++k) {
      const int64_t size = data.dim(batch + k), index = read_index(indices, t * depth + k);
      if (index < -size || index >= size) {
        throw Error(ErrorCode::kInput, std::string(what) + ": index " + std::to_string(index) +
                                           " of tuple " + std::to_string(t) +
                                           " is outside its axis of " + std::to_string(size) +
                                           " entries");
      }
      at = at * size + positive_axis(index, size);
    }
    return at * slice;
  }
};

void launch_gather_nd(const LaunchCall& call) {
  const Tuples tuples(call.in[0], call.in[1], decode<GatherNDAttrs>(call.attrs).batch_dims);
  const size_t width = size_bytes(call.in[0].dtype);
  const size_t bytes = static_cast<size_t>(tuples.slice) * width;
  if (tuples.depth == 0 && bytes == 0) return;  // any number of empty tuples
  for (int64_t t = 0; t < tuples.count; ++t) {
    std::memcpy(call.out[0].data + static_cast<size_t>(t) * bytes,
                call.in[0].data + static_cast<size_t>(tuples.offset(t, "GatherND")) * width, bytes);
  }
}

void launch_scatter_nd(const LaunchCall& call) {
  const Tuples tuples(call.in[0], call.in[1], 0);
  copy_all(call);
  const size_t width = size_bytes(call.in[0].dtype);
  const size_t bytes = static_cast<size_t>(tuples.slice) * width;
  if (tuples.depth == 0 && bytes == 0) return;
  for (int64_t t = 0; t < tuples.count; ++t) {
    std::memcpy(call.out[0].data + static_cast<size_t>(tuples.offset(t, "ScatterND")) * width,
                call.in[2].data + static_cast<size_t>(t) * bytes, bytes);
  }
}

// ---- patterns

void launch_one_hot(const LaunchCall& call) {
  const TensorArg &indices = call.in[0], &values = call.in[2], &y = call.out[0];
  const auto axis = static_cast<int>(positive_axis(decode<OneHotAttrs>(call.attrs).axis, y.rank));
  const size_t width = size_bytes(y.dtype);
  const int64_t size = y.dim(axis), inner = elems_between(y, axis + 1, y.rank);
  fill_elements(y.data, y.elems(), values.data, width);
  for (int64_t i = 0; i < indices.elems(); ++i) {
    const int64_t index = read_index(indices, i);
    if (index < -size || index >= size) continue;  // all off, by definition
    const int64_t at = (i / inner * size + positive_axis(index, size)) * inner + i % inner;
    std::memcpy(y.data + static_cast<size_t>(at) * width, values.data + width, width);
  }
}
Support supports_one_hot(const Problem& problem) {
  if (!is_integer(problem.inputs[0].dtype)) return no("indices are not integers");
  return one_float_type(problem);
}

void launch_range(const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  for (int64_t i = 0; i < y.elems(); ++i) {
    std::byte* dst = y.data + i * static_cast<int64_t>(size_bytes(y.dtype));
    if (is_float(y.dtype)) {
      const double start = load_float(y.dtype, call.in[0].data);
      store_float(y.dtype, start + static_cast<double>(i) * load_float(y.dtype, call.in[2].data),
                  dst);
    } else {
      const int64_t start = load_integer(y.dtype, call.in[0].data);
      store_integer(y.dtype, start + i * load_integer(y.dtype, call.in[2].data), dst);
    }
  }
}

void launch_constant_of_shape(const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  std::array<std::byte, 8> element{};
  store_float(y.dtype, attrs_of<ConstantOfShapeAttrs>(call.state).value, element.data());
  fill_elements(y.data, y.elems(), element.data(), size_bytes(y.dtype));
}

void launch_eye_like(const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  const int64_t k = std::clamp(decode<EyeLikeAttrs>(call.attrs).k, -y.dim(0), y.dim(1)),
                width = static_cast<int64_t>(size_bytes(y.dtype));
  std::memset(y.data, 0, static_cast<size_t>(y.elems() * width));
  for (int64_t row = std::max<int64_t>(0, -k); row < y.dim(0) && row + k < y.dim(1); ++row)
    store_float(y.dtype, 1, y.data + (row * y.dim(1) + row + k) * width);
}

void launch_trilu(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  const bool upper = decode<TriluAttrs>(call.attrs).upper;
  const int64_t rows = x.dim(-2), cols = x.dim(-1);
  // Diagonals beyond the corners are equivalent.
  const int64_t k =
      std::clamp<int64_t>(given(call.in, 1) ? read_index(call.in[1], 0) : 0, -rows - 1, cols + 1);
  const auto width = static_cast<int64_t>(size_bytes(x.dtype));
  const int64_t total = cols == 0 ? 0 : x.elems() / cols;
  for (int64_t r = 0; r < total; ++r) {
    // Kept columns of this row: [diagonal, cols) or [0, diagonal].
    const int64_t diagonal = std::clamp<int64_t>(r % rows + k + (upper ? 0 : 1), 0, cols);
    const int64_t begin = upper ? diagonal : 0, end = upper ? cols : diagonal;
    std::byte* dst = call.out[0].data + r * cols * width;
    std::memset(dst, 0, static_cast<size_t>(cols * width));
    std::memcpy(dst + begin * width, x.data + (r * cols + begin) * width,
                static_cast<size_t>((end - begin) * width));
  }
}

// ---- CumSum: running sums, f32 and integers in their own type

template <class T, class Sum>
void cum_sum(const LaunchCall& call, const CumSumAttrs& attrs, int axis) {
  const TensorArg& x = call.in[0];
  const int64_t size = x.dim(axis), inner = elems_between(x, axis + 1, x.rank);
  const int64_t columns = elems_between(x, 0, axis) * inner;
  call.execution.threads->parallel_for(columns, 256, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) {
      const int64_t first = c / inner * size * inner + c % inner;
      Sum sum = 0;
      for (int64_t i = 0; i < size; ++i) {
        const int64_t at = first + (attrs.reverse ? size - 1 - i : i) * inner;
        const auto value = static_cast<Sum>(x.as<const T>()[at]);
        const Sum next = sum + value;
        call.out[0].as<T>()[at] = static_cast<T>(attrs.exclusive ? sum : next);
        sum = next;
      }
    }
  });
}
void launch_cum_sum(const LaunchCall& call) {
  const auto attrs = decode<CumSumAttrs>(call.attrs);
  const int axis = read_axis(call.in[1], 0, call.in[0], "CumSum");
  if (call.in[0].elems() == 0) return;
  if (call.in[0].dtype == DType::kF32) return cum_sum<float, float>(call, attrs, axis);
  if (call.in[0].dtype == DType::kI32) return cum_sum<int32_t, uint32_t>(call, attrs, axis);
  cum_sum<int64_t, uint64_t>(call, attrs, axis);
}
Support supports_cum_sum(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  if (type == DType::kF32 || type == DType::kI32 || type == DType::kI64)
    return one_float_type(problem);
  return no("no loop for " + std::string(name(type)));
}

constexpr KernelBody body(void (*launch)(const LaunchCall&),
                          Support (*supports)(const Problem&) = &one_float_type) {
  return {.supports = supports, .numerics = &exact_numerics, .launch = launch};
}

}  // namespace

extern const KernelBody gather_rows, gather_elements_direct, gather_nd_direct,
    scatter_elements_direct, scatter_nd_direct, one_hot_direct, range_direct,
    constant_of_shape_direct, eye_like_direct, trilu_rows, cum_sum_columns;
constexpr KernelBody gather_rows = body(&launch_gather);
constexpr KernelBody gather_elements_direct = body(&launch_gather_elements);
constexpr KernelBody gather_nd_direct = body(&launch_gather_nd);
constexpr KernelBody scatter_elements_direct = body(&launch_scatter_elements, &supports_scatter);
constexpr KernelBody scatter_nd_direct = body(&launch_scatter_nd, &supports_scatter);
constexpr KernelBody one_hot_direct = body(&launch_one_hot, &supports_one_hot);
constexpr KernelBody range_direct = body(&launch_range);
constexpr KernelBody constant_of_shape_direct{
    .supports = &one_float_type,
    .numerics = &exact_numerics,
    .create = &decode_once<ConstantOfShapeAttrs>,
    .launch = &launch_constant_of_shape,
};
constexpr KernelBody eye_like_direct = body(&launch_eye_like);
constexpr KernelBody trilu_rows = body(&launch_trilu);
constexpr KernelBody cum_sum_columns{
    .supports = &supports_cum_sum,
    .numerics =
        [](const Problem& p) {
          return p.inputs[0].dtype == DType::kF32 ? f32_numerics(p) : exact_numerics(p);
        },
    .launch = &launch_cum_sum,
};

}  // namespace vernier::backend::cpu
