// What is asked of every node of a model: its mode, its rules, and what is promoted over them.
// Contract: docs/precision.md.
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "precision/policy.h"
#include "vernier/promotion.h"

namespace vernier::precision {

/// What is asked for beside the model's own types, in rising order.
struct Wishes {
  const Policy& policy;
  /// Of the range audit: binds like a rule, except where a rule of the user's insists (==).
  const std::vector<Promotion>& promotions;
  /// Keys of ONNX nodes that take and store at least f32 whatever the rest asks, exact requests
  /// too.
  const std::set<std::string>& raised;
};

struct Asked {
  std::shared_ptr<ir::Graph> raised;  ///< with a request at every node
  std::vector<std::string> notes;
};

/// Raises a graph: the passes between import and precision.
using Raise = std::function<void(ir::Graph& graph)>;

/// `imported` raised, with a request at every node. A node whose request no composite around it
/// can honor is kept out of composites (Node::apart), and raising is done again. Throws
/// Error(kInput) as apply_rules() does, and where such a node cannot be taken out.
Asked ask(const ir::Graph& imported, const Wishes& wishes, const Raise& raise);

/// Can a graph that is asked `policy` compute or store in a type with a shorter range than f32's
/// (f16, f8)? False only where neither the model nor the mode has one and there is no rule.
bool may_have_short_range(const ir::Graph& imported, const Policy& policy);

}  // namespace vernier::precision
