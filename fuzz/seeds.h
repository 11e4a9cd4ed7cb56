// What the targets run, request and verify start from: small graphs in text form and every row of
// the operator case tables (tests/ops/*_cases.cpp), compiled when they are asked for, so that no
// engine is stored. Contract: fuzz/README.md.
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

/// Bytes of choices that name a seed, its variant and its mode.
inline constexpr size_t kSeedBytes = 8;
/// One of all seeds. A new one takes the place of few: inputs go on to mean the same.
Seed any_seed(Choices& choices);
/// One of the text graphs, which have sizes that vary and several steps.
Seed text_seed(Choices& choices);

}  // namespace vernier::fuzz
