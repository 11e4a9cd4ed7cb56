// The ScatterElements and ScatterND rows of kernels.def; kernels in scatter.cu.
#include "backend/cuda/kernels/movement/scatter.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

static_assert(static_cast<int>(ScatterReduction::kNone) == static_cast<int>(Combine::kReplace) &&
              static_cast<int>(ScatterReduction::kAdd) == static_cast<int>(Combine::kAdd) &&
              static_cast<int>(ScatterReduction::kMul) == static_cast<int>(Combine::kMul) &&
              static_cast<int>(ScatterReduction::kMin) == static_cast<int>(Combine::kMin) &&
              static_cast<int>(ScatterReduction::kMax) == static_cast<int>(Combine::kMax));

bool replaces(const Problem& problem) {
  return problem.attrs_as<ScatterAttrs>().reduction == ScatterReduction::kNone;
}

Support supports_scatter(const Problem& problem) {
  const DType indices = problem.inputs[1].dtype, type = problem.outputs[0].dtype;
  if (!is_integer(indices)) return no("indices are " + std::string(name(indices)));
  if (replaces(problem) || !is_float(type)) return movable(problem);
  return all_up_to_f32(problem);
}

Numerics scatter_numerics(const Problem& problem) {
  return replaces(problem) ? moving_numerics(problem) : f32_numerics(problem);
}

template <bool kTuples>
std::unique_ptr<ShapeState> prepare_scatter(const PrepareCall& call) {
  const int64_t marks = scatter_mark_count(array_of(call.in[0]), array_of(call.in[1]), kTuples);
  return workspace_only(static_cast<size_t>(marks) * sizeof(int64_t));
}

template <bool kTuples>
void launch_scatter(const LaunchCall& call) {
  const auto attrs = decode<ScatterAttrs>(call.attrs);
  const int axis = static_cast<int>(positive_axis(attrs.axis, call.in[0].rank));
  check_cuda(scatter({.data = array_of(call.in[0]),
                      .indices = array_of(call.in[1]),
                      .updates = array_of(call.in[2]),
                      .y = array_of(call.out[0]),
                      .axis = kTuples ? 0 : axis,
                      .tuples = kTuples,
                      .combine = static_cast<Combine>(attrs.reduction),
                      .marks = reinterpret_cast<int64_t*>(call.workspace)},
                     stream_of(call.execution)),
             kTuples ? "ScatterND" : "ScatterElements");
}

}  // namespace

extern const KernelBody scatter_elements_ordered, scatter_nd_ordered;
constexpr KernelBody scatter_elements_ordered{
    .supports = &supports_scatter,
    .numerics = &scatter_numerics,
    .prepare = &prepare_scatter<false>,
    .launch = &launch_scatter<false>,
};
constexpr KernelBody scatter_nd_ordered{
    .supports = &supports_scatter,
    .numerics = &scatter_numerics,
    .prepare = &prepare_scatter<true>,
    .launch = &launch_scatter<true>,
};

}  // namespace vernier::backend::cuda
