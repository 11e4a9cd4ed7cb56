// cuda.{softmax,log_softmax,hardmax,lp_normalization}.lines: the rows of softmax.cu. Contract:
// AxisAttrs, LpNormAttrs in core/attrs.h. f32, f16 and bf16 in any mix, any axis, any strides.
#include "backend/cuda/kernels/norm/softmax.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/lines.h"

namespace vernier::backend::cuda {
namespace {

struct LineState final : ShapeState {
  LineLaunch launch;
};

Support supports(const Problem& problem) {
  if (problem.inputs[0].shape.size() > kMaxRank) return no("more than 10 axes");
  return all_up_to_f32(problem);
}
Support supports_lp(const Problem& problem) {
  const int64_t p = problem.attrs_as<LpNormAttrs>().p;
  if (p != 1 && p != 2) return no("p is neither 1 nor 2");
  return supports(problem);
}

std::unique_ptr<ShapeState> prepare(const PrepareCall& call, int64_t axis, LineKind kind) {
  auto state = std::make_unique<LineState>();
  const AxisLines x = lines_of(call.in[0], axis), y = lines_of(call.out[0], axis);
  LineLaunch& launch = state->launch;
  launch.x_lines = x.index;
  launch.y_lines = y.index;
  launch.lines = x.count;
  launch.size = x.size;
  launch.x_step = x.step;
  launch.y_step = y.step;
  launch.is_last_axis = positive_axis(axis, call.in[0].rank) == call.in[0].rank - 1;
  launch.kind = kind;
  return state;
}
template <LineKind kKind>
std::unique_ptr<ShapeState> prepare_axis(const PrepareCall& call) {
  return prepare(call, decode<AxisAttrs>(call.attrs).axis, kKind);
}
std::unique_ptr<ShapeState> prepare_lp(const PrepareCall& call) {
  const auto attrs = decode<LpNormAttrs>(call.attrs);
  return prepare(call, attrs.axis, attrs.p == 1 ? LineKind::kL1 : LineKind::kL2);
}

void launch(const LaunchCall& call) {
  LineLaunch launch = static_cast<const LineState&>(*call.shape_state).launch;
  launch.x = float_array(call.in, 0);
  launch.y = float_array(call.out, 0);
  const std::array arrays{launch.x, launch.y};
  launch.type = common_type(arrays);
  const int64_t lanes = common_lanes(arrays);
  launch.is_aligned = launch.size % lanes == 0 && is_aligned(launch.x, launch.x_lines, lanes) &&
                      is_aligned(launch.y, launch.y_lines, lanes);
  check_cuda(launch_lines(launch, stream_of(call.execution)), "normalizing lines");
}

}  // namespace

extern const KernelBody softmax_lines, log_softmax_lines, hardmax_lines, lp_norm_lines;
constexpr KernelBody softmax_lines{
    .supports = &supports,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_axis<LineKind::kSoftmax>,
    .launch = &launch,
};
constexpr KernelBody log_softmax_lines{
    .supports = &supports,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_axis<LineKind::kLogSoftmax>,
    .launch = &launch,
};
constexpr KernelBody hardmax_lines{
    .supports = &supports,
    .numerics = &exact_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_axis<LineKind::kHardmax>,
    .launch = &launch,
};
constexpr KernelBody lp_norm_lines{
    .supports = &supports_lp,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .prepare = &prepare_lp,
    .launch = &launch,
};

}  // namespace vernier::backend::cuda
