// The seeds of the targets run, request and verify: small graphs in text form and every row of the
// operator case tables (tests/ops/*_cases.cpp), compiled on demand, so that no engine is stored.
// Contract: fuzz/README.md.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "choices.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace vernier::fuzz {

struct Seed {
  std::string name;  ///< "layer", "Gather.last_axis"
  std::shared_ptr<ir::Graph> graph;
  plan::Plan plan;
};

/// Bytes of choices that select a seed, its variant and its mode.
inline constexpr size_t kSeedBytes = 8;
/// One of all seeds. A new seed replaces few others, so most inputs keep their meaning.
Seed any_seed(Choices& choices);
/// One of the text graphs, which have variable sizes and several steps.
Seed text_seed(Choices& choices);

}  // namespace vernier::fuzz
