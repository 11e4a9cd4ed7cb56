// cuda.quantize_rows.rows: quantize_rows.cu. x f32, f16 or bf16, rows with any outer strides.
#include "backend/cuda/kernels/elementwise/quantize_rows.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/elementwise/quantize_rows_step.h"
#include "backend/cuda/lines.h"
#include "backend/supports.h"

namespace vernier::backend::cuda {
namespace {

struct RowState final : ShapeState {
  QuantizeRowsLaunch launch;
};

Support supports(const Problem& problem) {
  if (rank_of(problem.inputs[0]) > kMaxRank) return no("more than 10 axes");
  return quantize_rows_operands(problem);
}

std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  const TensorArg& out = call.out[0];
  auto state = std::make_unique<RowState>();
  QuantizeRowsLaunch& launch = state->launch;
  launch.x_rows = row_index(call.in[0], out, out.rank - 1);
  launch.rows = elems_between(out, 0, out.rank - 1);
  launch.cols = out.dim(-1);
  check_lines(launch.rows, launch.cols, "an array to quantize");
  return state;
}

}  // namespace

void launch_quantize_rows(const LaunchCall& call) {
  QuantizeRowsLaunch launch = static_cast<const RowState&>(*call.shape_state).launch;
  const auto output = [&](size_t i) {
    return given(call.out, i) ? call.out[i].as<float>() : nullptr;
  };
  launch.x = float_array(call.in, 0);
  launch.q = call.out[0].as<int8_t>();
  launch.scales = output(1);
  launch.zeros = output(2);
  const auto input = [&](size_t i) {
    return given(call.in, i) ? call.in[i].as<const float>() : nullptr;
  };
  launch.factors = input(1);
  launch.scale = input(2);
  launch.zero = input(3);
  launch.to_f8 = call.out[0].dtype == DType::kF8E4M3;
  const int64_t lanes = launch.x.type == DType::kF32 ? 4 : 8;
  launch.is_aligned = launch.cols % lanes == 0 && is_aligned(launch.x, launch.x_rows, lanes) &&
                      reinterpret_cast<uintptr_t>(launch.q) % static_cast<uintptr_t>(lanes) == 0;
  check_cuda(launch_quantize_rows(launch, stream_of(call.execution)), "QuantizeRows");
}

extern const KernelBody quantize_rows;
constexpr KernelBody quantize_rows{
    .supports = &supports,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .prepare = &prepare,
    .launch = &launch_quantize_rows,
    .may_be_joined = true,
};

}  // namespace vernier::backend::cuda
