// Small runs of an engine that a fuzz target made.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "target.h"
#include "vernier/engine.h"

namespace vernier::fuzz {

/// Values for the engine's named sizes, small ones of its range.
using Sizes = std::map<std::string, int64_t>;
Sizes small_sizes(const Engine& engine, Choices& choices);
/// "batch=2,seq=3"
std::string text_of(const Sizes& sizes);
/// Are all arrays of the engine together small at these sizes, and is there little to compute, as
/// far as they are known?
bool fits(const Engine& engine, const Sizes& sizes);

/// Every view of the engine, as text and as JSON.
void inspect(const Engine& engine);
/// Two shapes, each once watched and once not, on synthetic inputs. Outputs of the two runs of a
/// shape must have the same bits.
Outcome run_small(const std::shared_ptr<const Engine>& engine, Choices& choices);

}  // namespace vernier::fuzz
