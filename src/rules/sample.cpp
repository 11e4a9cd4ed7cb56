// Inference of the operators that sample between elements: Resize, GridSample and RoiAlign.
// Contract: context.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "rules/checks.h"

namespace vernier::rules {
namespace {

// floor(size·scale) for a size that is only known as an expression: exact for scales p/q with a
// small q, as exporters write them.
Dim scaled_size(InferContext& context, const Dim& size, float scale) {
  constexpr float kLargest = 0x1p40F;
  if (!(scale > 0 && scale < kLargest))
    context.fail("scale " + std::to_string(scale) +
                 " is not valid, expected a positive number up to " + "2^40");
  if (const auto known = size.as_constant()) {
    const float scaled = std::floor(static_cast<float>(*known) * scale);
    if (!(scaled < kLargest)) context.fail("a scale of " + std::to_string(scale) + " is too large");
    return static_cast<int64_t>(scaled);
  }
  for (int64_t q = 1; q <= 64; ++q) {
    const double p = static_cast<double>(scale) * static_cast<double>(q);
    const double nearest = std::round(p);
    if (nearest >= 1 && static_cast<float>(nearest / static_cast<double>(q)) == scale)
      return floordiv(size * Dim(static_cast<int64_t>(nearest)), q);
  }
  context.fail("scale " + std::to_string(scale) + " of the symbolic size " + size.str() +
               " is not a simple fraction");
}

void check_modes(InferContext& context, const ResizeAttrs& attrs) {
  constexpr std::array<std::string_view, 5> kModes{
      "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"};
  if (std::find(kModes.begin(), kModes.end(), attrs.coordinate_mode) == kModes.end())
    context.fail("coordinate mode '" + attrs.coordinate_mode + "' is not supported");
  constexpr std::array<std::string_view, 4> kNearest{"round_prefer_floor", "round_prefer_ceil",
                                                     "floor", "ceil"};
  if (std::find(kNearest.begin(), kNearest.end(), attrs.nearest_mode) == kNearest.end())
    context.fail("nearest mode '" + attrs.nearest_mode + "' is not supported");
  constexpr std::array<std::string_view, 3> kPolicies{"stretch", "not_larger", "not_smaller"};
  if (std::find(kPolicies.begin(), kPolicies.end(), attrs.aspect_policy) == kPolicies.end())
    context.fail("aspect ratio policy '" + attrs.aspect_policy + "' is not supported");
  if (attrs.antialias && attrs.mode == Interpolation::kNearest)
    context.fail("antialias needs linear or cubic mode");
}

// not_larger and not_smaller: one scale for all axes.
SymShape keep_aspect(InferContext& context, const std::vector<Dim>& sizes,
                     const std::vector<size_t>& axes, bool larger) {
  std::vector<double> scales;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto in = context.shape(0)[axes[i]].as_constant(), out = sizes[i].as_constant();
    if (!in || !out) context.fail("an aspect ratio policy needs constant sizes");
    if (*in < 1 || *out < 1) context.fail("an aspect ratio policy needs sizes of 1 or more");
    scales.push_back(static_cast<double>(*out) / static_cast<double>(*in));
  }
  const double scale = larger ? *std::max_element(scales.begin(), scales.end())
                              : *std::min_element(scales.begin(), scales.end());
  SymShape out;
  for (size_t axis : axes) {
    const auto in = static_cast<double>(context.shape(0)[axis].constant());
    const double scaled = std::floor(scale * in + 0.5);
    constexpr double kLargest = 0x1p40;
    if (!(scaled <= kLargest))
      context.fail("a scale of " + std::to_string(scale) + " is too large");
    out.push_back(static_cast<int64_t>(scaled));
  }
  return out;
}

// Sizes or scales, in input `index`, that only the data says.
void infer_unknown_resize(InferContext& context, size_t index, const std::vector<size_t>& axes) {
  const Dim given = product(context.shape(index)), expected = static_cast<int64_t>(axes.size());
  if (equal(given, expected) == false) {
    context.fail("has " + given.str() + (index == 2 ? " scales" : " sizes") + " for " +
                 expected.str() + " axes");
  }
  context.require_equal(given, expected);
  SymShape out = context.shape(0);
  for (size_t axis : axes) out[axis] = data_size(context, axis);
  context.set_output(0, context.dtype(0), std::move(out));
}

}  // namespace

void infer_resize(InferContext& context) {
  const auto attrs = context.attrs<ResizeAttrs>();
  check_modes(context, attrs);
  SymShape out = context.shape(0);
  std::vector<size_t> axes;
  for (int64_t axis : attrs.axes) axes.push_back(context.normalize_axis(axis, context.rank(0)));
  for (size_t i = 0; attrs.axes.empty() && i < out.size(); ++i) axes.push_back(i);
  require_distinct(context, axes);
  if (context.has_input(2)) require_float(context, 2);
  const bool has_sizes = context.has_input(3);
  if (has_sizes) {
    require_signed_index(context, 3);
    const auto sizes = context.values(3);
    if (!sizes) return infer_unknown_resize(context, 3, axes);
    if (sizes->size() != axes.size())
      context.fail("has " + std::to_string(sizes->size()) + " sizes for " +
                   std::to_string(axes.size()) + " axes");
    const SymShape chosen =
        attrs.aspect_policy == "stretch"
            ? *sizes
            : keep_aspect(context, *sizes, axes, attrs.aspect_policy == "not_smaller");
    for (size_t i = 0; i < axes.size(); ++i) out[axes[i]] = chosen[i];
  } else {
    const Tensor* scales = context.constant(2);
    if (!context.has_input(2)) context.fail("has neither sizes nor scales");
    if (scales == nullptr) return infer_unknown_resize(context, 2, axes);
    if (scales->elems() != static_cast<int64_t>(axes.size()))
      context.fail("has " + std::to_string(scales->elems()) + " scales for " +
                   std::to_string(axes.size()) + " axes");
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto scale = static_cast<float>(scales->float_at(static_cast<int64_t>(i)));
      if (!(scale > 0)) context.fail("scale " + std::to_string(scale) + " is not positive");
      out[axes[i]] = scaled_size(context, out[axes[i]], scale);
    }
  }
  // A nonempty output needs a nonempty input.
  for (size_t axis : axes) {
    if (out[axis] == context.shape(0)[axis] || out[axis] == Dim(0)) continue;
    if (context.shape(0)[axis] == Dim(0))
      context.fail("cannot resize the empty " + str(context.shape(0)));
    context.require_at_most(0, out[axis]);
    context.require_at_most(1, context.shape(0)[axis]);
  }
  context.set_output(0, context.dtype(0), std::move(out));
}

void infer_grid_sample(InferContext& context) {
  require_float(context, 0);
  require_float(context, 1);
  const SymShape& x = context.shape(0);
  const SymShape& grid = context.shape(1);
  if (x.size() < 3 || x.size() > 5 || grid.size() != x.size())
    context.fail("input " + str(x) + " and grid " + str(grid) +
                 " do not match, expected [N, C, D...] and [N, d..., axes]");
  if (grid.back() != Dim(context.rank(0) - 2))
    context.fail("the last axis of grid " + str(grid) + " must be " +
                 std::to_string(context.rank(0) - 2));
  if (x.size() != 4 && context.attrs<GridSampleAttrs>().mode == Interpolation::kCubic)
    context.fail("cubic mode needs a 4-dimensional input, got " + str(x));
  for (size_t axis = 2; axis < x.size(); ++axis) {
    if (x[axis] == Dim(0)) context.fail("the image " + str(x) + " is empty");
    context.require_at_most(1, x[axis]);
  }
  SymShape out{context.unify(x[0], grid[0]), x[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  context.set_output(0, context.dtype(0), std::move(out));
}

// Images [N, C, H, W], regions [R, 4] as (x1, y1, x2, y2), the image of each region [R].
void infer_roi_align(InferContext& context) {
  const auto attrs = context.attrs<RoiAlignAttrs>();
  constexpr int64_t kMostSamples = 1024;
  require_between(context, "output_height", attrs.height, 1);
  require_between(context, "output_width", attrs.width, 1);
  require_between(context, "sampling_ratio", attrs.sampling_ratio, 0, kMostSamples);
  if (!std::isfinite(attrs.spatial_scale))
    context.fail("spatial_scale is " + std::to_string(attrs.spatial_scale) + ", expected a number");
  require_float(context, 0);
  require_float(context, 1);
  require_signed_index(context, 2);
  require_rank(context, 0, 4);
  require_rank(context, 1, 2);
  require_rank(context, 2, 1);
  const SymShape x = context.shape(0), regions = context.shape(1);
  context.unify(regions[1], 4);
  for (size_t axis = 2; axis < 4; ++axis) {
    if (x[axis] == Dim(0)) context.fail("the image " + str(x) + " is empty");
    context.require_at_most(1, x[axis]);
  }
  const Dim count = context.unify(regions[0], context.shape(2)[0]);
  context.set_output(0, context.dtype(0), {count, x[1], attrs.height, attrs.width});
}

// Four pixels per sample. Without a sampling ratio, samples inside the image are half a pixel apart
// or more, or there is one per bin (reference/roi_align.cpp).
Cost cost_roi_align(const CostCall& call) {
  constexpr double kPixels = 4;
  const auto attrs = decode<RoiAlignAttrs>(call.attrs);
  double samples = 1;
  for (size_t axis = 2; axis < 4; ++axis) {
    const auto bins = static_cast<double>(call.out[0][axis]);
    const auto size = static_cast<double>(call.in[0][axis]);
    samples *= attrs.sampling_ratio > 0 ? bins * static_cast<double>(attrs.sampling_ratio)
                                        : 3 * bins + 2 * (size + 2);
  }
  const auto images = static_cast<double>(call.out[0][0]) * static_cast<double>(call.out[0][1]);
  return {2 * kPixels * images * samples, tensor_bytes(call)};
}

// One axis after the other; an intermediate result may be larger than input and output.
Cost cost_resize(const CostCall& call) {
  constexpr double kTaps = 4;  // per axis and element read or written: cubic
  const auto elems = [](const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), 1.0, [](double product, int64_t size) {
      return product * static_cast<double>(size);
    });
  };
  Shape between = call.in[0];
  Cost cost{0, tensor_bytes(call)};
  for (size_t axis = 0; axis < between.size(); ++axis) {
    const double read = elems(between);
    between[axis] = call.out[0][axis];
    cost.flops += kTaps * std::max(read, elems(between));
  }
  return cost;
}

}  // namespace vernier::rules
