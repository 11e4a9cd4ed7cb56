// Small runs of an engine that a fuzz target made.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "target.h"
#include "vernier/engine.h"

namespace vernier::fuzz {

/// Small values within the ranges of the engine's named sizes.
using Sizes = std::map<std::string, int64_t>;
Sizes small_sizes(const Engine& engine, Choices& choices);
/// "batch=2,seq=3"
std::string text_of(const Sizes& sizes);
/// True if the engine's arrays and work are small at these sizes, as far as they are known.
bool fits(const Engine& engine, const Sizes& sizes);

/// Every view of the engine, as text and as JSON.
void inspect(const Engine& engine);
/// Runs two shapes on synthetic inputs, each once with and once without an observer. The two runs
/// of a shape must give the same bits.
Outcome run_small(const std::shared_ptr<const Engine>& engine, Choices& choices);

}  // namespace vernier::fuzz
