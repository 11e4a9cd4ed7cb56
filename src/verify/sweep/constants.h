// The engine's constants beside the model's: each is evaluated from the ONNX file's constants, as
// the engine's derivation says (core/derivation.h), in FP64. Contract: docs/verification_checks.md
// "Constants".
#pragma once
#include <optional>
#include <string>

#include "verify/sweep/context.h"

namespace vernier::verify {

/// Fills `context.constants`, and `context.precision.exact` with what the model has where the
/// engine holds it rounded to less than f32. Evaluates every constant once; holds one at a time,
/// and what several of them are made of.
void hold_constants(Context& context);
/// What the model has where another plan of it, compiled in this process, holds it rounded.
std::vector<ExactConstant> exact_constants(const Context& context, const plan::Plan& plan);

/// How a weight that the build quantized is held.
struct WeightUnits {
  bool trans_w = false;  ///< it is [N, K], else [K, N]
  int64_t block = 0;     ///< rows of K that share a scale; 0: all
  double most = 127;     ///< the largest number: 127 of q8, 7 of q4, 448 of f8e4m3
};
/// What is wrong with quantized weights of the real weight `exact` of the same shape: the first
/// element that is more than half a step from it, of f8e4m3 half a unit of its last place. Empty:
/// nothing.
std::string quantized_complaint(const Tensor& stored, const Tensor& scales, const Tensor& exact,
                                const WeightUnits& units);
/// What is wrong with their scales, [N] or [blocks, N]: one that is not a share of its numbers'
/// largest weight, which becomes `most`; of f8e4m3 a multiple of it.
std::string scales_complaint(const Tensor& scales, const Tensor& exact, const WeightUnits& units);

}  // namespace vernier::verify
