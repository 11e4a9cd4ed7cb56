// Largest indices of Gathers as expressions of sizes: see table_bounds.h.
#include "plan/table_bounds.h"

#include "analysis/index.h"
#include "core/attrs.h"

namespace vernier::plan {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;

constexpr int kMaxDepth = 32;

struct Reach {
  Dim last;
  bool always = true;
};
using MaybeReach = std::optional<Reach>;

MaybeReach reach(const Graph& graph, ValueId value, int depth);

// Views that keep every element of their input: what is read of the result is read of all of it.
// Others of kMoves (Slice, Gather) may drop the largest.
bool moves_all(OpKind op) {
  return (flags(op) & kView) != 0 && op != OpKind::kSlice && op != OpKind::kSplit;
}

// 0 and 1: a bool, through casts. With `inputs` an integer that the caller gives counts too.
bool is_mask(const Graph& graph, ValueId value, bool inputs) {
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (analysis::dtype_of(graph, value) == DType::kBool) return true;
    const Node* n = graph.producer(value);
    if (!n) return inputs && !graph.value(value).is_constant();
    if (n->op != OpKind::kCast && !moves_all(n->op)) return false;
    value = n->inputs[0];
  }
  return false;
}

// The sum over a mask of ones is as long as its axis. Nothing but a mask is summed to an index, so
// one that the caller gives is taken for a mask.
MaybeReach of_cum_sum(const Graph& graph, const Node& n) {
  const auto axis = analysis::integers_of(graph, n.inputs[1]);
  const SymShape& shape = analysis::shape_of(graph, n.inputs[0]);
  if (!axis || axis->size() != 1) return std::nullopt;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto at = static_cast<size_t>(((*axis)[0] + rank) % rank);
  const Dim count = shape[at] - Dim(n.attrs_as<CumSumAttrs>().exclusive ? 1 : 0);
  if (const auto each = analysis::uniform(graph, n.inputs[0]); each && *each >= 0)
    return Reach{count * Dim(static_cast<int64_t>(*each))};
  if (!is_mask(graph, n.inputs[0], true)) return std::nullopt;
  return Reach{count, false};
}

// x + c, x − c, x · mask, x · c with c > 0
MaybeReach of_arithmetic(const Graph& graph, const Node& n, int depth) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = n.inputs[i], other = n.inputs[1 - i];
    const bool masks = n.op == OpKind::kMul && is_mask(graph, other, false);
    const auto c = analysis::uniform(graph, other);
    if (!masks && (!c || (n.op == OpKind::kSub && i == 1))) continue;
    MaybeReach r = reach(graph, x, depth);
    if (!r) return std::nullopt;
    if (masks) {
      r->always = false;
      return r;
    }
    const Dim number(static_cast<int64_t>(*c));
    if (n.op == OpKind::kMul && *c <= 0) return std::nullopt;
    r->last = n.op == OpKind::kAdd   ? r->last + number
              : n.op == OpKind::kSub ? r->last - number
                                     : r->last * number;
    return r;
  }
  return std::nullopt;
}

// A constant at padding, positions elsewhere.
MaybeReach of_where(const Graph& graph, const Node& n, int depth) {
  for (size_t i = 1; i < 3; ++i) {
    const auto c = analysis::uniform(graph, n.inputs[3 - i]);
    MaybeReach r = c ? reach(graph, n.inputs[i], depth) : std::nullopt;
    if (!r) continue;
    return Reach{max(r->last, Dim(static_cast<int64_t>(*c))), false};
  }
  return std::nullopt;
}

MaybeReach reach(const Graph& graph, ValueId value, int depth) {
  if (value == ir::kNoValue || depth > kMaxDepth || is_float(analysis::dtype_of(graph, value)))
    return std::nullopt;
  if (analysis::affine(graph, value)) {
    const auto high = analysis::bounds(graph, value).high;
    return high ? MaybeReach(Reach{*high}) : std::nullopt;
  }
  const Node* n = graph.producer(value);
  if (!n) return std::nullopt;
  if (moves_all(n->op) || n->op == OpKind::kCast) return reach(graph, n->inputs[0], depth + 1);
  switch (n->op) {
    case OpKind::kCumSum:
      return of_cum_sum(graph, *n);
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
      return of_arithmetic(graph, *n, depth + 1);
    case OpKind::kWhere:
      return of_where(graph, *n, depth + 1);
    default:
      return std::nullopt;
  }
}

std::string label(const Node& n) {
  if (!n.name.empty() || n.origins.empty()) return n.name;
  return n.origins.front().name;
}

}  // namespace

std::vector<TableBound> table_bounds(const ir::Graph& raised) {
  std::vector<TableBound> bounds;
  for (ir::NodeId id : raised.order()) {
    const Node& n = raised.node(id);
    if (n.op != OpKind::kGather) continue;
    const SymShape& table = analysis::shape_of(raised, n.inputs[0]);
    const auto rank = static_cast<int64_t>(table.size());
    if (rank == 0) continue;
    const int64_t axis = (n.attrs_as<AxisAttrs>().axis + rank) % rank;
    const auto rows = table[axis].as_constant();
    const MaybeReach r = rows ? reach(raised, n.inputs[1], 0) : std::nullopt;
    if (!r || r->last.is_constant()) continue;
    bounds.push_back({r->last, *rows, r->always, label(n)});
  }
  return bounds;
}

}  // namespace vernier::plan
