// The canary that a build records in its engine. Contract: docs/certificates.md "Canary".
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/domain.h"
#include "vernier/canary.h"
#include "vernier/engine.h"
#include "vernier/limits.h"

namespace vernier::compiler {

/// Up to three runs of the engine on seeded inputs of these domains, and their answers. Absent
/// where the engine's device is not here, or the engine refuses such inputs: `note` says why.
/// Throws what else a session throws.
std::optional<Canary> canary_of(const std::shared_ptr<const Engine>& engine,
                                const evaluate::Domains& domains, const Limits& limits,
                                std::string& note);

}  // namespace vernier::compiler
