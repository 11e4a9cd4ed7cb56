// Products that a projection cannot cover, judged in FP64 at drawn places: those with an
// activation, of two computed operands, with a norm behind them, Gemm, Conv and Einsum. Contract
// and limits: docs/verification_checks.md "Projection".
#pragma once
#include <optional>

#include "core/constant_cache.h"
#include "plan/plan.h"
#include "runtime/session_impl.h"
#include "verify/evidence.h"
#include "verify/step_copy.h"

namespace vernier::verify {

/// A product that was sampled, or rows of it that are still to be replayed.
struct Sample {
  SampledProduct product;
  std::optional<StepCopy> rows = {};
};

/// Places of the result, drawn with the seed: two of every column and four of every row, by the
/// operands that the kernel had; a small Einsum or ConvTranspose whole. Of a LinearAddLayerNorm two
/// rows and of a Conv one image are copied. Empty: it cannot be sampled. `constants`, where given:
/// those that evaluations share.
std::optional<Sample> sample_product(const plan::Plan& plan, const backend::Backend& backend,
                                     int32_t index, const backend::LaunchCall& call, uint64_t seed,
                                     ConstantCache* constants = nullptr);

/// The sample, with its rows replayed.
SampledProduct judged(const plan::Plan& plan, const backend::Backend& backend, Sample sample,
                      ConstantCache* constants = nullptr);

}  // namespace vernier::verify
