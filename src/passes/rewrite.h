// What every pass needs: functions that replace nodes, and the facts of src/analysis. Contract:
// pass.h. Nothing here reads a node or value name.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "analysis/facts.h"
#include "ops/infer.h"

namespace vernier::passes {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Origin;
using ir::ValueId;

// What is known of a graph (analysis/facts.h).
using analysis::AxisGroup;
using analysis::broadcast_shape;
using analysis::constant_of;
using analysis::differ_by_unit_axes;
using analysis::dtype_of;
using analysis::fused_request;
using analysis::integers_of;
using analysis::is_clamped;
using analysis::is_live;
using analysis::is_uniform;
using analysis::nearly;
using analysis::producer_of;
using analysis::rank_of;
using analysis::reduces_last_axes;
using analysis::reshape_groups;
using analysis::same_shape;
using analysis::same_value;
using analysis::shape_of;
using analysis::sole_user;
using analysis::under_casts;
using analysis::uniform;
using analysis::users_of;

// ---- changes
/// A constant of the type of `like`, whose contents may be held wider (ir::Value::constant).
ValueId add_constant_like(Graph& graph, ValueId like, Tensor tensor);
/// A rank-0 constant.
ValueId add_scalar(Graph& graph, DType dtype, double value);
/// A size as an i64 number.
ValueId emit_size(Graph& graph, const Dim& size);
/// As a list of one.
ValueId emit_size_list(Graph& graph, const Dim& size);
/// Turns a one-output node into another operator in place; its output value and origins stay.
void mutate(Graph& graph, NodeId node, OpKind op, std::vector<ValueId> inputs, AttrBytes attrs);
template <class A>
void mutate(Graph& graph, NodeId node, OpKind op, std::vector<ValueId> inputs, const A& attrs) {
  mutate(graph, node, op, std::move(inputs), encode(attrs));
}
/// Every use of the node's first output becomes a use of `value`; the node's origins are retired.
/// False (and nothing done) if that would make a graph output of a graph input.
bool replace_by(Graph& graph, NodeId node, ValueId value, const char* why);
/// The node's output becomes `value` broadcast to the output's shape. False (and nothing done) also
/// if that shape has sizes of data that `value` does not have.
bool become(Graph& graph, NodeId node, ValueId value, const char* why);
/// The node's output becomes the constant `c` everywhere. False (and nothing done) if its shape
/// depends on data.
bool become_uniform(Graph& graph, NodeId node, double c);

ValueId emit_reshape(Graph& graph, ValueId value, SymShape shape,
                     const std::vector<Origin>& origins);
ValueId emit_transpose(Graph& graph, ValueId value, std::vector<int64_t> perm,
                       const std::vector<Origin>& origins);
ValueId emit_expand(Graph& graph, ValueId value, SymShape shape,
                    const std::vector<Origin>& origins);
/// Attributes of Reshape and Expand with a shape of their own.
ShapeAttrs shape_attrs(SymShape shape);

/// A local rewrite: examines one node, and returns true if it changed the graph.
using Rule = bool (*)(Graph& graph, NodeId node);
/// Applies to each node in order the first rule that matches, until none does. Returns the number
/// of changes.
int apply_rules(Graph& graph, std::span<const Rule> rules);
/// Merges nodes with the same operator, attributes and inputs.
int merge_duplicates(Graph& graph);
/// Evaluates the node if all its inputs are constant and the result is small enough (fold.cpp).
bool fold_constant(Graph& graph, NodeId node);

/// The activation that the operator is, if a product can have it; of linear_activation.cpp.
std::optional<Activation> activation_of(const Node& node);

// ---- origins
/// The most ONNX nodes that local rules merge into one node.
inline constexpr size_t kMaxOrigins = 128;
/// May the node take over the origins of `inner`, the producer of one of its inputs?
bool can_absorb(const Graph& graph, NodeId node, const Node& inner);
/// Takes them over, after the node's own. An `inner` without other users loses them.
void absorb_origins(Graph& graph, NodeId node, const Node& inner);

/// Collects origins of the nodes that a composite absorbs; `part` names their part of it.
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
