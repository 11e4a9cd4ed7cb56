// Rows of different lengths without padding: their tokens one after the other. Contract:
// docs/unpadding.md "Packed arrays".
#pragma once
#include <cstdint>
#include <span>

#include "vernier/engine.h"
#include "vernier/session.h"
#include "vernier/tensor.h"

namespace vernier {

/// The arrays of a batch as the engine takes them, from packed ones. `starts` [B + 1]: where each
/// row begins, then the number of all tokens T (cu_seqlens). An input [batch, length, …] that has
/// the places of the engine's padding mask is given as [T, …]; the mask itself may be left out,
/// unless the model reads it as ids. Other inputs are given as the engine takes them.
/// Throws Error(kInput): the engine computes padding (it does not know which places are tokens);
/// starts that do not begin with 0, do not grow or do not end with T; an input of another type or
/// shape.
NamedTensors padded(const Engine& engine, const NamedTensors& packed,
                    std::span<const int64_t> starts);

/// The reverse, of the engine's answers: outputs [batch, length, …] as [T, …], others as they are.
NamedTensors packed(const Engine& engine, const NamedTensors& answers,
                    std::span<const int64_t> starts);

/// Session::run() of packed arrays: padded(), the run, packed().
NamedTensors run_packed(Session& session, const NamedTensors& arrays,
                        std::span<const int64_t> starts);

/// An array of integers [B + 1] as starts. Throws Error(kInput) for other arrays.
std::vector<int64_t> starts_of(const Tensor& cu_seqlens);

}  // namespace vernier
