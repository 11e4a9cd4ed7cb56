// Translations of resampling operators. Contract: node_context.h, translations.h.
#include <algorithm>
#include <array>

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
  node.set_output(0, node.emit(OpKind::kResize, node.all_inputs(), attrs));
}

// Before opset 16 corners were not shifted by half a pixel.
void translate_roi_align(NodeContext& node) {
  RoiAlignAttrs attrs;
  const std::string mode = node.attrs().text("mode", "avg");
  if (mode == "max") node.unsupported("its mode is max; only avg has one meaning in all runtimes");
  if (mode != "avg") node.fail("attribute 'mode' is '" + mode + "'; expected avg or max");
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
