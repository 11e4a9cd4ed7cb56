// Rows of kernels.def that make patterns or keep parts: OneHot, Range, ConstantOfShape, EyeLike,
// Shape, Size, Trilu, ReverseSequence. Kernels in patterns.cu and copy.cu.
#include "backend/cuda/kernels/movement/patterns.h"

#include <algorithm>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/movement/copy.h"

namespace vernier::backend::cuda {
namespace {

/// The bytes of `value` in `type`, in the low end of a word.
uint64_t bits_of(DType type, double value) {
  uint64_t bits = 0;
  if (is_float(type))
    store_float(type, value, &bits);
  else
    store_integer(type, static_cast<int64_t>(value), &bits);
  return bits;
}

void launch_one_hot(const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  check_cuda(
      one_hot(
          {.indices = array_of(call.in[0]),
           .values = array_of(call.in[2]),
           .y = array_of(y),
           .axis = static_cast<int>(positive_axis(decode<OneHotAttrs>(call.attrs).axis, y.rank))},
          stream_of(call.execution)),
      "OneHot");
}
Support supports_one_hot(const Problem& problem) {
  const DType indices = problem.inputs[0].dtype;
  if (is_float(indices) && indices != DType::kF32 && !is_16_bit_float(indices))
    return no("indices are " + std::string(name(indices)));
  // The types of the values, whatever those of indices and depth.
  Problem values = problem;
  values.inputs[0].present = values.inputs[1].present = false;
  return movable(values);
}
Numerics one_hot_numerics(const Problem& problem) {
  Problem values = problem;
  values.inputs[0].present = values.inputs[1].present = false;
  return moving_numerics(values);
}

void launch_range(const LaunchCall& call) {
  check_cuda(range(array_of(call.in[0]), array_of(call.in[2]), array_of(call.out[0]),
                   stream_of(call.execution)),
             "Range");
}
Support supports_range(const Problem& problem) {
  const DType type = problem.outputs[0].dtype;
  if (is_float(type) && type != DType::kF64) return all_up_to_f32(problem);
  return one_float_type(problem);
}

void launch_constant_of_shape(const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  const double value = attrs_of<ConstantOfShapeAttrs>(call.state).value;
  check_cuda(fill_elements(y.data, y.elems(), bits_of(y.dtype, value), width_of(y.dtype),
                           stream_of(call.execution)),
             "ConstantOfShape");
}

void launch_eye_like(const LaunchCall& call) {
  const TensorArg& y = call.out[0];
  check_cuda(eye_like(array_of(y), decode<EyeLikeAttrs>(call.attrs).k, bits_of(y.dtype, 1),
                      stream_of(call.execution)),
             "EyeLike");
}

// Sizes are known on the host: they go to the device in the launch.
void launch_shape(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  const auto attrs = decode<ShapeOfAttrs>(call.attrs);
  const int64_t first = attrs.start < 0 ? attrs.start + x.rank : attrs.start;
  SizesLaunch sizes{.count = static_cast<int>(y.elems()), .sizes = {}};
  for (int i = 0; i < sizes.count; ++i)
    sizes.sizes[i] = x.dim(static_cast<int>(std::clamp<int64_t>(first, 0, x.rank)) + i);
  check_cuda(store_sizes(sizes, array_of(y), stream_of(call.execution)), "Shape");
}
void launch_size(const LaunchCall& call) {
  check_cuda(store_sizes({.count = 1, .sizes = {call.in[0].elems()}}, array_of(call.out[0]),
                         stream_of(call.execution)),
             "Size");
}

void launch_trilu(const LaunchCall& call) {
  check_cuda(keep_triangle({.x = array_of(call.in[0]),
                            .k = optional_array(call.in, 1),
                            .y = array_of(call.out[0]),
                            .upper = decode<TriluAttrs>(call.attrs).upper},
                           stream_of(call.execution)),
             "Trilu");
}
Support supports_trilu(const Problem& problem) {
  if (rank_of(problem.inputs[0]) < 2) return no("the input has no rows and columns");
  return one_float_type(problem);
}

void launch_reverse_sequence(const LaunchCall& call) {
  const auto attrs = decode<ReverseSequenceAttrs>(call.attrs);
  check_cuda(reverse_sequences({.x = array_of(call.in[0]),
                                .lengths = array_of(call.in[1]),
                                .y = array_of(call.out[0]),
                                .batch_axis = static_cast<int>(attrs.batch_axis),
                                .time_axis = static_cast<int>(attrs.time_axis)},
                               stream_of(call.execution)),
             "ReverseSequence");
}

Support supports_any_type(const Problem&) { return yes(); }

constexpr KernelBody body(void (*launch)(const LaunchCall&),
                          Support (*supports)(const Problem&) = &one_float_type) {
  return {.supports = supports, .numerics = &exact_numerics, .launch = launch};
}

}  // namespace

extern const KernelBody one_hot_direct, range_direct, constant_of_shape_fill, eye_like_direct,
    trilu_direct, reverse_sequence_direct, shape_direct, size_direct;
constexpr KernelBody one_hot_direct{
    .supports = &supports_one_hot,
    .numerics = &one_hot_numerics,
    .launch = &launch_one_hot,
};
constexpr KernelBody constant_of_shape_fill{
    .supports = &supports_any_type,
    .numerics = &exact_numerics,
    .create = &decode_once<ConstantOfShapeAttrs>,
    .launch = &launch_constant_of_shape,
};
constexpr KernelBody range_direct = body(&launch_range, &supports_range);
constexpr KernelBody eye_like_direct = body(&launch_eye_like, &supports_any_type);
constexpr KernelBody trilu_direct = body(&launch_trilu, &supports_trilu);
constexpr KernelBody shape_direct = body(&launch_shape, &supports_any_type);
constexpr KernelBody size_direct = body(&launch_size, &supports_any_type);
constexpr KernelBody reverse_sequence_direct = body(&launch_reverse_sequence);

}  // namespace vernier::backend::cuda
