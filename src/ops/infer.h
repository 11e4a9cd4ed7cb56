// Inference of graphs: the operators' rules (rules/rules.h) applied to nodes. Throws Error(kInput)
// that names the node.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "core/attrs.h"
#include "ir/graph.h"
#include "rules/context.h"

namespace vernier::ops {

/// A rule's view of one node of a graph. A plain symbol that must equal another size is substituted
/// by it everywhere (Graph::symbol_substitutions), unless one of the two depends on data: these
/// sizes are in Graph::data_sizes.
class GraphContext final : public rules::InferContext {
 public:
  GraphContext(ir::Graph& graph, ir::NodeId node) : graph_(graph), id_(node) {}

  OpKind op() const override { return node().op; }
  AttrView attr_bytes() const override { return node().attrs; }
  size_t num_inputs() const override { return node().inputs.size(); }
  size_t num_outputs() const override { return node().outputs.size(); }
  bool has_input(size_t i) const override { return node().has_input(i); }
  DType dtype(size_t i) const override;
  const SymShape& shape(size_t i) const override { return input(i).shape; }
  const Tensor* constant(size_t i) const override;
  std::optional<std::vector<Dim>> values(size_t i) const override;
  void set_output(size_t i, DType dtype, SymShape shape) override;
  const SymShape* output_shape(size_t i) const override;
  void set_values(size_t i, std::vector<Dim> values) override;
  Dim unify(const Dim& a, const Dim& b) override;
  void require_equal(const Dim& lhs, const Dim& rhs) override;
  void require_at_most(const Dim& small, const Dim& large) override;
  Dim fresh_size(const std::string& hint, const std::optional<Dim>& upper) override;
  Error refusal(const std::string& what) const override;

 private:
  const ir::Node& node() const { return graph_.node(id_); }
  const ir::Value& input(size_t i) const;
  DType stored_type(DType inferred) const;
  ir::Graph& graph_;
  ir::NodeId id_;
};

/// Infers one node (after a pass created it) and checks arity against ops.def.
void infer_node(ir::Graph& graph, ir::NodeId node);

/// Infers every node in order and applies substitutions, until no symbol is unified any more.
void infer_graph(ir::Graph& graph);

/// Does the size depend on data (Graph::data_sizes)?
bool depends_on_data(const ir::Graph& graph, const Dim& size);
/// Has `shape` a size that depends on data and that no shape of `inputs` mentions? A node of these
/// inputs that takes the shape as an attribute would not be after the node that makes the size.
bool brings_data_sizes(const ir::Graph& graph, const SymShape& shape,
                       std::span<const ir::ValueId> inputs);

/// Adds a node, infers it at once, and returns its first output. `origins` come from the nodes it
/// replaces.
ir::ValueId emit(ir::Graph& graph, OpKind op, std::vector<ir::ValueId> inputs, AttrBytes attrs,
                 const std::vector<ir::Origin>& origins, int num_outputs = 1);
template <class A>
ir::ValueId emit(ir::Graph& graph, OpKind op, std::vector<ir::ValueId> inputs, const A& attrs,
                 const std::vector<ir::Origin>& origins, int num_outputs = 1) {
  return emit(graph, op, std::move(inputs), encode(attrs), origins, num_outputs);
}

/// Applies Graph::symbol_substitutions to the sizes that one node holds as attributes.
void substitute_attrs(ir::Graph& graph, ir::NodeId node);
/// Applies Graph::symbol_substitutions to every shape, value list, attribute-held Dim and guard.
void apply_substitutions(ir::Graph& graph);

}  // namespace vernier::ops
