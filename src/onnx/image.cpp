// Translations of resampling operators. Contract: node_context.h, translations.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/attrs.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

Interpolation interpolation(NodeContext& node, const char* absent) {
  const std::string text = node.attrs().text("mode", absent);
  if (text == "nearest") return Interpolation::kNearest;
  if (text == "linear" || text == "bilinear") return Interpolation::kLinear;
  if (text == "cubic" || text == "bicubic") return Interpolation::kCubic;
  node.fail("attribute 'mode' is '" + text + "'; expected nearest, linear or cubic");
}

void translate_grid_sample(NodeContext& node) {
  GridSampleAttrs attrs;
  attrs.mode = interpolation(node, "linear");
  attrs.align_corners = node.attrs().flag("align_corners", 0);
  const std::string padding = node.attrs().text("padding_mode", "zeros");
  constexpr std::array kPaddings{"zeros", "border", "reflection"};
  const auto found = std::find(kPaddings.begin(), kPaddings.end(), padding);
  if (found == kPaddings.end()) {
    node.fail("attribute 'padding_mode' is '" + padding +
              "'; expected zeros, border or reflection");
  }
  attrs.padding = static_cast<Padding>(found - kPaddings.begin());
  node.set_output(0, node.emit(OpKind::kGridSample, node.all_inputs(), attrs));
}

// Before opset 11 coordinates are asymmetric (x_in = x_out / scale). Nearest takes the floor when
// enlarging and the ceiling when shrinking.
void resize_legacy(NodeContext& node, ir::ValueId scales) {
  ResizeAttrs attrs;
  attrs.mode = interpolation(node, "nearest");
  attrs.coordinate_mode = "asymmetric";
  attrs.nearest_mode = "floor";
  const ir::Value& known = node.value(scales);
  if (attrs.mode == Interpolation::kNearest) {
    if (!known.is_constant() || !is_float(known.dtype)) {
      node.unsupported("its scales are not constant, which nearest sampling requires");
    }
    bool enlarges = false, shrinks = false;
    for (int64_t i = 0; i < known.constant.elems(); ++i) {
      enlarges = enlarges || known.constant.float_at(i) > 1;
      shrinks = shrinks || known.constant.float_at(i) < 1;
    }
    if (enlarges && shrinks) node.unsupported("it enlarges one axis and shrinks another");
    if (shrinks) attrs.nearest_mode = "ceil";
  }
  const ir::ValueId x = node.input(0);
  node.set_output(0, node.emit(OpKind::kResize, {x, ir::kNoValue, scales}, attrs));
}

void translate_upsample(NodeContext& node) {
  if (node.opset() >= 10) node.fail("Upsample was removed in opset 10; use Resize");
  if (node.opset() >= 9) return resize_legacy(node, node.input(1));
  const std::vector<double> scales = node.attrs().numbers("scales");
  resize_legacy(node, node.constant(Tensor::from(DType::kF32, {static_cast<int64_t>(scales.size())},
                                                 std::span<const double>(scales))));
}

/// One axis of a region: `out` places from start to end, where the axis is from 0 to 1.
struct CropAxis {
  double start = 0, end = 1;
  int64_t in = 1, out = 1;
  double place(int64_t k) const {
    if (out == 1) return (start + end) / 2;
    return start + static_cast<double>(k) * (end - start) / static_cast<double>(out - 1);
  }
  bool outside(int64_t k) const { return in > 1 && !(place(k) >= 0 && place(k) <= 1); }
};

// Starts and ends of the region from input 1, sizes from input 3.
std::vector<CropAxis> crop_axes(NodeContext& node, const ResizeAttrs& attrs) {
  std::vector<CropAxis> crops;
  for (const Dim& size : node.shape(node.input(0))) {
    const auto in = size.as_constant();
    if (!in) node.unsupported("it crops sizes that are not fixed");
    crops.push_back({.in = *in, .out = *in});
  }
  const auto rank = std::ssize(crops);
  std::vector<int64_t> axes = attrs.axes;
  for (int64_t i = 0; attrs.axes.empty() && i < rank; ++i) axes.push_back(i);
  if (!node.has_input(3))
    node.unsupported("it crops by scales, which runtimes read differently; give it sizes");
  const ir::Value& region = node.value(node.input(1));
  const auto sizes = node.integers(node.input(3));
  if (!region.is_constant() || !is_float(region.dtype) || !sizes)
    node.fail("its region and sizes are not known when the engine is built; make them constants");
  if (sizes->size() != axes.size() ||
      region.constant.elems() != 2 * static_cast<int64_t>(axes.size()))
    node.fail("has " + std::to_string(region.constant.elems()) + " ends of its region and " +
              std::to_string(sizes->size()) + " sizes for " + std::to_string(axes.size()) +
              " axes; expected two ends and a size of each");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < -rank || axes[i] >= rank)
      node.fail("axis " + std::to_string(axes[i]) + " is outside [" + std::to_string(-rank) + ", " +
                std::to_string(rank) + ")");
    CropAxis& axis = crops[static_cast<size_t>(axes[i] < 0 ? axes[i] + rank : axes[i])];
    axis.start = region.constant.float_at(static_cast<int64_t>(i));
    axis.end = region.constant.float_at(static_cast<int64_t>(i + axes.size()));
    axis.out = (*sizes)[i];
    constexpr int64_t kMost = 1 << 13;
    if (!std::isfinite(axis.start) || !std::isfinite(axis.end) || axis.out < 1 || axis.out > kMost)
      node.fail("axis " + std::to_string(axes[i]) + " becomes " + std::to_string(axis.out) +
                " places of a region from " + std::to_string(axis.start) + " to " +
                std::to_string(axis.end) + "; expected 1.." + std::to_string(kMost));
  }
  return crops;
}

// A region of images, sampled as GridSample does; what lies outside of the image has one value.
void crop_and_resize(NodeContext& node, const ResizeAttrs& attrs) {
  const ir::ValueId x = node.input(0);
  const std::vector<CropAxis> crops = crop_axes(node, attrs);
  const auto whole = [](const CropAxis& axis) {
    return axis.start == 0 && axis.end == 1 && axis.in == axis.out;
  };
  if (attrs.mode != Interpolation::kLinear || attrs.antialias || attrs.exclude_outside ||
      attrs.aspect_policy != "stretch" || !is_float(node.dtype(x)))
    node.unsupported("it crops in another mode than linear");
  if (crops.size() != 4 || !whole(crops[0]) || !whole(crops[1]))
    node.unsupported("it crops other axes than the last two of [N, C, H, W]");
  const CropAxis &rows = crops[2], &cols = crops[3];
  std::vector<double> grid;
  std::vector<int64_t> inside;
  for (int64_t i = 0; i < rows.out * cols.out; ++i) {
    const int64_t row = i / cols.out, col = i % cols.out;
    grid.insert(grid.end(), {2 * cols.place(col) - 1, 2 * rows.place(row) - 1});
    inside.push_back(rows.outside(row) || cols.outside(col) ? 0 : 1);
  }
  const ir::ValueId places = node.constant(
      Tensor::from(DType::kF32, {1, rows.out, cols.out, 2}, std::span<const double>(grid)));
  const ir::ValueId each =
      node.emit(OpKind::kExpand, {places},
                ShapeAttrs{.shape = {crops[0].in, rows.out, cols.out, 2}, .has_shape = true});
  const ir::ValueId samples =
      node.emit(OpKind::kGridSample, {x, each},
                GridSampleAttrs{.padding = Padding::kBorder, .align_corners = true});
  const ir::ValueId mask = node.constant(
      Tensor::from(DType::kBool, {rows.out, cols.out}, std::span<const int64_t>(inside)));
  const ir::ValueId other = node.constant(Tensor::scalar(node.dtype(x), attrs.extrapolation_value));
  node.set_output(0, node.emit(OpKind::kWhere, {mask, samples, other}));
}

void translate_resize(NodeContext& node) {
  if (node.opset() < 11) return resize_legacy(node, node.input(1));
  ResizeAttrs attrs;
  attrs.mode = interpolation(node, "nearest");
  attrs.coordinate_mode = node.attrs().text("coordinate_transformation_mode", "half_pixel");
  attrs.nearest_mode = node.attrs().text("nearest_mode", "round_prefer_floor");
  attrs.cubic_a = node.attrs().number("cubic_coeff_a", -0.75F);
  attrs.extrapolation_value = node.attrs().number("extrapolation_value", 0.0F);
  attrs.exclude_outside = node.attrs().flag("exclude_outside", 0);
  if (node.opset() >= 18) {
    attrs.antialias = node.attrs().flag("antialias", 0);
    attrs.axes = node.attrs().integers("axes");
    attrs.aspect_policy = node.attrs().text("keep_aspect_ratio_policy", "stretch");
  }
  if (attrs.coordinate_mode == "tf_crop_and_resize") return crop_and_resize(node, attrs);
  node.set_output(0, node.emit(OpKind::kResize, node.all_inputs(), attrs));
}

// Before opset 16 corners were not shifted by half a pixel.
void translate_roi_align(NodeContext& node) {
  RoiAlignAttrs attrs;
  const std::string mode = node.attrs().text("mode", "avg");
  attrs.max = mode == "max";
  if (!attrs.max && mode != "avg")
    node.fail("attribute 'mode' is '" + mode + "'; expected avg or max");
  std::string corners = "output_half_pixel";
  if (node.opset() >= 16)
    corners = node.attrs().text("coordinate_transformation_mode", "half_pixel");
  attrs.half_pixel = corners == "half_pixel";
  if (!attrs.half_pixel && corners != "output_half_pixel") {
    node.fail("attribute 'coordinate_transformation_mode' is '" + corners +
              "'; expected half_pixel or output_half_pixel");
  }
  attrs.height = node.attrs().integer("output_height", 1);
  attrs.width = node.attrs().integer("output_width", 1);
  attrs.sampling_ratio = node.attrs().integer("sampling_ratio", 0);
  attrs.spatial_scale = node.attrs().number("spatial_scale", 1.0F);
  node.set_output(0, node.emit(OpKind::kRoiAlign, node.all_inputs(), attrs));
}

constexpr std::array kRows{
    Translation{"", "GridSample", 16, translate_grid_sample},
    Translation{"", "RoiAlign", 10, translate_roi_align},
    Translation{"", "Upsample", 7, translate_upsample},
    Translation{"", "Resize", 10, translate_resize},
};

}  // namespace

std::span<const Translation> image_translations() { return kRows; }

}  // namespace vernier::onnx
