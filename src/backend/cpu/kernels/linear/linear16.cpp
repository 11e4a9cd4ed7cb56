// Linear layers with 16-bit weights: y = act(x·w + bias) + residual. Contract: LinearAttrs in
// core/attrs.h; layouts and implementations: linear.h.
//
// cpu.linear.onednn_bf16   x and w bf16; bias, residual and y each bf16, f16 or f32. Products of
//     bf16 operands are exact; sums, bias, activation and residual are f32; y is rounded once. Runs
//     on tile registers where the CPU has them (linear_tiles.cpp), else on oneDNN on instruction
//     sets with bf16 products; subnormal operands count as zero on both. Elsewhere (and in builds
//     without oneDNN) on Vernier's f32 product, operands widened.
// cpu.linear.f16   w f16; x, bias, residual and y each f16 or f32. Weights take half the memory and
//     are widened panel by panel; everything is computed in f32, at the speed of f32.
//
// K is never split and its order fixed: row bits as in linear.cpp. Error of a sum: <=
// K·2^-24·Σ|x||w| (in practice √K), plus the activation's (math-inl.h), plus half an ulp of y.
#include <algorithm>
#include <array>
#include <span>

#include "backend/cpu/kernels/linear/linear.h"

namespace vernier::backend::cpu {
namespace {

// Inputs and output 0 of the operator from input `first` on have one of `types`.
Support types_are(const Problem& problem, size_t first, std::span<const DType> types) {
  const auto refuse = [types](const std::string& what, const Operand& operand) {
    std::string text = what + " is " + std::string(name(operand.dtype)) + ", this kernel takes ";
    for (size_t i = 0; i < types.size(); ++i)
      text += (i == 0 ? "" : i + 1 < types.size() ? ", " : " or ") + std::string(name(types[i]));
    return no(text);
  };
  const auto fits = [types](const Operand& operand) {
    return !operand.present || std::ranges::find(types, operand.dtype) != types.end();
  };
  for (size_t i = first; i < problem.inputs.size(); ++i) {
    if (!fits(problem.inputs[i])) return refuse("input " + std::to_string(i), problem.inputs[i]);
  }
  if (!fits(problem.outputs[0])) return refuse("the output", problem.outputs[0]);
  return yes();
}

Support weight_is(const Problem& problem, DType type) {
  if (problem.inputs[1].dtype == type) return yes();
  return no("the weight is " + std::string(name(problem.inputs[1].dtype)) + ", this kernel takes " +
            std::string(name(type)));
}

Support supports_bf16(const Problem& problem) {
  Support support = supports_packed_weight(problem);
  if (support) support = weight_is(problem, DType::kBF16);
  if (support && problem.inputs[0].dtype != DType::kBF16)
    return no("input 0 is " + std::string(name(problem.inputs[0].dtype)) +
              ", this kernel takes bf16");
  static constexpr std::array kOthers{DType::kBF16, DType::kF16, DType::kF32};
  return support ? types_are(problem, 2, kOthers) : support;
}
Support supports_f16(const Problem& problem) {
  Support support = supports_packed_weight(problem);
  if (support) support = weight_is(problem, DType::kF16);
  static constexpr std::array kAll{DType::kF16, DType::kF32};
  return support ? types_are(problem, 0, kAll) : support;
}

Numerics bf16_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  numerics.store = problem.outputs[0].dtype;
  numerics.compute = DType::kBF16;
  numerics.points[0].type = numerics.points[1].type = DType::kBF16;
  numerics.points[2].type = numerics.store;
  return numerics;
}
// Operands have their storage types; the weight was rounded when it was packed.
Numerics f16_numerics(const Problem& problem) {
  Numerics numerics = f32_numerics(problem);
  numerics.store = problem.outputs[0].dtype;
  numerics.compute = DType::kF16;  // weights are rounded to it
  numerics.points[1].type = DType::kF16;
  numerics.points[2].type = numerics.store;
  return numerics;
}

}  // namespace

extern const KernelBody linear_bf16, linear_f16;
constexpr KernelBody linear_bf16{
    .supports = &supports_bf16,
    .numerics = &bf16_numerics,
    .strided_inputs = 1,
    .pack = &pack_linear,
    .unpack = &unpack_linear,
    .packed_layouts = &linear_layouts,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return make_linear(packed_weight(call, DType::kBF16), call.execution.threads->size());
    },
    .prepare = &prepare_linear,
    .launch = &launch_linear,
    .variants = kRowVariants,
};
constexpr KernelBody linear_f16{
    .supports = &supports_f16,
    .numerics = &f16_numerics,
    .strided_inputs = 1,
    .pack = &pack_linear,
    .unpack = &unpack_linear,
    .packed_layouts = &linear_layouts,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return make_highway_linear(packed_weight(call, DType::kF16));
    },
    .prepare = &prepare_linear,
    .launch = &launch_linear,
    .variants = kRowVariants,
};

}  // namespace vernier::backend::cpu
