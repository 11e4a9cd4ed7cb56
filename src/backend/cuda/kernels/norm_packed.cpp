// cuda.{layer_norm,rms_norm,add_layer_norm}.packed: norm_packed.cu. The last axis only, of rows
// without gaps, one type but for f32 scale and bias; everything else is norm.cpp's.
#include "backend/cuda/kernels/norm_packed.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

constexpr int64_t kMaxPackedColumns = 1024;
constexpr size_t kVectorBytes = 16;

/// `first_parameter`: input index of scale; bias follows it. Inputs before it are added.
Support supports_packed(const Problem& problem, size_t first_parameter) {
  const SymShape& shape = problem.outputs[0].shape;
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank == 0) return no("input is a scalar");
  if (positive_axis(problem.attrs_as<NormAttrs>().axis, rank) != rank - 1)
    return no("normalises over more than the last axis");
  const auto cols = shape.back().as_constant();
  const DType type = problem.outputs[0].dtype;
  if (type != DType::kF32 && !is_16_bit_float(type)) return no("its rows are no f32, f16 or bf16");
  const auto lanes = static_cast<int64_t>(kVectorBytes / size_bytes(type));
  if (!cols || *cols == 0 || *cols % lanes != 0 || *cols > kMaxPackedColumns)
    return no("a row is no constant number of up to 1024 columns in vectors of 16 bytes");
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Operand& input = problem.inputs[i];
    if (!input.present) continue;
    if (i >= first_parameter) {
      if (input.dtype != DType::kF32 || product(input.shape) != Dim(*cols))
        return no("scale and bias are not f32 with one value per column");
    } else if (input.dtype != type || str(input.shape) != str(shape)) {
      return no("an input differs from the output in type or shape");
    }
  }
  for (size_t o = 1; o < problem.outputs.size(); ++o) {
    if (!problem.outputs[o].present) continue;
    const bool is_sum = o == 1 && first_parameter == 2;
    if (!is_sum || problem.outputs[o].dtype != type)
      return no("gives no mean or deviation, and a sum in the rows' type only");
  }
  return yes();
}

void launch_packed(const LaunchCall& call, size_t first_parameter, bool is_rms) {
  const auto data = [](std::span<const TensorArg> operands, size_t i) {
    return has(operands, i) ? operands[i].data : nullptr;
  };
  const TensorArg& y = call.out[0];
  PackedNorm args{.x = call.in[0].data,
                  .addend = first_parameter == 2 ? call.in[1].data : nullptr,
                  .y = y.data,
                  .sum = first_parameter == 2 ? data(call.out, 1) : nullptr,
                  .scale = reinterpret_cast<const float*>(data(call.in, first_parameter)),
                  .bias = reinterpret_cast<const float*>(data(call.in, first_parameter + 1)),
                  .rows = y.elems() == 0 ? 0 : y.elems() / y.dim(-1),
                  .cols = static_cast<int>(y.dim(-1)),
                  .epsilon = static_cast<float>(decode<NormAttrs>(call.attrs).epsilon),
                  .type = y.dtype,
                  .is_rms = is_rms,
                  .is_aligned = true};
  for (const void* array :
       {args.x, args.addend, static_cast<const void*>(args.y), static_cast<const void*>(args.sum),
        static_cast<const void*>(args.scale), static_cast<const void*>(args.bias)})
    args.is_aligned = args.is_aligned && reinterpret_cast<uintptr_t>(array) % kVectorBytes == 0;
  check_cuda(launch_packed_norm(args, stream_of(call.execution)), "normalising rows");
}

}  // namespace

extern const KernelBody layer_norm_packed, rms_norm_packed, add_layer_norm_packed;
constexpr KernelBody layer_norm_packed{
    .supports = [](const Problem& problem) { return supports_packed(problem, 1); },
    .numerics = &f32_numerics,
    .launch = [](const LaunchCall& call) { launch_packed(call, 1, false); },
};
constexpr KernelBody rms_norm_packed{
    .supports = [](const Problem& problem) { return supports_packed(problem, 1); },
    .numerics = &f32_numerics,
    .launch = [](const LaunchCall& call) { launch_packed(call, 1, true); },
};
constexpr KernelBody add_layer_norm_packed{
    .supports = [](const Problem& problem) { return supports_packed(problem, 2); },
    .numerics = &f32_numerics,
    .launch = [](const LaunchCall& call) { launch_packed(call, 2, false); },
};

}  // namespace vernier::backend::cuda
