// Products that a projection cannot cover, judged in FP64 at drawn places: those with an
// activation, of two computed operands, with a norm behind them, Gemm, Conv and Einsum. Contract
// and limits: docs/verification_checks.md "Projection".
#pragma once
#include <optional>

#include "core/constant_cache.h"
#include "plan/plan.h"
#include "runtime/session_impl.h"
#include "verify/evidence.h"

namespace vernier::verify {

/// Places of the result, drawn with the seed: two of every column and four of every row, by the
/// operands that the kernel had; of a LinearAddLayerNorm two rows, of a Conv one image, and a small
/// Einsum or ConvTranspose whole, replayed. Empty: it cannot be sampled. `constants`, where given:
/// those that evaluations share.
std::optional<SampledProduct> sample_product(const plan::Plan& plan,
                                             const backend::Backend& backend, int32_t index,
                                             const backend::LaunchCall& call, uint64_t seed,
                                             ConstantCache* constants = nullptr);

}  // namespace vernier::verify
