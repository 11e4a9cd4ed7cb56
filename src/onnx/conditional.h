// What a model computes under a condition and an engine in every run: both branches of an If whose
// condition is not known, the steps of a Loop that a run may not reach. Such nodes must not refuse
// a run that the model accepts, and what they compute is selected by a Where.
#pragma once
#include <string>

#include "onnx/node_context.h"

namespace vernier::onnx {

/// A graph before such nodes are added.
class EveryRun {
 public:
  /// `graph` must outlive this.
  explicit EveryRun(const ir::Graph& graph);
  /// Why the nodes added since could refuse a run, as a clause ("node 'x' (Gather) …"); empty: they
  /// cannot. Sizes that must be equal, sizes of data, and values that an operator forbids count.
  std::string refusal() const;

 private:
  const ir::Graph& graph_;
  size_t nodes_, guards_, substitutions_, data_sizes_;
};

/// The condition, one bool of any rank, as a scalar; fails for everything else.
ir::ValueId scalar_condition(NodeContext& node, ir::ValueId condition);

struct Choice {
  ir::ValueId yes, no;
  std::string what, yes_place, no_place;  ///< "output 'y'", "in then_branch", "in else_branch"
};
/// The value that the scalar condition selects. Throws UnsupportedNode for two types or shapes.
ir::ValueId selected(NodeContext& node, ir::ValueId condition, const Choice& choice);

}  // namespace vernier::onnx
