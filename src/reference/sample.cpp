// FP64 evaluators of Resize and GridSample: both weigh a few source positions per axis.
// Contract: core/evaluator.h; formulas: ONNX Resize-19 and GridSample-20.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/attrs.h"
#include "core/resized_length.h"
#include "reference/elementwise.h"
#include "reference/layout.h"

namespace vernier::reference {
namespace {

/// One source position of an axis and its weight; −1 is a zero outside.
struct Tap {
  int64_t index = 0;
  double weight = 0;
};
using Taps = std::vector<Tap>;

/// Keys' cubic convolution kernel with parameter a.
double cubic_kernel(double distance, double a) {
  const double t = std::abs(distance);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return a * (((t - 5) * t + 8) * t - 4);
  return 0;
}
double linear_kernel(double distance) { return std::max(0.0, 1 - std::abs(distance)); }

// ---- Resize

struct ResizeAxis {
  int64_t in = 1, out = 1;
  double scale = 1;
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
  const double adjustment = out / (axis.scale * in);
  return in / 2 * (1 - adjustment) + centered;
}

int64_t nearest_index(const std::string& mode, double x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

Taps resize_taps(const ResizeAttrs& attrs, const ResizeAxis& axis, int64_t at) {
  const double x = source_coordinate(attrs.coordinate_mode, axis, at);
  if (attrs.mode == Interpolation::kNearest)
    return {{std::clamp<int64_t>(nearest_index(attrs.nearest_mode, x), 0, axis.in - 1), 1.0}};
  const bool cubic = attrs.mode == Interpolation::kCubic;
  // Antialiasing stretches the kernel over the pixels that shrink into one.
  const double stretch = attrs.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = (cubic ? 2.0 : 1.0) / stretch;
  Taps taps;
  double sum = 0;
  for (auto i = static_cast<int64_t>(std::ceil(x - reach));
       i <= static_cast<int64_t>(std::floor(x + reach)); ++i) {
    const double distance = (static_cast<double>(i) - x) * stretch;
    const double weight = cubic ? cubic_kernel(distance, attrs.cubic_a) : linear_kernel(distance);
    const bool outside = i < 0 || i >= axis.in;
    if (weight == 0 || (outside && attrs.exclude_outside)) continue;
    taps.push_back({std::clamp<int64_t>(i, 0, axis.in - 1), weight});
    sum += weight;
  }
  if (attrs.antialias || attrs.exclude_outside) {
    for (Tap& tap : taps) tap.weight /= sum;
  }
  return taps;
}

// Input and output size and scale of every axis, from inference.
std::vector<ResizeAxis> resize_axes(const EvalCall& call, const ResizeAttrs& attrs) {
  const Shape &in = call.in[0]->shape, &out = call.out[0].shape;
  std::vector<ResizeAxis> result(in.size());
  for (size_t i = 0; i < in.size(); ++i)
    result[i] = {in[i], out[i], static_cast<double>(out[i]) / static_cast<double>(in[i])};
  std::vector<size_t> axes;
  for (int64_t axis : attrs.axes) axes.push_back(normalize_axis(axis, in.size()));
  for (size_t i = 0; attrs.axes.empty() && i < in.size(); ++i) axes.push_back(i);
  const EvalTensor* sizes = call.in.size() > 3 ? call.in[3] : nullptr;
  if (sizes == nullptr) {
    for (size_t i = 0; i < axes.size(); ++i) result[axes[i]].scale = call.in[2]->f[i];
    return result;
  }
  if (attrs.aspect_policy == "stretch") return result;
  const bool larger = attrs.aspect_policy == "not_smaller";
  double scale = larger ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < axes.size(); ++i) {
    const double own = static_cast<double>(sizes->i[i]) / static_cast<double>(in[axes[i]]);
    scale = larger ? std::max(scale, own) : std::min(scale, own);
  }
  for (size_t axis : axes) result[axis].scale = scale;
  return result;
}

// x resized along one axis, in double.
std::vector<double> resize_axis(const std::vector<double>& x, const AxisView& view, int64_t out,
                                const std::vector<Taps>& taps) {
  std::vector<double> y(static_cast<size_t>(view.outer * out * view.inner));
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t k = 0; k < out; ++k) {
      for (int64_t i = 0; i < view.inner; ++i) {
        double sum = 0;
        for (const Tap& tap : taps[k]) sum += tap.weight * x[view.at(o, tap.index, i)];
        y[(o * out + k) * view.inner + i] = sum;
      }
    }
  }
  return y;
}

// ---- GridSample

struct GridAxis {
  int64_t size = 1;
  double low = 0, high = 0;  ///< the borders of the image
};

double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double phase = std::fmod(std::abs(x - low), 2 * range);
  return low + (phase <= range ? phase : 2 * range - phase);
}

int64_t grid_index(const GridAxis& axis, Padding padding, double at) {
  const auto last = static_cast<double>(axis.size - 1);
  if (at >= 0 && at <= last) return static_cast<int64_t>(at);
  if (padding == Padding::kZeros) return -1;
  if (padding == Padding::kReflection) at = std::trunc(reflect(at, axis.low, axis.high));
  return static_cast<int64_t>(std::clamp(at, 0.0, last));
}

// The taps of one normalized coordinate in [-1, 1]; empty if it is NaN.
Taps grid_taps(const GridSampleAttrs& attrs, int64_t size, double normalized) {
  const auto length = static_cast<double>(size);
  const GridAxis axis{size, attrs.align_corners ? 0.0 : -0.5,
                      attrs.align_corners ? length - 1 : length - 0.5};
  double x = attrs.align_corners ? (normalized + 1) / 2 * (length - 1)
                                 : ((normalized + 1) * length - 1) / 2;
  if (attrs.mode == Interpolation::kNearest) x = std::nearbyint(x);
  if (x < axis.low || x > axis.high) {
    if (attrs.padding == Padding::kBorder) x = std::clamp(x, 0.0, length - 1);
    if (attrs.padding == Padding::kReflection) x = reflect(x, axis.low, axis.high);
  }
  if (std::isnan(x)) return {};
  const double base = std::floor(x);
  if (attrs.mode == Interpolation::kNearest) return {{grid_index(axis, attrs.padding, x), 1.0}};
  constexpr double kCubicA = -0.75;
  const bool cubic = attrs.mode == Interpolation::kCubic;
  Taps taps;
  for (int offset = cubic ? -1 : 0; offset <= (cubic ? 2 : 1); ++offset) {
    const double at = base + offset;
    const double weight = cubic ? cubic_kernel(x - at, kCubicA) : linear_kernel(x - at);
    taps.push_back({grid_index(axis, attrs.padding, at), weight});
  }
  return taps;
}

// sum over the tensor product of the axes' taps.
double weigh(const std::vector<Taps>& taps, const double* image, const Shape& strides,
             size_t axis) {
  if (axis == taps.size()) return *image;
  double sum = 0;
  for (const Tap& tap : taps[axis]) {
    if (tap.index >= 0)
      sum += tap.weight * weigh(taps, image + tap.index * strides[axis], strides, axis + 1);
  }
  return sum;
}

}  // namespace

void eval_resize(const EvalCall& call) {
  const auto attrs = decode<ResizeAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  EvalTensor& y = call.out[0];
  if (y.elems() == 0) return;
  if (x.elems() == 0) throw Error(ErrorCode::kInput, "cannot resize the empty " + str(x.shape));
  std::vector<double> values = x.f;
  if (!x.is_float()) values.assign(x.i.begin(), x.i.end());
  // Integers are selected exactly: their positions, not their values, are computed in double.
  const bool picks_integers = !x.is_float() && attrs.mode == Interpolation::kNearest;
  if (picks_integers) std::iota(values.begin(), values.end(), 0.0);
  const std::vector<ResizeAxis> axes = resize_axes(call, attrs);
  Shape shape = x.shape;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].in == axes[i].out && axes[i].scale == 1) continue;
    std::vector<Taps> taps;
    for (int64_t k = 0; k < axes[i].out; ++k) taps.push_back(resize_taps(attrs, axes[i], k));
    values = resize_axis(values, view_axis(shape, i), axes[i].out, taps);
    shape[i] = axes[i].out;
  }
  for (size_t k = 0; k < y.f.size(); ++k) y.f[k] = call.rounding(0, values[k]);
  for (size_t k = 0; k < y.i.size(); ++k) {
    y.i[k] = picks_integers ? x.i[static_cast<size_t>(values[k])]
                            : wrap_integer(y.dtype, double_to_integer(DType::kI64, values[k]));
  }
}

void eval_grid_sample(const EvalCall& call) {
  const auto attrs = decode<GridSampleAttrs>(call.attrs);
  const EvalTensor &x = *call.in[0], &grid = *call.in[1];
  EvalTensor& y = call.out[0];
  const size_t spatial = x.rank() - 2;
  const Shape sizes(x.shape.begin() + 2, x.shape.end());
  const Shape strides = row_major_strides(sizes);
  const int64_t channels = x.shape[1], image = num_elems(sizes);
  if (y.elems() == 0) return;
  const int64_t points = y.elems() / (x.shape[0] * channels);
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    for (int64_t p = 0; p < points; ++p) {
      std::vector<Taps> taps(spatial);
      bool valid = true;
      for (size_t axis = 0; axis < spatial; ++axis) {
        // The grid names the last axis first.
        const size_t at = static_cast<size_t>(n * points + p) * spatial + (spatial - 1 - axis);
        taps[axis] = grid_taps(attrs, sizes[axis], grid.f[at]);
        valid = valid && !taps[axis].empty();
      }
      for (int64_t c = 0; c < channels; ++c) {
        const double value = valid
                                 ? weigh(taps, x.f.data() + (n * channels + c) * image, strides, 0)
                                 : std::numeric_limits<double>::quiet_NaN();
        y.f[(n * channels + c) * points + p] = call.rounding(0, value);
      }
    }
  }
}

}  // namespace vernier::reference
