// The LayerNorm row of kernels.def; the kernel is layer_norm.cu.
#include "backend/cuda/kernels/layer_norm.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

// gridDim.x carries the rows.
constexpr int64_t kMaxRows = (int64_t{1} << 31) - 1;

Support supports(const Problem& problem) {
  const auto attrs = problem.attrs_as<NormAttrs>();
  const auto rank = static_cast<int64_t>(problem.inputs[0].shape.size());
  for (const Operand& operand : problem.inputs) {
    if (operand.present && operand.dtype != DType::kF32) return no("operands are not f32");
  }
  if (attrs.axis != -1 && attrs.axis != rank - 1)
    return no("normalises over more than the last axis");
  for (size_t i = 1; i < problem.outputs.size(); ++i) {
    if (problem.outputs[i].present) return no("does not give mean and inverse deviation");
  }
  return yes();
}

void launch(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  const auto attrs = decode<NormAttrs>(call.attrs);
  const int64_t cols = x.dim(-1);
  VERNIER_ASSERT(x.elems() / cols <= kMaxRows);
  const bool has_bias = call.in.size() > 2 && call.in[2].data != nullptr;
  check_cuda(launch_layer_norm({.x = x.as<const float>(),
                                .scale = call.in[1].as<const float>(),
                                .bias = has_bias ? call.in[2].as<const float>() : nullptr,
                                .y = call.out[0].as<float>(),
                                .rows = x.elems() / cols,
                                .cols = static_cast<int>(cols),
                                .epsilon = static_cast<float>(attrs.epsilon)},
                               static_cast<cudaStream_t>(call.execution.stream)),
             "LayerNorm");
}

}  // namespace

extern const KernelBody layer_norm_block;
constexpr KernelBody layer_norm_block{
    .supports = &supports,
    .numerics = &f32_numerics,
    .launch = &launch,
};

}  // namespace vernier::backend::cuda
