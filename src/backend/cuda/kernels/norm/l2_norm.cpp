// cuda.l2_norm.rows: the rows of l2_norm.cu. Contract: L2NormAttrs in core/attrs.h. f32, f16, bf16
// and f64 in any mix; rows of x with any outer strides.
#include "backend/cuda/kernels/norm/l2_norm.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/lines.h"

namespace vernier::backend::cuda {
namespace {

struct RowState final : ShapeState {
  L2NormLaunch launch;
};

Support supports(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  for (DType t : {x.dtype, y.dtype}) {
    if (t != DType::kF64 && t != DType::kF32 && !is_16_bit_float(t))
      return no("no loop for " + std::string(name(t)));
  }
  if (x.shape.size() > kMaxRank) return no("more than 10 axes");
  return yes();
}

Numerics numerics_of(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  numerics.accumulate = DType::kF64;
  const bool is_wide =
      problem.inputs[0].dtype == DType::kF64 || problem.outputs[0].dtype == DType::kF64;
  if (is_wide) numerics.compute = numerics.inner = DType::kF64;
  return numerics;
}

std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  const TensorArg& out = call.out[0];
  auto state = std::make_unique<RowState>();
  L2NormLaunch& launch = state->launch;
  launch.x_rows = row_index(call.in[0], out, out.rank - 1);
  launch.rows = elems_between(out, 0, out.rank - 1);
  launch.cols = out.dim(-1);
  launch.minimum = decode<L2NormAttrs>(call.attrs).minimum;
  check_lines(launch.rows, launch.cols, "an array to normalize");
  return state;
}

void launch_rows(const LaunchCall& call) {
  L2NormLaunch launch = static_cast<const RowState&>(*call.shape_state).launch;
  launch.x = any_array(call.in, 0);
  launch.y = any_array(call.out, 0);
  const std::array arrays{float_array(call.in, 0), float_array(call.out, 0)};
  launch.type = common_type(arrays);
  const int64_t lanes = common_lanes(arrays);
  launch.is_aligned = launch.cols % lanes == 0 && is_aligned(arrays[0], launch.x_rows, lanes) &&
                      is_aligned(arrays[1], lanes);
  check_cuda(launch_l2_norm(launch, stream_of(call.execution)), "L2Norm");
}

}  // namespace

extern const KernelBody l2_norm_rows;
constexpr KernelBody l2_norm_rows{
    .supports = &supports,
    .numerics = &numerics_of,
    .strided_inputs = 1,
    .prepare = &prepare,
    .launch = &launch_rows,
};

}  // namespace vernier::backend::cuda
