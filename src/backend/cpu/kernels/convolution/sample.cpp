// cpu.grid_sample.points: values of images [N, C, H, W] at the points of a grid [N, h, w, 2],
// bilinear or nearest. Contract: GridSampleAttrs in core/attrs.h. f32; positions and weights of a
// point are found once in double (a coordinate's rounding would be multiplied by the image's slope)
// and used for all channels. A NaN coordinate gives NaN; weights times taps in a fixed order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {
namespace {

// Two positions along one axis and their weights; index −1 is a zero outside the image.
struct AxisTaps {
  std::array<int64_t, 2> index{-1, -1};
  std::array<double, 2> weight{0, 0};
  bool valid = true;  // false: the coordinate is NaN
};

double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double phase = std::fmod(std::abs(x - low), 2 * range);
  return low + (phase <= range ? phase : 2 * range - phase);
}

struct Axis {
  int64_t size;
  double low, high;  // the borders of the image
  Padding padding;
};

int64_t tap_index(const Axis& axis, double at) {
  const auto last = static_cast<double>(axis.size - 1);
  if (at >= 0 && at <= last) return static_cast<int64_t>(at);
  if (axis.padding == Padding::kZeros) return -1;
  if (axis.padding == Padding::kReflection) at = std::trunc(reflect(at, axis.low, axis.high));
  return static_cast<int64_t>(std::clamp(at, 0.0, last));
}

AxisTaps axis_taps(const GridSampleAttrs& attrs, int64_t size, double normalized) {
  const auto length = static_cast<double>(size);
  const Axis axis{size, attrs.align_corners ? 0.0 : -0.5,
                  attrs.align_corners ? length - 1 : length - 0.5, attrs.padding};
  double x = attrs.align_corners ? (normalized + 1) / 2 * (length - 1)
                                 : ((normalized + 1) * length - 1) / 2;
  const bool nearest = attrs.mode == Interpolation::kNearest;
  if (nearest) x = std::nearbyint(x);
  if (x < axis.low || x > axis.high) {
    if (attrs.padding == Padding::kBorder) x = std::clamp(x, 0.0, length - 1);
    if (attrs.padding == Padding::kReflection) x = reflect(x, axis.low, axis.high);
  }
  AxisTaps taps;
  taps.valid = !std::isnan(x);
  if (!taps.valid) return taps;
  if (nearest) return {{tap_index(axis, x), -1}, {1, 0}};
  const double base = std::floor(x);
  for (size_t k = 0; k < 2; ++k) {
    const double at = base + static_cast<double>(k);
    taps.index[k] = tap_index(axis, at);
    taps.weight[k] = std::max(0.0, 1 - std::abs(x - at));
  }
  return taps;
}

// The value of one channel.
double weigh(const AxisTaps& rows, const AxisTaps& cols, const float* image, int64_t width) {
  double sum = 0;
  for (size_t i = 0; i < 2; ++i) {
    if (rows.index[i] < 0) continue;
    double row = 0;
    for (size_t j = 0; j < 2; ++j) {
      if (cols.index[j] < 0) continue;
      row += cols.weight[j] * static_cast<double>(image[rows.index[i] * width + cols.index[j]]);
    }
    sum += rows.weight[i] * row;
  }
  return sum;
}

void launch(const LaunchCall& call) {
  const auto attrs = decode<GridSampleAttrs>(call.attrs);
  const TensorArg &x = call.in[0], &y = call.out[0];
  const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3), image = height * width;
  const int64_t points = y.dim(2) * y.dim(3);
  if (y.elems() == 0) return;
  call.execution.threads->parallel_for(x.dim(0) * points, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; ++at) {
      // The grid names the last axis first.
      const float* grid = call.in[1].as<const float>() + at * 2;
      const AxisTaps cols = axis_taps(attrs, width, static_cast<double>(grid[0]));
      const AxisTaps rows = axis_taps(attrs, height, static_cast<double>(grid[1]));
      const int64_t n = at / points;
      const float* src = x.as<const float>() + n * channels * image;
      float* dst = y.as<float>() + n * channels * points + at % points;
      for (int64_t c = 0; c < channels; ++c) {
        dst[c * points] = rows.valid && cols.valid
                              ? static_cast<float>(weigh(rows, cols, src + c * image, width))
                              : std::numeric_limits<float>::quiet_NaN();
      }
    }
  });
}

Support supports(const Problem& problem) {
  if (rank_of(problem.inputs[0]) != 4) return no("only two spatial axes are supported");
  if (problem.attrs_as<GridSampleAttrs>().mode == Interpolation::kCubic)
    return no("cubic mode is not supported");
  return all_f32(problem);
}

}  // namespace

extern const KernelBody grid_sample_points;
constexpr KernelBody grid_sample_points{
    .supports = &supports,
    .numerics = &f32_numerics,
    .launch = &launch,
};

}  // namespace vernier::backend::cpu
