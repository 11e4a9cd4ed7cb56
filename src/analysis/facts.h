// Facts about one graph: what a value is, its producer and users, what is proven of its shape.
// Nothing here changes a graph or reads a node or value name.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace vernier::analysis {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

/// The producer of `value` if it is an `op` that may become part of a composite, else null.
/// kNoValue is allowed.
const Node* producer_of(const Graph& graph, ValueId value, OpKind op);
const SymShape& shape_of(const Graph& graph, ValueId value);
DType dtype_of(const Graph& graph, ValueId value);
int64_t rank_of(const Graph& graph, ValueId value);
/// The contents of `value` if it is a constant, else null.
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
/// A copy of the users of `value`, one entry per use: for callers that change uses meanwhile.
std::vector<NodeId> users_of(const Graph& graph, ValueId value);
/// The only user of `value`, if it has exactly one use, is not a graph output and the user may
/// become part of a composite; else kNoNode.
NodeId sole_user(const Graph& graph, ValueId value);
/// The shape that the shapes broadcast to, with sizes compared symbolically; empty if unproven.
std::optional<SymShape> broadcast_shape(std::span<const SymShape> shapes);
/// True if two sizes are equal: provably, or because a guard of the graph requires it.
bool same_size(const Graph& graph, const Dim& a, const Dim& b);
/// True if sizes are equal axis by axis, provably.
bool same_shape(const SymShape& a, const SymShape& b);
/// How a reshape maps axes: input axes [in_begin, in_end) hold the same elements in the same order
/// as output axes [out_begin, out_end).
struct AxisGroup {
  size_t in_begin, in_end, out_begin, out_end;
};
/// The finest such groups, in order; empty if the sizes are not comparable (one of them is 0).
std::vector<AxisGroup> reshape_groups(const SymShape& in, const SymShape& out);
/// True if the shapes differ in axes of size 1 only.
bool differ_by_unit_axes(const SymShape& a, const SymShape& b);
/// Is `value` equal to `wanted` within the rounding of `dtype`?
bool nearly(double value, double wanted, DType dtype = DType::kF32);

/// Does the operator normalize: LayerNorm, RMSNorm, GroupNormalization, or a fusion with one?
bool is_norm(OpKind op);
/// The request of a node that computes `producer` and `consumer` in one step with the value between
/// them in a register; empty if that violates a request of either.
std::optional<Request> fused_request(const Node& producer, const Node& consumer);

/// The value under Casts between float types, at most 16 of them.
ValueId under_casts(const Graph& graph, ValueId value);

/// The same value, or computed by an equal node from the same values.
bool same_value(const Graph& graph, ValueId a, ValueId b);

/// The axis if `node` reduces the last axes [axis, rank) of its input and keeps them as 1.
std::optional<int64_t> reduces_last_axes(const Graph& graph, const Node& node);

/// True if the value is max(inner, minimum) with a constant minimum > 0: Clip without an upper
/// bound, or Max of two with the constant last. `inner` and `minimum` are set only then.
bool is_clamped(const Graph& graph, ValueId value, ValueId& inner, double& minimum);

}  // namespace vernier::analysis
