// The engine's constants beside the model's: each is evaluated from the ONNX file's constants, as
// the engine's derivation says (core/derivation.h), in FP64. Contract: docs/verification.md
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

/// What is wrong with int8 weights [K, N] (or [N, K] with `trans_w`) of the real weight `exact` of
/// the same shape: the first element that is more than half a step from it. Empty: nothing.
std::string int8_complaint(const Tensor& stored, const Tensor& scales, const Tensor& exact,
                           bool trans_w);
/// What is wrong with the scales [N] of int8 weights: one that is not a share of its column's
/// largest weight, which becomes 127.
std::string scales_complaint(const Tensor& scales, const Tensor& exact, bool trans_w);

}  // namespace vernier::verify
