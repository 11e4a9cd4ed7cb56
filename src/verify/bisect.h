// Bisect for an engine and a model that are in memory; for files: vernier/bisect.h.
#pragma once
#include <memory>

#include "ir/graph.h"
#include "vernier/bisect.h"
#include "vernier/engine.h"

namespace vernier::verify {

/// As bisect().
Bisection bisect_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                        const Request& request);

}  // namespace vernier::verify
