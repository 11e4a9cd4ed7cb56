// What every pass needs: facts about values, and ways to replace a node. Contract: pass.h.
// Nothing here reads a node or value name.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ops/infer.h"

namespace vernier::passes {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Origin;
using ir::ValueId;

// ---- facts
/// The producer of `value` if it is an `op` that may become part of a composite, else null.
/// kNoValue is allowed.
const Node* producer_of(const Graph& graph, ValueId value, OpKind op);
const SymShape& shape_of(const Graph& graph, ValueId value);
DType dtype_of(const Graph& graph, ValueId value);
int64_t rank_of(const Graph& graph, ValueId value);
/// The constant behind `value`, or null.
const Tensor* constant_of(const Graph& graph, ValueId value);
/// c if every element of `value` is c: a constant with equal elements, or an Expand of one.
std::optional<double> uniform(const Graph& graph, ValueId value);
/// As uniform(), but only if `value` is constant or an Expand of a constant.
inline bool is_uniform(const Graph& graph, ValueId value, double c) {
  return uniform(graph, value) == c;
}
/// Elements of an integer or bool constant or of known symbolic values, if all are numbers.
std::optional<std::vector<int64_t>> integers_of(const Graph& graph, ValueId value);
/// Some output of the node has a user or is a graph output.
bool is_live(const Graph& graph, NodeId node);
/// A copy of the users of `value`, one entry per use: for who changes uses on the way.
std::vector<NodeId> users_of(const Graph& graph, ValueId value);
/// The only user of `value`, if it has exactly one use, is not a graph output and the user may
/// become part of a composite; else kNoNode.
NodeId sole_user(const Graph& graph, ValueId value);
/// The shape that the shapes broadcast to, with sizes compared symbolically; empty if unproven.
std::optional<SymShape> broadcast_shape(std::span<const SymShape> shapes);
/// True if sizes are equal axis by axis, provably.
bool same_shape(const SymShape& a, const SymShape& b);
/// Is a relative difference of `value` to `wanted` what storing it in `dtype` explains?
bool nearly(double value, double wanted, DType dtype = DType::kF32);

/// The request of a node that computes `producer` and `consumer` in one step, the value between
/// them in a register; empty where that breaks what is asked of either.
std::optional<Request> fused_request(const Node& producer, const Node& consumer);

// ---- changes
/// A constant of the type of `like`, whose contents may be held wider (ir::Value::constant).
ValueId add_constant_like(Graph& graph, ValueId like, Tensor tensor);
/// A rank-0 constant.
ValueId add_scalar(Graph& graph, DType dtype, double value);
/// Turns a one-output node into another operator in place; its output value and origins stay.
void mutate(Graph& graph, NodeId node, OpKind op, std::vector<ValueId> inputs, AttrBytes attrs);
template <class A>
void mutate(Graph& graph, NodeId node, OpKind op, std::vector<ValueId> inputs, const A& attrs) {
  mutate(graph, node, op, std::move(inputs), encode(attrs));
}
/// Every use of the node's first output becomes a use of `value`; the node's origins are retired.
/// False (and nothing done) if that would make a graph output of a graph input.
bool replace_by(Graph& graph, NodeId node, ValueId value, const char* why);
/// The node's output becomes `value` broadcast to the output's shape.
bool become(Graph& graph, NodeId node, ValueId value, const char* why);
/// The node's output becomes the constant `c` everywhere.
void become_uniform(Graph& graph, NodeId node, double c);

ValueId emit_reshape(Graph& graph, ValueId value, SymShape shape,
                     const std::vector<Origin>& origins);
ValueId emit_transpose(Graph& graph, ValueId value, std::vector<int64_t> perm,
                       const std::vector<Origin>& origins);
ValueId emit_expand(Graph& graph, ValueId value, SymShape shape,
                    const std::vector<Origin>& origins);
/// Attributes of Reshape and Expand with a shape of their own.
ShapeAttrs shape_attrs(SymShape shape);

/// A local rewrite: looks at one node, and returns true if it changed the graph.
using Rule = bool (*)(Graph& graph, NodeId node);
/// Applies rules to all nodes in order, first that fits, until none does. Returns the changes made.
int apply_rules(Graph& graph, std::span<const Rule> rules);
/// Merges nodes with the same operator, attributes and inputs.
int merge_duplicates(Graph& graph);
/// Evaluates the node if all its inputs are constant and the result is small enough (fold.cpp).
bool fold_constant(Graph& graph, NodeId node);

// ---- origins
/// Of a node that local rules make of several: a long chain becomes several nodes.
inline constexpr size_t kMostOrigins = 128;
/// May the node take over what `inner`, the producer of one of its inputs, stands for?
bool can_absorb(const Graph& graph, NodeId node, const Node& inner);
/// It does: its own origins first, then those. An `inner` without other users gives them away.
void absorb_origins(Graph& graph, NodeId node, const Node& inner);

/// Collects origins of the nodes that a composite absorbs; `part` names what they become.
class OriginSet {
 public:
  void add(const Graph& graph, const Node* node, std::string_view part = "");
  void add_value(const Graph& graph, ValueId value, std::string_view part = "") {
    add(graph, value == kNoValue ? nullptr : graph.producer(value), part);
  }
  void add_list(std::vector<Origin> origins, std::string_view part = "");
  const std::vector<Origin>& list() const { return origins_; }

 private:
  std::vector<Origin> origins_;
};

}  // namespace vernier::passes
