// Kernels that only move elements, all of them strided copies (copy.h): Identity, Reshape and its
// kin, Transpose, Expand, Slice, Split, Concat, Tile, DepthToSpace, SpaceToDepth. Contract of each:
// its attributes in core/attrs.h. Any type, input 0 with any strides (Concat: all inputs); outputs
// are dense. Bits are moved unchanged; an input that is held in another float type than its output
// is rounded to it once.
#include <algorithm>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/movement/copy.h"
#include "backend/cuda/kernels/movement/window_copy.h"
#include "core/axis_ranges.h"

namespace vernier::backend::cuda {
namespace {

/// A copy from x + `from` elements to y + `to` elements, without axes yet.
StridedCopy copy_between(const TensorArg& x, int64_t from, const TensorArg& y, int64_t to) {
  const int width = width_of(y.dtype);
  return {.src = x.data + from * width_of(x.dtype),
          .dst = y.data + to * width,
          .src_type = x.dtype,
          .dst_type = y.dtype,
          .elem_bytes = width,
          .count = 0,
          .axes = {}};
}
void run(const LaunchCall& call, const StridedCopy& copy, const char* what) {
  check_cuda(copy_strided(copy, stream_of(call.execution)), what);
}

void launch_transpose(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const auto& perm = attrs_of<TransposeAttrs>(call.state).perm;
  StridedCopy copy = copy_between(x, 0, y, 0);
  for (int i = 0; i < y.rank; ++i) {
    const auto from = static_cast<int>(positive_axis(perm[i], x.rank));
    copy.add({y.dim(i), x.stride(from), y.stride(i)});
  }
  run(call, copy, "Transpose");
}

void launch_expand(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  StridedCopy copy = copy_between(x, 0, y, 0);
  for (int i = 0; i < y.rank; ++i) {
    copy.add({y.dim(i), broadcast_stride(x, i, y.rank), y.stride(i)});
  }
  run(call, copy, "Expand");
}

// Same elements in row-major order under another shape; the source may have gaps.
void launch_reshape(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  StridedCopy copy = copy_between(x, 0, call.out[0], 0);
  int64_t step = 1;
  for (int i = x.rank - 1; i >= 0; --i) {
    copy.add({x.dim(i), x.stride(i), step});
    step *= x.dim(i);
  }
  run(call, copy, "Reshape");
}

// Inline starts are strides and an offset; others are read on the device.
void launch_slice(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const auto& attrs = attrs_of<SliceAttrs>(call.state);
  if (!attrs.inline_starts) {
    check_cuda(copy_slice({.x = array_of(x),
                           .y = array_of(y),
                           .starts = array_of(call.in[1]),
                           .axes = optional_array(call.in, 3),
                           .steps = optional_array(call.in, 4)},
                          stream_of(call.execution)),
               "Slice");
    return;
  }
  if (y.elems() == 0) return;
  std::array<AxisSlice, kMaxRank> slices;
  for (size_t i = 0; i < attrs.starts.size(); ++i) {
    const auto axis = static_cast<int>(positive_axis(attrs.axes[i], x.rank));
    slices[axis] = slice_from({attrs.starts[i], attrs.steps[i]}, x.dim(axis));
  }
  int64_t first = 0;
  for (int i = 0; i < y.rank; ++i) {
    const auto axis = static_cast<size_t>(i);
    check_slice(slices[axis], {axis, x.dim(i), y.dim(i)});
    first += slices[axis].start * x.stride(i);
  }
  StridedCopy copy = copy_between(x, first, y, 0);
  for (int i = 0; i < y.rank; ++i) copy.add({y.dim(i), x.stride(i) * slices[i].step, y.stride(i)});
  run(call, copy, "Slice");
}

// ---- Split

Support supports_split(const Problem& problem) {
  const auto attrs = problem.attrs_as<SplitAttrs>();
  const bool unwanted =
      std::ranges::any_of(problem.outputs, [](const Operand& o) { return !o.present; });
  if (unwanted && attrs.sizes.empty() && problem.has_input(1))
    return no("the size of an unwanted part is known on the device only");
  return movable(problem);
}

int64_t part_size(const LaunchCall& call, const SplitAttrs& attrs, size_t part, int64_t left) {
  const auto axis = static_cast<int>(positive_axis(attrs.axis, call.in[0].rank));
  if (!attrs.sizes.empty()) return attrs.sizes[part];
  if (given(call.out[part])) return call.out[part].dim(axis);
  const auto parts = static_cast<int64_t>(call.out.size());
  return std::min(left, (call.in[0].dim(axis) + parts - 1) / parts);
}

void launch_split(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  const auto& attrs = attrs_of<SplitAttrs>(call.state);
  const auto axis = static_cast<int>(positive_axis(attrs.axis, x.rank));
  int64_t first = 0;
  for (size_t part = 0; part < call.out.size(); ++part) {
    const int64_t size = part_size(call, attrs, part, x.dim(axis) - first);
    const TensorArg& y = call.out[part];
    if (y.data != nullptr) {
      StridedCopy copy = copy_between(x, first * x.stride(axis), y, 0);
      for (int i = 0; i < y.rank; ++i) copy.add({y.dim(i), x.stride(i), y.stride(i)});
      run(call, copy, "Split");
    }
    first += size;
  }
}

// ---- Concat, Tile

void launch_concat(const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  const auto axis = static_cast<int>(positive_axis(decode<AxisAttrs>(call.attrs).axis, y.rank));
  int64_t first = 0;
  for (const TensorArg& x : call.in) {
    StridedCopy copy = copy_between(x, 0, y, first * y.stride(axis));
    // A scalar is a list of one.
    for (int i = 0; i < x.rank; ++i) copy.add({x.dim(i), x.stride(i), y.stride(i)});
    run(call, copy, "Concat");
    first += x.rank == 0 ? 1 : x.dim(axis);
  }
}

// Each axis of the output is (repeats, size): the repeats read the source again.
void launch_tile(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  StridedCopy copy = copy_between(x, 0, y, 0);
  for (int i = 0; i < y.rank; ++i) {
    if (x.dim(i) == 0) return;
    copy.add({y.dim(i) / x.dim(i), 0, y.stride(i) * x.dim(i)});
    copy.add({x.dim(i), x.stride(i), y.stride(i)});
  }
  run(call, copy, "Tile");
}

// ---- DepthToSpace, SpaceToDepth

/// How the long channel axis divides: (b, b, C), or (C, b, b) with crd.
struct DepthSteps {
  int64_t channel, block_row, block_col;
};
DepthSteps depth_steps(const BlockSizeAttrs& attrs, int64_t channels) {
  const int64_t b = attrs.block_size;
  if (attrs.crd) return {b * b, b, 1};
  return {1, b * channels, channels};
}

// [N, C·b·b, H, W] → [N, C, H·b, W·b]
void launch_depth_to_space(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const auto attrs = decode<BlockSizeAttrs>(call.attrs);
  const int64_t b = attrs.block_size, channels = y.dim(1), depth = x.stride(1);
  const DepthSteps steps = depth_steps(attrs, channels);
  StridedCopy copy = copy_between(x, 0, y, 0);
  copy.add({y.dim(0), x.stride(0), y.stride(0)});
  copy.add({channels, steps.channel * depth, y.stride(1)});
  copy.add({x.dim(2), x.stride(2), y.stride(2) * b});
  copy.add({b, steps.block_row * depth, y.stride(2)});
  copy.add({x.dim(3), x.stride(3), y.stride(3) * b});
  copy.add({b, steps.block_col * depth, y.stride(3)});
  run(call, copy, "DepthToSpace");
}

void launch_space_to_depth(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const auto attrs = decode<BlockSizeAttrs>(call.attrs);
  const int64_t b = attrs.block_size, channels = x.dim(1), depth = y.stride(1);
  const DepthSteps steps = depth_steps(attrs, channels);
  StridedCopy copy = copy_between(x, 0, y, 0);
  copy.add({y.dim(0), x.stride(0), y.stride(0)});
  copy.add({channels, x.stride(1), steps.channel * depth});
  copy.add({y.dim(2), x.stride(2) * b, y.stride(2)});
  copy.add({b, x.stride(2), steps.block_row * depth});
  copy.add({y.dim(3), x.stride(3) * b, y.stride(3)});
  copy.add({b, x.stride(3), steps.block_col * depth});
  run(call, copy, "SpaceToDepth");
}

// ---- Pad

void launch_pad(const LaunchCall& call) {
  check_cuda(copy_padded({.x = array_of(call.in[0]),
                          .y = array_of(call.out[0]),
                          .begins = array_of(call.in[1]),
                          .fill = optional_array(call.in, 2),
                          .axes = optional_array(call.in, 3),
                          .mode = static_cast<PadCopy::Mode>(decode<PadAttrs>(call.attrs).mode)},
                         stream_of(call.execution)),
             "Pad");
}
static_assert(static_cast<int>(PadMode::kConstant) == static_cast<int>(PadCopy::Mode::kConstant) &&
              static_cast<int>(PadMode::kReflect) == static_cast<int>(PadCopy::Mode::kReflect) &&
              static_cast<int>(PadMode::kEdge) == static_cast<int>(PadCopy::Mode::kEdge) &&
              static_cast<int>(PadMode::kWrap) == static_cast<int>(PadCopy::Mode::kWrap));

constexpr KernelBody body(void (*launch)(const LaunchCall&),
                          decltype(KernelBody::create) create = nullptr) {
  return {.supports = &movable,
          .numerics = &moving_numerics,
          .strided_inputs = 1,
          .create = create,
          .launch = launch};
}

}  // namespace

extern const KernelBody transpose_copy, expand_copy, reshape_copy, slice_copy, split_copy,
    concat_copy, tile_copy, pad_copy, depth_to_space_copy, space_to_depth_copy;
constexpr KernelBody transpose_copy = body(&launch_transpose, &decode_once<TransposeAttrs>);
constexpr KernelBody expand_copy = body(&launch_expand);
constexpr KernelBody reshape_copy = body(&launch_reshape);
constexpr KernelBody slice_copy = body(&launch_slice, &decode_once<SliceAttrs>);
constexpr KernelBody tile_copy = body(&launch_tile);
constexpr KernelBody depth_to_space_copy = body(&launch_depth_to_space);
constexpr KernelBody space_to_depth_copy = body(&launch_space_to_depth);
constexpr KernelBody split_copy{
    .supports = &supports_split,
    .numerics = &moving_numerics,
    .strided_inputs = 1,
    .create = &decode_once<SplitAttrs>,
    .launch = &launch_split,
};
constexpr KernelBody concat_copy{
    .supports = &movable,
    .numerics = &moving_numerics,
    .strided_inputs = kAllStrided,
    .launch = &launch_concat,
};
constexpr KernelBody pad_copy{
    .supports = &movable,
    .numerics = &moving_numerics,
    .strided_inputs = 1,
    .launch = &launch_pad,
};

}  // namespace vernier::backend::cuda
