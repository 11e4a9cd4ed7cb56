// Any f32 kernel on operands stored in 16 bits: they are widened into the workspace (constants once
// per session), the kernel runs in f32, and its results are rounded once to their stored type.
// cpu.cpp adds such a row, cpu.<op>.<strategy>_widened, for every row of kernels.def.
#pragma once
#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// Yes where `inner` takes the operands as f32, at least one is stored in f16 or bf16, and `inner`
/// does not take them as they are.
Support supports_widened(const KernelBody& inner, const Problem& problem);
/// What `inner` declares, but stored as output 0 is; the last point ("out") takes that type.
Numerics widened_numerics(const KernelBody& inner, const Problem& problem);

/// What `inner` makes of the constants' values rounded to their stored type. Layout: the stored
/// type, " as ", the inner layout; e.g. "f16 as panels64 f32 K=768 N=3072".
std::vector<PackedConstant> pack_widened(const KernelBody& inner, const Problem& problem);
Tensor unpack_widened(const KernelBody& inner, const Problem& problem, const ConstantArg& packed);
std::vector<PackedLayout> widened_layouts(const KernelBody& inner, const Problem& problem);

/// The state holds `inner` for the other two.
std::unique_ptr<KernelState> create_widened(const KernelBody& inner, const CreateCall& call);
/// Workspace: that of `inner`, and 4 bytes per element of each non-constant 16-bit operand.
std::unique_ptr<ShapeState> prepare_widened(const PrepareCall& call);
void launch_widened(const LaunchCall& call);

template <const KernelBody& kInner>
KernelBody widened() {
  KernelBody body{
      .supports = [](const Problem& problem) { return supports_widened(kInner, problem); },
      .numerics = [](const Problem& problem) { return widened_numerics(kInner, problem); },
      .bit_class = kInner.bit_class,
      .strided_inputs = kInner.strided_inputs,
      .create = [](const CreateCall& call) { return create_widened(kInner, call); },
      .prepare = &prepare_widened,
      .launch = &launch_widened,
      .variants = kInner.variants,
  };
  if (kInner.pack == nullptr) return body;
  body.pack = [](const Problem& problem) { return pack_widened(kInner, problem); };
  body.unpack = [](const Problem& problem, const ConstantArg& packed) {
    return unpack_widened(kInner, problem, packed);
  };
  body.packed_layouts = [](const Problem& problem) { return widened_layouts(kInner, problem); };
  return body;
}

}  // namespace vernier::backend::cpu
