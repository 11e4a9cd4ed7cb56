// Kernels that only move elements by strided copies (copy.h): Transpose, Expand, Reshape, Squeeze,
// Unsqueeze, Flatten, Slice, Split, Concat, Tile, Pad, DepthToSpace, SpaceToDepth. Contract of
// each: its attributes in core/attrs.h. Any type; outputs are dense; bits are moved unchanged.
#include <algorithm>

#include "backend/cpu/index.h"
#include "backend/cpu/kernels/movement/copy.h"
#include "core/axis_ranges.h"

namespace vernier::backend::cpu {
namespace {

// Axes of `out` in order with its dense strides; source strides are the caller's.
class AxisList {
 public:
  void add(CopyAxis axis) { axes_[count_++] = axis; }
  std::span<const CopyAxis> span() const { return {axes_.data(), static_cast<size_t>(count_)}; }

 private:
  std::array<CopyAxis, kMaxCopyAxes> axes_;
  int count_ = 0;
};

struct CopyEnds {
  const std::byte* src;
  std::byte* dst;
};
void copy(const LaunchCall& call, const CopyEnds& ends, const AxisList& axes) {
  copy_strided({.src = ends.src,
                .dst = ends.dst,
                .axes = axes.span(),
                .elem_bytes = size_bytes(given(call.out[0]) ? call.out[0].dtype : call.in[0].dtype),
                .threads = call.execution.threads});
}

void launch_transpose(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const auto& perm = attrs_of<TransposeAttrs>(call.state).perm;
  AxisList axes;
  for (int i = 0; i < y.rank; ++i) {
    const auto from = static_cast<int>(positive_axis(perm[i], x.rank));
    axes.add({y.dim(i), x.stride(from), y.stride(i)});
  }
  copy(call, {x.data, y.data}, axes);
}

void launch_expand(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  AxisList axes;
  for (int i = 0; i < y.rank; ++i) {
    axes.add({y.dim(i), broadcast_stride(x, i, y.rank), y.stride(i)});
  }
  copy(call, {x.data, y.data}, axes);
}

// Same elements in row-major order under another shape; the source may have gaps.
void launch_reshape(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  AxisList axes;
  int64_t step = 1;
  std::array<int64_t, kMaxRank> dense{};
  for (int i = x.rank - 1; i >= 0; --i) {
    dense[i] = step;
    step *= x.dim(i);
  }
  for (int i = 0; i < x.rank; ++i) axes.add({x.dim(i), x.stride(i), dense[i]});
  copy(call, {x.data, call.out[0].data}, axes);
}

int64_t index_at(const TensorArg& t, int64_t i) {
  return load_integer(t.dtype, t.data + i * (t.rank == 0 ? 0 : t.stride(0)) *
                                            static_cast<int64_t>(size_bytes(t.dtype)));
}

// The range of every axis that the attributes or the inputs select.
std::array<AxisSlice, kMaxRank> slices_of(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  const auto& attrs = attrs_of<SliceAttrs>(call.state);
  std::array<AxisSlice, kMaxRank> slices;
  const int64_t count =
      attrs.inline_starts ? static_cast<int64_t>(attrs.starts.size()) : call.in[1].elems();
  for (int64_t i = 0; i < count; ++i) {
    const auto k = static_cast<size_t>(i);
    int64_t axis = i;
    AxisSlice slice;
    if (attrs.inline_starts) {
      axis = positive_axis(attrs.axes[k], x.rank);
      slice = {attrs.starts[k], attrs.steps[k]};
    } else {
      slice.start = index_at(call.in[1], i);
      if (given(call.in, 3)) axis = read_axis(call.in[3], i, x, "Slice");
      if (given(call.in, 4)) slice.step = index_at(call.in[4], i);
    }
    slices[axis] = slice_from(slice, x.dim(static_cast<int>(axis)));
  }
  return slices;
}

void launch_slice(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  if (y.elems() == 0) return;
  const std::array<AxisSlice, kMaxRank> slices = slices_of(call);
  int64_t first = 0;
  AxisList axes;
  for (int i = 0; i < y.rank; ++i) {
    const auto axis = static_cast<size_t>(i);
    const AxisSlice& slice = slices[axis];
    check_slice(slice, {axis, x.dim(i), y.dim(i)});
    first += slice.start * x.stride(i);
    axes.add({y.dim(i), y.dim(i) > 1 ? x.stride(i) * slice.step : 0, y.stride(i)});
  }
  const auto width = static_cast<int64_t>(size_bytes(x.dtype));
  copy(call, {x.data + first * width, y.data}, axes);
}

int64_t part_size(const LaunchCall& call, const SplitAttrs& attrs, size_t part, int64_t left) {
  if (!attrs.sizes.empty()) return attrs.sizes[part];
  if (given(call.in, 1)) return index_at(call.in[1], static_cast<int64_t>(part));
  const auto axis = static_cast<int>(positive_axis(attrs.axis, call.in[0].rank));
  const auto parts = static_cast<int64_t>(call.out.size());
  return std::min(left, (call.in[0].dim(axis) + parts - 1) / parts);
}

void launch_split(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  const auto& attrs = attrs_of<SplitAttrs>(call.state);
  const auto axis = static_cast<int>(positive_axis(attrs.axis, x.rank));
  const auto width = static_cast<int64_t>(size_bytes(x.dtype));
  int64_t first = 0;
  for (size_t part = 0; part < call.out.size(); ++part) {
    const int64_t size = part_size(call, attrs, part, x.dim(axis) - first);
    const TensorArg& y = call.out[part];
    const bool wanted = given(y);
    check_part({first, size},
               {static_cast<size_t>(axis), x.dim(axis), wanted ? y.dim(axis) : size});
    if (y.data != nullptr) {
      AxisList axes;
      for (int i = 0; i < y.rank; ++i) axes.add({y.dim(i), x.stride(i), y.stride(i)});
      copy(call, {x.data + first * x.stride(axis) * width, y.data}, axes);
    }
    first += size;
  }
}

void launch_concat(const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  const auto axis = static_cast<int>(positive_axis(decode<AxisAttrs>(call.attrs).axis, y.rank));
  const auto width = static_cast<int64_t>(size_bytes(y.dtype));
  int64_t first = 0;
  for (const TensorArg& x : call.in) {
    AxisList axes;
    for (int i = 0; i < x.rank; ++i) axes.add({x.dim(i), x.stride(i), y.stride(i)});
    copy(call, {x.data, y.data + first * y.stride(axis) * width}, axes);
    first += x.rank == 0 ? 1 : x.dim(axis);  // scalars join a list
  }
}

// Each axis of the output is (repeats, size): repeats read the source again.
void launch_tile(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  AxisList axes;
  for (int i = 0; i < y.rank; ++i) {
    if (x.dim(i) == 0) return;
    axes.add({y.dim(i) / x.dim(i), 0, y.stride(i) * x.dim(i)});
    axes.add({x.dim(i), x.stride(i), y.stride(i)});
  }
  copy(call, {x.data, y.data}, axes);
}

// The pads of every axis; they must give the output's sizes.
std::array<AxisPadding, kMaxRank> paddings_of(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  std::array<AxisPadding, kMaxRank> paddings;
  const bool some_axes = given(call.in, 3);
  const int64_t count = some_axes ? call.in[3].elems() : x.rank;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t axis = some_axes ? read_axis(call.in[3], i, x, "Pad") : i;
    paddings[axis] = {index_at(call.in[1], i), index_at(call.in[1], count + i)};
  }
  for (int i = 0; i < x.rank; ++i) {
    const auto axis = static_cast<size_t>(i);
    check_padding(paddings[axis], {axis, x.dim(i), call.out[0].dim(i)});
  }
  return paddings;
}

void launch_pad(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  if (y.elems() == 0) return;
  const std::array<AxisPadding, kMaxRank> paddings = paddings_of(call);
  const size_t width = size_bytes(y.dtype);
  constexpr std::array<std::byte, 8> kZero{};
  const std::byte* element = given(call.in, 2) ? call.in[2].data : kZero.data();
  fill_elements(y.data, y.elems(), element, width);
  // Negative padding removes elements: copy the part of x that is inside y.
  AxisList axes;
  int64_t from = 0, to = 0;
  for (int i = 0; i < y.rank; ++i) {
    const int64_t begin = paddings[i].begin;
    const int64_t first = std::max<int64_t>(0, -begin);
    const int64_t size = std::min(x.dim(i) - first, y.dim(i) - std::max<int64_t>(0, begin));
    if (size <= 0) return;  // no element of x is left
    from += first * x.stride(i);
    to += std::max<int64_t>(0, begin) * y.stride(i);
    axes.add({size, x.stride(i), y.stride(i)});
  }
  const auto bytes = static_cast<int64_t>(width);
  copy(call, {x.data + from * bytes, y.data + to * bytes}, axes);
}
Support supports_pad(const Problem& problem) {
  if (problem.attrs_as<PadAttrs>().mode != PadMode::kConstant)
    return no("only constant padding is supported");
  return one_float_type(problem);
}

// [N, C·b·b, H, W] → [N, C, H·b, W·b]; the channel axis is (b, b, C), or (C, b, b) with crd.
void launch_depth_to_space(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const auto attrs = decode<BlockSizeAttrs>(call.attrs);
  const int64_t b = attrs.block_size, channels = y.dim(1), depth = x.stride(1);
  const int64_t channel_step = attrs.crd ? b * b : 1, block_step = attrs.crd ? 1 : channels;
  AxisList axes;
  axes.add({y.dim(0), x.stride(0), y.stride(0)});
  axes.add({channels, channel_step * depth, y.stride(1)});
  axes.add({x.dim(2), x.stride(2), y.stride(2) * b});
  axes.add({b, b * block_step * depth, y.stride(2)});
  axes.add({x.dim(3), x.stride(3), y.stride(3) * b});
  axes.add({b, block_step * depth, y.stride(3)});
  copy(call, {x.data, y.data}, axes);
}

void launch_space_to_depth(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const auto attrs = decode<BlockSizeAttrs>(call.attrs);
  const int64_t b = attrs.block_size, channels = x.dim(1), depth = y.stride(1);
  const int64_t channel_step = attrs.crd ? b * b : 1, block_step = attrs.crd ? 1 : channels;
  AxisList axes;
  axes.add({y.dim(0), x.stride(0), y.stride(0)});
  axes.add({channels, x.stride(1), channel_step * depth});
  axes.add({y.dim(2), x.stride(2) * b, y.stride(2)});
  axes.add({b, x.stride(2), b * block_step * depth});
  axes.add({y.dim(3), x.stride(3) * b, y.stride(3)});
  axes.add({b, x.stride(3), block_step * depth});
  copy(call, {x.data, y.data}, axes);
}

constexpr KernelBody body(void (*launch)(const LaunchCall&), uint32_t strided_inputs,
                          decltype(KernelBody::create) create = nullptr) {
  return {.supports = &one_float_type,
          .numerics = &exact_numerics,
          .strided_inputs = strided_inputs,
          .create = create,
          .launch = launch};
}

}  // namespace

extern const KernelBody transpose_copy, expand_copy, reshape_copy, slice_copy, split_copy,
    concat_copy, tile_copy, pad_copy, depth_to_space_copy, space_to_depth_copy;
constexpr KernelBody transpose_copy = body(&launch_transpose, 1, &decode_once<TransposeAttrs>);
constexpr KernelBody expand_copy = body(&launch_expand, 1);
constexpr KernelBody reshape_copy = body(&launch_reshape, 1);
constexpr KernelBody slice_copy = body(&launch_slice, 1, &decode_once<SliceAttrs>);
constexpr KernelBody split_copy = body(&launch_split, 1, &decode_once<SplitAttrs>);
constexpr KernelBody concat_copy = body(&launch_concat, kAllStrided);
constexpr KernelBody tile_copy = body(&launch_tile, 1);
constexpr KernelBody depth_to_space_copy = body(&launch_depth_to_space, 1);
constexpr KernelBody space_to_depth_copy = body(&launch_space_to_depth, 1);
constexpr KernelBody pad_copy{
    .supports = &supports_pad,
    .numerics = &exact_numerics,
    .strided_inputs = 1,
    .launch = &launch_pad,
};

}  // namespace vernier::backend::cpu
