// Translations of AffineGrid, Col2Im, DeformConv and MaxUnpool, which are written in other
// operators. Contract: node_context.h, translations.h.
#include <algorithm>
#include <array>

#include "core/attrs.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

std::vector<int64_t> list_input(NodeContext& node, size_t i) {
  auto list = node.integers(node.input(i));
  if (!list)
    node.fail("input " + std::to_string(i) +
              " is not known when the engine is built; make it a constant");
  return std::move(*list);
}

// A list attribute of `count` numbers, all `absent` where it is not given.
std::vector<int64_t> window_list(NodeContext& node, const char* name, size_t count, int64_t absent,
                                 int64_t least) {
  std::vector<int64_t> list = node.attrs().integers(name);
  if (list.empty()) list.assign(count, absent);
  if (list.size() != count)
    node.fail("attribute '" + std::string(name) + "' has " + std::to_string(list.size()) +
              " items; expected " + std::to_string(count));
  for (const int64_t item : list)
    if (item < least || item > INT32_MAX)
      node.fail("attribute '" + std::string(name) + "' holds " + std::to_string(item) +
                "; expected " + std::to_string(least) + " or more");
  return list;
}

/// Windows over the axes of a plane: tap t of window p is at p·stride + t·dilation − pad.
struct Windows {
  Shape plane, kernel, strides, dilations, pads, count;
};

// `plane` and `kernel` have the same number of axes.
Windows read_windows(NodeContext& node, Shape plane, Shape kernel) {
  const size_t axes = plane.size();
  Windows w;
  w.plane = std::move(plane);
  w.kernel = std::move(kernel);
  w.strides = window_list(node, "strides", axes, 1, 1);
  w.dilations = window_list(node, "dilations", axes, 1, 1);
  w.pads = window_list(node, "pads", 2 * axes, 0, 0);
  for (size_t i = 0; i < axes; ++i) {
    const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    const int64_t slack = w.plane[i] + w.pads[i] + w.pads[axes + i] - reach;
    if (slack < 0)
      node.fail("a block spans " + std::to_string(reach) + " positions of axis " +
                std::to_string(i) + " of the image " + str(w.plane) + ", which has fewer");
    w.count.push_back(slack / w.strides[i] + 1);
  }
  return w;
}

// body(position) for every tap of every window, taps first; a position has one number per axis.
template <class Body>
void for_each_tap(const Windows& w, const Body& body) {
  const int64_t taps = num_elems(w.kernel), windows = num_elems(w.count);
  Shape position(w.plane.size());
  for (int64_t flat = 0; flat < taps * windows; ++flat) {
    int64_t tap = flat / windows, window = flat % windows;
    for (size_t i = w.plane.size(); i-- > 0;) {
      position[i] =
          window % w.count[i] * w.strides[i] + tap % w.kernel[i] * w.dilations[i] - w.pads[i];
      window /= w.count[i];
      tap /= w.kernel[i];
    }
    body(position);
  }
}

// Positions are a constant of the graph: a x b of them must be few.
void require_fewer(NodeContext& node, const Shape& a, const Shape& b) {
  double elems = 1;
  for (const Shape* shape : {&a, &b})
    for (const int64_t size : *shape) elems *= static_cast<double>(size);
  constexpr double kMost = 1 << 26;
  if (elems > kMost)
    node.unsupported("its positions " + str(a) + " x " + str(b) + " are more than 2^26");
}

ir::ValueId zeros(NodeContext& node, DType type, SymShape shape) {
  return node.emit(
      OpKind::kConstantOfShape, {},
      ConstantOfShapeAttrs{.dtype = type, .shape = std::move(shape), .has_shape = true});
}

// ---- Col2Im

// The element of the plane under every tap of every window; behind the last one for the padding.
std::vector<int64_t> image_places(const Windows& w) {
  std::vector<int64_t> places;
  for_each_tap(w, [&](const Shape& position) {
    int64_t place = 0;
    bool inside = true;
    for (size_t i = 0; i < position.size(); ++i) {
      inside = inside && position[i] >= 0 && position[i] < w.plane[i];
      place = place * w.plane[i] + position[i];
    }
    places.push_back(inside ? place : num_elems(w.plane));
  });
  return places;
}

// Elements are added to their places; those in the padding to one place behind the image:
//   [n, c·taps, windows] -> [n·c, taps·windows] -> [n·c, image + 1] -> [n, c, image...]
void translate_col2im(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  const SymShape shape = node.shape(x);
  const Shape image = list_input(node, 1), block = list_input(node, 2);
  if (shape.size() != 3)
    node.fail("input 0 has shape " + str(shape) + "; expected [N, C * block, blocks]");
  if (image.empty() || image.size() != block.size())
    node.fail("the image " + str(image) + " and the block " + str(block) +
              " have different axes; expected one size each per axis");
  for (const Shape* sizes : {&image, &block})
    for (const int64_t size : *sizes)
      if (size < 1 || size > INT32_MAX)
        node.fail("the image " + str(image) + " or the block " + str(block) +
                  " has a size below 1 or above 2^31");
  require_fewer(node, image, {});
  require_fewer(node, block, {});
  const Windows windows = read_windows(node, image, block);
  require_fewer(node, windows.count, block);
  const int64_t pixels = num_elems(image), taps = num_elems(block);
  const int64_t columns = taps * num_elems(windows.count);
  if (equal(mod(shape[1], Dim(taps)), 0) == false ||
      equal(shape[2], num_elems(windows.count)) == false)
    node.fail("input 0 has shape " + str(shape) + "; expected [N, C * " + std::to_string(taps) +
              ", " + std::to_string(num_elems(windows.count)) + "]");
  const Dim channels = floordiv(shape[1], Dim(taps)), planes = shape[0] * channels;
  const ir::ValueId each = node.emit(OpKind::kExpand, {node.constant_i64(image_places(windows))},
                                     ShapeAttrs{.shape = {planes, columns}, .has_shape = true});
  const ir::ValueId sums = node.emit(
      OpKind::kScatterElements,
      {zeros(node, node.dtype(x), {planes, pixels + 1}), each, node.reshape(x, {planes, columns})},
      ScatterAttrs{.axis = 1, .reduction = ScatterReduction::kAdd});
  const ir::ValueId inside =
      node.emit(OpKind::kSlice,
                {sums, node.constant_i64({0}), node.constant_i64({pixels}), node.constant_i64({1})},
                SliceAttrs{});
  SymShape result{shape[0], channels};
  result.insert(result.end(), image.begin(), image.end());
  node.set_output(0, node.reshape(inside, std::move(result)));
}

// ---- MaxUnpool

// Indices are those of the unpooled tensor, whose size the windows give; an output_shape adds zeros
// at the ends.
void translate_max_unpool(NodeContext& node) {
  const ir::ValueId x = node.input(0), indices = node.input(1);
  const SymShape shape = node.shape(x);
  if (shape.size() < 3)
    node.fail("input 0 has shape " + str(shape) + "; expected [N, C, spatial...]");
  const size_t axes = shape.size() - 2;
  if (node.rank(indices) != node.rank(x))
    node.fail("the indices of shape " + str(node.shape(indices)) + " are not those of " +
              str(shape));
  if (!node.attrs().has("kernel_shape")) node.fail("attribute 'kernel_shape' is missing");
  const Shape kernel = window_list(node, "kernel_shape", axes, 1, 1);
  const Shape strides = window_list(node, "strides", axes, 1, 1);
  const Shape pads = window_list(node, "pads", 2 * axes, 0, 0);
  SymShape unpooled{shape[0], shape[1]};
  for (size_t i = 0; i < axes; ++i)
    unpooled.push_back((shape[i + 2] - Dim(1)) * Dim(strides[i]) +
                       Dim(kernel[i] - pads[i] - pads[axes + i]));
  const Dim count = product(shape), total = product(unpooled);
  const ir::ValueId flat = node.emit(OpKind::kScatterElements,
                                     {zeros(node, node.dtype(x), {total}),
                                      node.reshape(indices, {count}), node.reshape(x, {count})},
                                     ScatterAttrs{});
  const ir::ValueId y = node.reshape(flat, unpooled);
  if (!node.has_input(2)) return node.set_output(0, y);
  const std::vector<int64_t> wanted = list_input(node, 2);
  if (wanted.size() != shape.size())
    node.fail("the output_shape " + str(Shape(wanted)) + " is not of rank " +
              std::to_string(shape.size()));
  std::vector<int64_t> ends(2 * wanted.size(), 0);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto added = (Dim(wanted[i]) - unpooled[i]).as_constant();
    if (!added) node.unsupported("axis " + std::to_string(i) + " of its input is not fixed");
    if (*added < 0)
      node.fail("the output_shape " + str(Shape(wanted)) + " is smaller than " + str(unpooled) +
                ", which the windows give");
    ends[wanted.size() + i] = *added;
  }
  node.set_output(0, node.emit(OpKind::kPad, {y, node.constant_i64(std::move(ends))}, PadAttrs{}));
}

// ---- AffineGrid

// Of `count` places along an axis from -1 to 1; without `at_corners` the middles of equal parts.
double place_of(int64_t at, int64_t count, bool at_corners) {
  const auto k = static_cast<double>(at), n = static_cast<double>(count);
  if (!at_corners) return (2 * k + 1) / n - 1;
  return count == 1 ? 0 : 2 * k / (n - 1) - 1;
}

// (x, y, 1) or (x, y, z, 1) of every place, [places, axes + 1], times theta [N, axes, axes + 1].
void translate_affine_grid(NodeContext& node) {
  const ir::ValueId theta = node.input(0);
  const SymShape shape = node.shape(theta);
  const std::vector<int64_t> size = list_input(node, 1);
  const bool at_corners = node.attrs().flag("align_corners", 0);
  if (size.size() != 4 && size.size() != 5)
    node.fail("input 1 has " + std::to_string(size.size()) +
              " sizes; expected [N, C, H, W] or [N, C, D, H, W]");
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  if (shape.size() != 3 || equal(shape[0], size[0]) == false || equal(shape[1], axes) == false ||
      equal(shape[2], axes + 1) == false)
    node.fail("input 0 has shape " + str(shape) + "; expected " +
              str(Shape{size[0], axes, axes + 1}));
  const Shape sizes(size.begin() + 2, size.end());
  for (const int64_t s : sizes)
    if (s < 0 || s > INT32_MAX) node.fail("the size " + str(Shape(size)) + " is not valid");
  require_fewer(node, sizes, {axes + 1});
  std::vector<double> base;
  for (int64_t flat = 0; flat < num_elems(sizes); ++flat) {
    int64_t rest = flat;
    for (size_t i = sizes.size(); i-- > 0; rest /= sizes[i])
      base.push_back(place_of(rest % sizes[i], sizes[i], at_corners));
    base.push_back(1);
  }
  const ir::ValueId places = node.constant(
      Tensor::from(node.dtype(theta), {num_elems(sizes), axes + 1}, std::span<const double>(base)));
  const ir::ValueId grid = node.emit(OpKind::kMatMul, {places, node.transpose(theta, {0, 2, 1})});
  SymShape result{shape[0]};
  result.insert(result.end(), sizes.begin(), sizes.end());
  result.emplace_back(axes);
  node.set_output(0, node.reshape(grid, std::move(result)));
}

// ---- DeformConv

/// x [N, C, H, W] in groups of channels that share their offsets; its windows.
struct DeformSizes {
  Dim batch, channels;
  int64_t group = 1, offset_group = 1;
  int64_t height = 0, width = 0, taps = 0, places = 0;
  Windows windows = {};
};

DeformSizes deform_sizes(NodeContext& node) {
  const SymShape shape = node.shape(node.input(0)), kernel = node.shape(node.input(1));
  if (shape.size() != 4 || kernel.size() != 4)
    node.unsupported("its input of shape " + str(shape) + " is not an image [N, C, H, W]");
  const auto height = shape[2].as_constant(), width = shape[3].as_constant();
  const auto rows = kernel[2].as_constant(), cols = kernel[3].as_constant();
  if (!height || !width || !rows || !cols)
    node.unsupported("the size of its image " + str(shape) + " is not fixed");
  if (*height < 1 || *width < 1 || *rows < 1 || *cols < 1)
    node.fail("the image " + str(shape) + " or the weights " + str(kernel) + " are empty");
  DeformSizes s{shape[0], shape[1]};
  s.group = node.attrs().integer("group", 1);
  s.offset_group = node.attrs().integer("offset_group", 1);
  if (s.group < 1 || s.offset_group < 1)
    node.fail("group is " + std::to_string(s.group) + " and offset_group " +
              std::to_string(s.offset_group) + "; expected 1 or more");
  if (const auto given = node.attrs().integers("kernel_shape");
      !given.empty() && given != std::vector<int64_t>{*rows, *cols})
    node.fail("attribute 'kernel_shape' is " + str(Shape(given)) + "; the weights have " +
              str(kernel));
  s.height = *height;
  s.width = *width;
  s.windows = read_windows(node, {*height, *width}, {*rows, *cols});
  require_fewer(node, s.windows.count, s.windows.kernel);
  s.taps = *rows * *cols;
  s.places = s.windows.count[0] * s.windows.count[1];
  const SymShape& offset = node.shape(node.input(2));
  const SymShape expected{s.batch, Dim(s.offset_group) * Dim(2 * s.taps), s.windows.count[0],
                          s.windows.count[1]};
  bool fits = offset.size() == expected.size();
  for (size_t i = 0; fits && i < expected.size(); ++i)
    fits = equal(offset[i], expected[i]) != false;
  if (!fits) node.fail("the offsets have shape " + str(offset) + "; expected " + str(expected));
  return s;
}

// Where the taps are read, as GridSample counts: [N·offset groups, taps, places, (x, y)].
//   2·(position + offset) / size + 1 / size − 1
ir::ValueId deform_grid(NodeContext& node, const DeformSizes& s) {
  ir::ValueId offset = node.input(2);
  if (node.dtype(offset) != DType::kF32 && node.dtype(offset) != DType::kF64)
    offset = node.emit(OpKind::kCast, {offset}, CastAttrs{.to = DType::kF32});
  const DType type = node.dtype(offset);
  const ir::ValueId rows_first =
      node.reshape(offset, {s.batch * Dim(s.offset_group), s.taps, 2, s.places});
  const ir::ValueId cols_first = node.emit(
      OpKind::kGather, {node.transpose(rows_first, {0, 1, 3, 2}), node.constant_i64({1, 0})},
      AxisAttrs{3});
  const auto height = static_cast<double>(s.height), width = static_cast<double>(s.width);
  const std::array<double, 2> scale{2 / width, 2 / height};
  std::vector<double> base;
  for_each_tap(s.windows, [&](const Shape& position) {
    base.push_back((2 * static_cast<double>(position[1]) + 1) / width - 1);
    base.push_back((2 * static_cast<double>(position[0]) + 1) / height - 1);
  });
  const auto constant = [&](Shape shape, std::span<const double> numbers) {
    return node.constant(Tensor::from(type, std::move(shape), numbers));
  };
  const ir::ValueId scaled = node.emit(OpKind::kMul, {cols_first, constant({2}, scale)});
  return node.emit(OpKind::kAdd, {scaled, constant({s.taps, s.places, 2}, base)});
}

// Samples of x at the taps, times the mask, times the weights group by group:
//   [N, group, C/group·taps, places], [group, M/group, C/group·taps] -> [N, M, rows, cols]
void translate_deform_conv(NodeContext& node) {
  const ir::ValueId x = node.input(0), weights = node.input(1);
  const DeformSizes s = deform_sizes(node);
  const SymShape kernel = node.shape(weights);
  const Dim planes = s.batch * Dim(s.offset_group), inputs = kernel[1] * Dim(s.taps);
  const ir::ValueId image =
      node.reshape(x, {planes, floordiv(s.channels, Dim(s.offset_group)), s.height, s.width});
  ir::ValueId samples =
      node.emit(OpKind::kGridSample, {image, deform_grid(node, s)}, GridSampleAttrs{});
  if (const ir::ValueId mask = node.optional_input(4); mask != ir::kNoValue)
    samples = node.emit(OpKind::kMul, {samples, node.reshape(mask, {planes, 1, s.taps, s.places})});
  const ir::ValueId columns = node.reshape(samples, {s.batch, s.group, inputs, s.places});
  const ir::ValueId matrices =
      node.reshape(weights, {s.group, floordiv(kernel[0], Dim(s.group)), inputs});
  ir::ValueId y = node.emit(OpKind::kMatMul, {matrices, columns});
  y = node.reshape(y, {s.batch, kernel[0], s.windows.count[0], s.windows.count[1]});
  if (const ir::ValueId bias = node.optional_input(3); bias != ir::kNoValue)
    y = node.emit(OpKind::kAdd, {y, node.reshape(bias, {kernel[0], 1, 1})});
  node.set_output(0, y);
}

constexpr std::array kRows{
    Translation{"", "Col2Im", 18, translate_col2im},
    Translation{"", "MaxUnpool", 9, translate_max_unpool},
    Translation{"", "AffineGrid", 20, translate_affine_grid},
    Translation{"", "DeformConv", 19, translate_deform_conv},
};

}  // namespace

std::span<const Translation> spatial_translations() { return kRows; }

}  // namespace vernier::onnx
