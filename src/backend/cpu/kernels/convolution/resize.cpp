// cpu.resize.nearest, cpu.resize.linear: resampling along any axes. Contract: ResizeAttrs in
// core/attrs.h; formulas: ONNX Resize-19. The source position of an output element is computed per
// axis and shape in double, as in the definition, so that no rounding moves it to a neighbor.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/body.h"
#include "backend/supports.h"
#include "core/error.h"
#include "core/resized_length.h"

namespace vernier::backend::cpu {
namespace {

/// Attributes, and the scale of every axis if scales are given (otherwise the sizes decide).
struct ResizeState final : KernelState {
  ResizeAttrs attrs;
  std::vector<double> scales;  ///< by position in attrs.axes (all axes if that is empty)
};

std::unique_ptr<KernelState> create_resize(const CreateCall& call) {
  auto state = std::make_unique<ResizeState>();
  state->attrs = decode<ResizeAttrs>(call.attrs);
  if (call.constant_inputs.size() <= kResizeScales) return state;
  const TensorArg& scales = call.constant_inputs[kResizeScales];
  if (scales.data == nullptr) return state;
  for (int64_t i = 0; i < scales.elems(); ++i) {
    const auto at = static_cast<size_t>(i) * size_bytes(scales.dtype);
    state->scales.push_back(load_float(scales.dtype, scales.data + at));
  }
  return state;
}

// ---- one axis: source positions of the output's elements

struct ResizeAxis {
  int64_t in = 1, out = 1;
  double scale = 1;
  bool changes() const { return in != out || scale != 1; }
};

double source_coordinate(const std::string& mode, const ResizeAxis& axis, int64_t at) {
  const auto x = static_cast<double>(at), in = static_cast<double>(axis.in),
             out = static_cast<double>(axis.out);
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "align_corners" && axis.out == 1) return 0;
  if (mode == "align_corners")
    return x * (in - 1) / (resized_length(axis.in, axis.out, axis.scale) - 1);
  if (mode == "pytorch_half_pixel" && axis.out == 1) return 0;
  const double centered = (x + 0.5) / axis.scale - 0.5;
  if (mode != "half_pixel_symmetric") return centered;
  return in / 2 * (1 - out / (axis.scale * in)) + centered;
}

int64_t nearest_index(const ResizeAttrs& attrs, const ResizeAxis& axis, int64_t at) {
  const double x = source_coordinate(attrs.coordinate_mode, axis, at);
  const std::string& mode = attrs.nearest_mode;
  const double whole = mode == "floor"               ? std::floor(x)
                       : mode == "ceil"              ? std::ceil(x)
                       : mode == "round_prefer_ceil" ? std::floor(x + 0.5)
                                                     : std::ceil(x - 0.5);
  return std::clamp<int64_t>(static_cast<int64_t>(whole), 0, axis.in - 1);
}

/// Two elements and their weights. If the definition uses one element, it is used twice with half
/// its weight: an infinite neighbor times 0 would be NaN.
struct Pair {
  std::array<int64_t, 2> index{};
  std::array<double, 2> weight{};
};

Pair linear_pair(const ResizeAttrs& attrs, const ResizeAxis& axis, int64_t at) {
  const double x = source_coordinate(attrs.coordinate_mode, axis, at);
  const double base = std::floor(x);
  Pair pair;
  for (size_t k = 0; k < 2; ++k) {
    const double place = base + static_cast<double>(k);
    pair.index[k] = std::clamp<int64_t>(static_cast<int64_t>(place), 0, axis.in - 1);
    pair.weight[k] = std::max(0.0, 1 - std::abs(place - x));
  }
  for (size_t k = 0; k < 2; ++k) {
    if (pair.weight[k] != 0) continue;
    const size_t other = 1 - k;
    pair.index[k] = pair.index[other];
    pair.weight[k] = pair.weight[other] /= 2;
  }
  return pair;
}

std::array<ResizeAxis, kMaxRank> resize_axes(const PrepareCall& call) {
  const auto& state = static_cast<const ResizeState&>(*call.state);
  const TensorArg &x = call.in[kResizeX], &y = call.out[0];
  if (y.elems() > 0 && x.elems() == 0)
    throw Error(ErrorCode::kInput, "Resize: the input is empty, the output is not");
  std::array<ResizeAxis, kMaxRank> axes;
  for (int i = 0; i < x.rank; ++i) {
    const double ratio = static_cast<double>(y.dim(i)) / static_cast<double>(x.dim(i));
    axes[i] = {x.dim(i), y.dim(i), ratio};
  }
  if (given(call.in, kResizeSizes)) return axes;
  for (size_t i = 0; i < state.scales.size(); ++i) {
    const int64_t axis = state.attrs.axes.empty() ? static_cast<int64_t>(i) : state.attrs.axes[i];
    axes[positive_axis(axis, x.rank)].scale = state.scales[i];
  }
  return axes;
}

// ---- what is supported

// What both rows take.
Support supports_any(const Problem& problem) {
  Support operands = resize_operands(problem);
  if (!operands) return operands;
  const DType from = problem.inputs[kResizeX].dtype, to = problem.outputs[0].dtype;
  if (from != to)
    return no("cannot convert " + std::string(name(from)) + " to " + std::string(name(to)));
  return yes();
}

Support supports_nearest(const Problem& problem) {
  const auto attrs = problem.attrs_as<ResizeAttrs>();
  if (attrs.mode != Interpolation::kNearest) return no("the mode is not nearest");
  return supports_any(problem);
}

Support supports_linear(const Problem& problem) {
  const auto attrs = problem.attrs_as<ResizeAttrs>();
  if (attrs.mode != Interpolation::kLinear) return no("the mode is not linear");
  if (attrs.antialias) return no("antialias is not supported");
  if (attrs.exclude_outside) return no("exclude_outside is not supported");
  if (problem.inputs[kResizeX].dtype != DType::kF32)
    return no("input is " + std::string(name(problem.inputs[kResizeX].dtype)) +
              ", linear interpolation takes f32");
  Support any = supports_any(problem);
  if (!any) return any;
  const int changing = resized_axes(problem);
  if (changing > 2)
    return no("resizes " + std::to_string(changing) + " axes, linear interpolation takes two");
  return yes();
}

Numerics linear_numerics(const Problem& problem) {
  Numerics result = f32_numerics(problem);
  result.accumulate = DType::kF64;
  return result;
}

// ---- nearest

struct NearestShape final : ShapeState {
  std::array<std::vector<int64_t>, kMaxRank> offsets;  ///< by axis and position in the output
  bool last_axis_is_copied = false;
};

std::unique_ptr<ShapeState> prepare_nearest(const PrepareCall& call) {
  auto shape = std::make_unique<NearestShape>();
  const auto axes = resize_axes(call);
  const auto& attrs = static_cast<const ResizeState&>(*call.state).attrs;
  if (call.out[0].elems() == 0) return shape;
  const int rank = call.in[kResizeX].rank;
  for (int i = 0; i < rank; ++i) {
    const ResizeAxis& axis = axes[i];
    for (int64_t at = 0; at < axis.out; ++at) {
      const int64_t index = axis.changes() ? nearest_index(attrs, axis, at) : at;
      shape->offsets[i].push_back(index * call.in[kResizeX].stride(i));
    }
  }
  shape->last_axis_is_copied = !axes[rank - 1].changes();
  return shape;
}

template <class T>
void pick(const std::byte* src, std::span<const int64_t> offsets, std::byte* dst) {
  const auto* x = reinterpret_cast<const T*>(src);
  auto* y = reinterpret_cast<T*>(dst);
  for (size_t i = 0; i < offsets.size(); ++i) y[i] = x[offsets[i]];
}

void pick_row(const std::byte* src, std::span<const int64_t> offsets, std::byte* dst,
              size_t width) {
  if (width == 1) return pick<uint8_t>(src, offsets, dst);
  if (width == 2) return pick<uint16_t>(src, offsets, dst);
  if (width == 4) return pick<uint32_t>(src, offsets, dst);
  pick<uint64_t>(src, offsets, dst);
}

/// y[i…] = x[nearest(i)…]: each axis on its own, coordinates and rounding as the attributes say.
/// x        any shape of rank >= 1, any outer strides, last axis contiguous; any type. y: same
///          type.
/// Error    exact: elements are moved as bits.
/// Cost     reads as much as it writes. No workspace; tables of one offset per position of an axis.
void launch_nearest(const LaunchCall& call) {
  const TensorArg &x = call.in[kResizeX], &y = call.out[0];
  if (y.elems() == 0) return;
  const auto& shape = static_cast<const NearestShape&>(*call.shape_state);
  const auto last = static_cast<size_t>(y.rank - 1);
  const int64_t cols = y.dim(-1), rows = y.elems() / cols;
  const size_t width = size_bytes(y.dtype);
  const int64_t grain = std::max<int64_t>(1, 4096 / cols);
  call.execution.threads->parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t from = 0, rest = r;
      for (size_t i = last; i-- > 0; rest /= y.shape[i])
        from += shape.offsets[i][rest % y.shape[i]];
      const std::byte* src = x.data + from * static_cast<int64_t>(width);
      std::byte* dst = y.data + r * cols * static_cast<int64_t>(width);
      if (shape.last_axis_is_copied)
        std::copy_n(src, static_cast<size_t>(cols) * width, dst);
      else
        pick_row(src, shape.offsets[last], dst, width);
    }
  });
}

// ---- linear

/// Arrays as [outer, rows, middle, cols, inner]: rows and cols are the axes that change.
struct LinearShape final : ShapeState {
  int64_t outer = 1, rows_in = 1, middle = 1, cols_in = 1, inner = 1;
  std::vector<Pair> rows, cols;
  int64_t line_elems() const { return cols_in * inner; }
  size_t line_bytes() const {
    return round_to_line(static_cast<size_t>(line_elems()) * sizeof(double));
  }
};

std::vector<Pair> pairs_of(const ResizeAttrs& attrs, const ResizeAxis& axis) {
  std::vector<Pair> pairs;
  for (int64_t at = 0; at < axis.out; ++at) {
    pairs.push_back(axis.changes() ? linear_pair(attrs, axis, at) : Pair{{at, at}, {0.5, 0.5}});
  }
  return pairs;
}

std::unique_ptr<ShapeState> prepare_linear(const PrepareCall& call) {
  auto shape = std::make_unique<LinearShape>();
  const auto axes = resize_axes(call);
  const auto& attrs = static_cast<const ResizeState&>(*call.state).attrs;
  if (call.out[0].elems() == 0) return shape;
  const TensorArg& x = call.in[kResizeX];
  int row = -1, col = x.rank - 1;  // if no axis changes, the last axis is cols
  for (int i = x.rank - 1, seen = 0; i >= 0; --i) {
    if (!axes[i].changes()) continue;
    (seen++ == 0 ? col : row) = i;
  }
  shape->outer = elems_between(x, 0, row < 0 ? col : row);
  shape->middle = row < 0 ? 1 : elems_between(x, row + 1, col);
  shape->inner = elems_between(x, col + 1, x.rank);
  shape->cols_in = x.dim(col);
  shape->rows_in = row < 0 ? 1 : x.dim(row);
  shape->cols = pairs_of(attrs, axes[col]);
  shape->rows = pairs_of(attrs, row < 0 ? ResizeAxis{} : axes[row]);
  shape->workspace_bytes =
      shape->line_bytes() * static_cast<size_t>(call.execution.threads->size());
  return shape;
}

/// to[i] = a[i]·weight[0] + b[i]·weight[1].
template <class From, class To>
void blend(const From* a, const From* b, const Pair& pair, To* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<To>(static_cast<double>(a[i]) * pair.weight[0] +
                            static_cast<double>(b[i]) * pair.weight[1]);
  }
}

/// y[i…] = Σ x[j…] · Π max(0, 1 − |j − c(i)|) over the (at most two) axes that change, c as the
/// coordinate mode says, j kept inside the array.
/// x        f32, dense, any shape. y: f32.
/// Compute and accumulate in f64, first along the earlier axis, rounded once.
/// Error    1/2 ulp from the formula in double.
/// Cost     reads two lines per line written.
/// Workspace one line of the input in f64 per part.
void launch_linear(const LaunchCall& call) {
  if (call.out[0].elems() == 0) return;
  const auto& s = static_cast<const LinearShape&>(*call.shape_state);
  const auto* x = call.in[kResizeX].as<const float>();
  auto* y = call.out[0].as<float>();
  const auto rows_out = static_cast<int64_t>(s.rows.size());
  const auto line_out = static_cast<int64_t>(s.cols.size()) * s.inner;
  const int64_t grain = std::max<int64_t>(1, 4096 / line_out);
  call.execution.threads->parallel_for(
      s.outer * rows_out * s.middle, grain, [&](int64_t begin, int64_t end, int part) {
        auto* line =
            reinterpret_cast<double*>(call.workspace + static_cast<size_t>(part) * s.line_bytes());
        for (int64_t l = begin; l < end; ++l) {
          const int64_t middle = l % s.middle, o = l / s.middle / rows_out;
          const Pair& row = s.rows[l / s.middle % rows_out];
          const auto line_at = [&](int64_t r) {
            return x + ((o * s.rows_in + r) * s.middle + middle) * s.line_elems();
          };
          blend(line_at(row.index[0]), line_at(row.index[1]), row, line, s.line_elems());
          float* dst = y + l * line_out;
          for (const Pair& col : s.cols) {
            blend(line + col.index[0] * s.inner, line + col.index[1] * s.inner, col, dst, s.inner);
            dst += s.inner;
          }
        }
      });
}

}  // namespace

extern const KernelBody resize_nearest, resize_linear;
constexpr KernelBody resize_nearest{
    .supports = &supports_nearest,
    .numerics = &exact_numerics,
    .strided_inputs = 1,
    .create = &create_resize,
    .prepare = &prepare_nearest,
    .launch = &launch_nearest,
};
constexpr KernelBody resize_linear{
    .supports = &supports_linear,
    .numerics = &linear_numerics,
    .create = &create_resize,
    .prepare = &prepare_linear,
    .launch = &launch_linear,
};

}  // namespace vernier::backend::cpu
