// The Gather, GatherElements and GatherND rows of kernels.def; kernels in gather.cu.
#include "backend/cuda/kernels/movement/gather.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

Support supports_gather(const Problem& problem) {
  const DType indices = problem.inputs[1].dtype;
  if (!is_integer(indices)) return no("indices are " + std::string(name(indices)));
  return one_float_type(problem);
}

GatherLaunch arguments(const LaunchCall& call, int64_t axis, int64_t batch_dims) {
  return {.data = array_of(call.in[0]),
          .indices = array_of(call.in[1]),
          .y = array_of(call.out[0]),
          .axis = static_cast<int>(positive_axis(axis, call.in[0].rank)),
          .batch_dims = static_cast<int>(batch_dims)};
}

void launch_gather(const LaunchCall& call) {
  check_cuda(gather_rows(arguments(call, decode<AxisAttrs>(call.attrs).axis, 0),
                         stream_of(call.execution)),
             "Gather");
}
void launch_gather_elements(const LaunchCall& call) {
  check_cuda(gather_elements(arguments(call, decode<AxisAttrs>(call.attrs).axis, 0),
                             stream_of(call.execution)),
             "GatherElements");
}
void launch_gather_nd(const LaunchCall& call) {
  check_cuda(gather_tuples(arguments(call, 0, decode<GatherNDAttrs>(call.attrs).batch_dims),
                           stream_of(call.execution)),
             "GatherND");
}

}  // namespace

extern const KernelBody gather_units, gather_elements_direct, gather_nd_direct;
constexpr KernelBody gather_units{
    .supports = &supports_gather,
    .numerics = &exact_numerics,
    .launch = &launch_gather,
};
constexpr KernelBody gather_elements_direct{
    .supports = &supports_gather,
    .numerics = &exact_numerics,
    .launch = &launch_gather_elements,
};
constexpr KernelBody gather_nd_direct{
    .supports = &supports_gather,
    .numerics = &exact_numerics,
    .launch = &launch_gather_nd,
};

}  // namespace vernier::backend::cuda
