// The pool rows of kernels.def; kernels in pool.cu. Contract: PoolAttrs in core/attrs.h; one to
// three spatial axes, global pools any number.
#include "backend/cuda/kernels/convolution/pool.h"

#include <limits>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/convolution/window_shape.h"

namespace vernier::backend::cuda {
namespace {

Support supports_average(const Problem& problem) {
  Support support = supports_spatial(problem);
  if (support && !is_float(problem.outputs[0].dtype)) return no("an average of integers");
  return support ? all_up_to_f32(problem) : support;
}
Support supports_max(const Problem& problem) {
  Support support = supports_spatial(problem);
  if (!support || !is_float(problem.outputs[0].dtype)) return support;
  return all_up_to_f32(problem);
}
Support supports_planes(const Problem& problem) {
  if (!is_float(problem.outputs[0].dtype)) return no("a pool of integers");
  return all_up_to_f32(problem);
}

// A type that all values have in common is moved; a mix rounds once.
Numerics max_numerics(const Problem& problem) {
  return one_float_type(problem) ? exact_numerics(problem) : f32_numerics(problem);
}

int64_t lowest_of(DType type) {
  if (!is_signed_integer(type)) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - 8 * static_cast<int>(size_bytes(type)));
}

template <bool kAverage>
void launch_windows(const LaunchCall& call) {
  const auto& attrs = attrs_of<PoolAttrs>(call.state);
  const TensorArg &x = call.in[0], &y = call.out[0];
  check_cuda(pool_windows({.x = x.data,
                           .y = y.data,
                           .x_type = x.dtype,
                           .y_type = y.dtype,
                           .planes = x.dim(0) * x.dim(1),
                           .windows = windows_of({attrs.kernel_shape, attrs.strides,
                                                  attrs.dilations, attrs.pads, attrs.auto_pad},
                                                 x, y),
                           .average = kAverage,
                           .count_include_pad = attrs.count_include_pad,
                           .lowest = lowest_of(x.dtype)},
                          stream_of(call.execution)),
             kAverage ? "AveragePool" : "MaxPool");
}

template <bool kAverage>
void launch_planes(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &y = call.out[0];
  check_cuda(pool_planes({.x = x.data,
                          .y = y.data,
                          .x_type = x.dtype,
                          .y_type = y.dtype,
                          .planes = x.dim(0) * x.dim(1),
                          .elems = elems_between(x, 2, x.rank),
                          .average = kAverage},
                         stream_of(call.execution)),
             kAverage ? "GlobalAveragePool" : "GlobalMaxPool");
}

}  // namespace

extern const KernelBody max_pool_windows, average_pool_windows, global_average_planes,
    global_max_planes;
constexpr KernelBody max_pool_windows{
    .supports = &supports_max,
    .numerics = &max_numerics,
    .create = &decode_once<PoolAttrs>,
    .launch = &launch_windows<false>,
};
constexpr KernelBody average_pool_windows{
    .supports = &supports_average,
    .numerics = &f32_numerics,
    .create = &decode_once<PoolAttrs>,
    .launch = &launch_windows<true>,
};
constexpr KernelBody global_average_planes{
    .supports = &supports_planes,
    .numerics = &f32_numerics,
    .launch = &launch_planes<true>,
};
constexpr KernelBody global_max_planes{
    .supports = &supports_planes,
    .numerics = &max_numerics,
    .launch = &launch_planes<false>,
};

}  // namespace vernier::backend::cuda
