// Canaries: what an engine answered to seeded inputs when it was built, held against what it
// answers here. Contract: docs/certificates.md "Canary".
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "vernier/canary.h"
#include "vernier/engine.h"
#include "vernier/session.h"

namespace vernier::runtime {

/// What the engine answers to each of these sets of inputs, here and now. Throws as Session does.
Canary record_canary(const std::shared_ptr<const Engine>& engine,
                     std::vector<std::vector<Canary::Array>> inputs,
                     const SessionOptions& options = {});

/// Runs the engine's canary. Throws Error(kCheckFailed) where it has none, or where an answer has
/// another hash: with what of program, machine and libraries is another than at the build.
void require_canary(const std::shared_ptr<const Engine>& engine, const SessionOptions& options);

}  // namespace vernier::runtime
