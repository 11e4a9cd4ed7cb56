// InferContext: what an operator's inference function sees and sets. Contract of the infer column
// of ops.def: read inputs, set every output's type and shape, and, for small integer tensors whose
// contents are size expressions, the symbolic values. Throws Error(kInput) through fail().
#pragma once
#include <optional>
#include <span>
#include <string>

#include "core/attrs.h"
#include "ir/graph.h"

namespace vernier::ops {

/// Longest integer tensor whose contents are tracked symbolically.
inline constexpr int64_t kMaxSymbolicElems = 64;

class InferContext {
 public:
  InferContext(ir::Graph& graph, ir::NodeId node) : graph_(graph), id_(node) {}

  const ir::Node& node() const { return graph_.node(id_); }
  size_t num_inputs() const { return node().inputs.size(); }
  size_t num_outputs() const { return node().outputs.size(); }
  bool has_input(size_t i) const { return i < num_inputs() && node().inputs[i] != ir::kNoValue; }
  /// In a typed graph every float input up to f32 counts as f32: a node converts as it reads.
  DType dtype(size_t i) const;
  const SymShape& shape(size_t i) const { return input(i).shape; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  /// The input as a constant, or null.
  const Tensor* constant(size_t i) const;
  /// Contents of an integer or bool input: from its constant or its symbolic values; empty if
  /// unknown.
  std::optional<std::vector<Dim>> values(size_t i) const;
  /// As values(), but only if every one is a number.
  std::optional<std::vector<int64_t>> integers(size_t i) const;
  template <class A>
  A attrs() const {
    return node().attrs_as<A>();
  }

  void set_output(size_t i, DType dtype, SymShape shape);
  /// The shape set so far; null for an unwanted output.
  const SymShape* output_shape(size_t i) const;
  /// Remembers symbolic contents if the output is an integer or bool tensor of at most
  /// kMaxSymbolicElems elements with constant shape and matching count; otherwise does nothing.
  void set_values(size_t i, std::vector<Dim> values);

  /// Both sizes must be equal: the returned Dim stands for both. A plain symbol is substituted by
  /// the other side everywhere (Graph::symbol_substitutions), anything else becomes a guard.
  /// Throws if the two are provably different.
  Dim unify(const Dim& a, const Dim& b);
  /// The run must meet lhs == rhs: a guard unless provable. Throws if provably false.
  void require_equal(const Dim& lhs, const Dim& rhs);
  /// The run must meet small <= large: a guard unless provable. Throws if provably false.
  void require_at_most(const Dim& small, const Dim& large);
  /// The symbol for a size that depends on data, bounded above by `upper` (Graph::symbol_bounds).
  /// The same node gets the same symbol each time.
  Dim fresh_symbol(const std::string& hint, const Dim& upper);
  /// axis in [-rank, rank) to [0, rank); fails otherwise.
  size_t normalise_axis(int64_t axis, int64_t rank) const;
  /// Throws Error(kInput): "node 'x' (Op): <what>".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const ir::Value& input(size_t i) const;
  DType stored_type(DType inferred) const;
  ir::Graph& graph_;
  ir::NodeId id_;
};

/// ONNX multidirectional broadcasting of input shapes, unifying symbols.
SymShape broadcast(InferContext& context, const SymShape& a, const SymShape& b);

/// For operators that only move elements: once the output shapes are set, carries the symbolic
/// values of `data_inputs` to the outputs by running the operator's own evaluator on positions. The
/// other inputs must be numbers. Does nothing where something is unknown.
void propagate_moved_values(InferContext& context, std::span<const size_t> data_inputs);

/// Infers one node (after a pass created it) and checks arity against ops.def.
void infer_node(ir::Graph& graph, ir::NodeId node);

/// Infers every node in order and applies substitutions, until no symbol is unified any more.
void infer_graph(ir::Graph& graph);

/// Adds a node, infers it at once, and returns its first output. `origins` come from the nodes it
/// replaces.
ir::ValueId emit(ir::Graph& graph, OpKind op, std::vector<ir::ValueId> inputs, AttrBytes attrs,
                 const std::vector<ir::Origin>& origins, int num_outputs = 1);
template <class A>
ir::ValueId emit(ir::Graph& graph, OpKind op, std::vector<ir::ValueId> inputs, const A& attrs,
                 const std::vector<ir::Origin>& origins, int num_outputs = 1) {
  return emit(graph, op, std::move(inputs), encode(attrs), origins, num_outputs);
}

/// Applies Graph::symbol_substitutions to every shape, value list, attribute-held Dim and guard.
void apply_substitutions(ir::Graph& graph);

}  // namespace vernier::ops
