// How large the elements of a value can be, whatever the model's inputs are: from its weights.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace vernier::passes {

/// The largest magnitude of `value`'s elements where it is f(x·w + b) of a normalized x, or an
/// attention's average of such values; nullopt where the weights give none. f: an Activation.
///
/// A norm's result is γ∘n + β with |n|₂ <= √K. So |x·w_j + b_j| <= √K·|γ∘w_j|₂ + |β·w_j + b_j|
/// (Cauchy-Schwarz); no activation enlarges a magnitude, and probabilities add up to 1.
/// In exact numbers: roundings of x and w may add their own share.
std::optional<double> magnitude_bound(const ir::Graph& graph, ir::ValueId value);

/// Of a normalized value γ∘n + β, by channel k.
struct NormalizedChannels {
  std::vector<double> most;     ///< √K·|γ_k| + |β_k|: no magnitude is larger
  std::vector<double> typical;  ///< √(γ_k² + β_k²): the rms where channels are alike
};
/// Those of `value`, whose last axis is the norm's; nullopt where it is no such value, or where γ
/// or β is no constant or has NaN or infinity.
std::optional<NormalizedChannels> normalized_channels(const ir::Graph& graph, ir::ValueId value);

}  // namespace vernier::passes
