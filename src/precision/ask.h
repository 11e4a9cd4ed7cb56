// The requests of all nodes of a model: from its mode, its rules, and promotions over them.
// Contract: docs/precision.md.
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "precision/constant_range.h"
#include "precision/policy.h"
#include "vernier/promotion.h"

namespace vernier::precision {

/// What is known of a model before anything is asked of it.
struct KnownModel {
  std::shared_ptr<const ir::Graph> raised;  ///< with no node kept apart
  ConstantRanges ranges;                    ///< of the raised graph's constants
  explicit KnownModel(std::shared_ptr<const ir::Graph> graph)
      : raised(std::move(graph)), ranges(*raised) {}
};

/// The sources of requests besides the model's own types, in rising priority.
struct Wishes {
  const Policy& policy;
  /// From the range audit: binds like a rule, except against an exact rule (==) of the user.
  const std::vector<Promotion>& promotions;
  /// Keys of ONNX nodes that compute and store in at least f32, also against exact requests.
  const std::set<std::string>& raised;
  /// What mode int8 asks of attention's products: the type of 16 bits that the device multiplies
  /// best.
  DType attended = DType::kF16;
  /// Of the imported model; null: it is raised, and its constants are read.
  const KnownModel* known = nullptr;
};

struct Asked {
  std::shared_ptr<ir::Graph> raised;  ///< with a request at every node
  std::vector<std::string> notes;
  /// Keys of the ONNX nodes of products that the mode quantizes where no rule asks for another
  /// type.
  std::set<std::string> quantized;
};

/// Raises a graph: the passes between import and precision.
using Raise = std::function<void(ir::Graph& graph)>;

/// `imported` raised, with a request at every node. A node whose request no composite around it
/// can honor is kept out of composites (Node::apart), and raising is repeated. Throws Error(kInput)
/// as apply_rules() does, and if such a node cannot be kept out.
Asked ask(const ir::Graph& imported, const Wishes& wishes, const Raise& raise);

/// Can a graph that is asked `policy` compute or store in a type with a shorter range than f32's
/// (f16, f8)? False only where neither the model nor the mode has one and there is no rule.
bool may_have_short_range(const ir::Graph& imported, const Policy& policy);

}  // namespace vernier::precision
