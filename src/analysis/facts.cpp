// Facts about values and nodes: see facts.h.
#include "analysis/facts.h"

#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "rules/context.h"

namespace vernier::analysis {

const Node* producer_of(const Graph& graph, ValueId value, OpKind op) {
  const Node* node = value == kNoValue ? nullptr : graph.producer(value);
  return node && node->op == op && !node->apart ? node : nullptr;
}
std::optional<Request> fused_request(const Node& producer, const Node& consumer) {
  const auto part = [](const Node& n) {
    return (flags(n.op) & kProduct) != 0 ? Part::kProduct : Part::kOther;
  };
  return vernier::fused_request(producer.request, part(producer), consumer.request, part(consumer));
}
const SymShape& shape_of(const Graph& graph, ValueId value) { return graph.value(value).shape; }
DType dtype_of(const Graph& graph, ValueId value) { return graph.value(value).dtype; }
int64_t rank_of(const Graph& graph, ValueId value) {
  return static_cast<int64_t>(graph.value(value).shape.size());
}
const Tensor* constant_of(const Graph& graph, ValueId value) {
  if (value == kNoValue || !graph.value(value).is_constant()) return nullptr;
  return &graph.value(value).constant;
}

std::optional<double> uniform(const Graph& graph, ValueId value) {
  while (const Node* expand = producer_of(graph, value, OpKind::kExpand)) value = expand->inputs[0];
  return value == kNoValue ? std::nullopt : graph.value(value).uniform;
}

std::optional<std::vector<int64_t>> integers_of(const Graph& graph, ValueId value) {
  if (value == kNoValue || is_float(dtype_of(graph, value))) return std::nullopt;
  if (const Tensor* t = constant_of(graph, value)) {
    if (t->elems() > rules::kMaxSymbolicElems) return std::nullopt;
    return t->integers();
  }
  const auto& values = graph.value(value).values;
  if (!values) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Dim& d : *values) {
    if (!d.is_constant()) return std::nullopt;
    numbers.push_back(d.constant());
  }
  return numbers;
}

bool is_live(const Graph& graph, NodeId node) {
  const Node& n = graph.node(node);
  if (n.removed) return false;
  return std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId out) {
    return out != kNoValue && (!graph.value(out).users.empty() || graph.is_output(out));
  });
}

std::vector<NodeId> users_of(const Graph& graph, ValueId value) {
  const ir::UserList& users = graph.value(value).users;
  return {users.begin(), users.end()};
}

NodeId sole_user(const Graph& graph, ValueId value) {
  if (!graph.single_use(value)) return ir::kNoNode;
  const NodeId user = graph.value(value).users.front();
  return graph.node(user).apart ? ir::kNoNode : user;
}

std::optional<SymShape> broadcast_shape(std::span<const SymShape> shapes) {
  size_t rank = 0;
  for (const SymShape& s : shapes) rank = std::max(rank, s.size());
  SymShape result(rank, Dim(1));
  for (const SymShape& s : shapes) {
    for (size_t i = 0; i < s.size(); ++i) {
      Dim& out = result[rank - s.size() + i];
      if (s[i] == Dim(1) || out == s[i]) continue;
      if (!(out == Dim(1))) return std::nullopt;
      out = s[i];
    }
  }
  return result;
}

bool same_size(const Graph& graph, const Dim& a, const Dim& b) {
  return a == b || std::ranges::any_of(graph.guards, [&](const ir::Guard& guard) {
           return (guard.lhs == a && guard.rhs == b) || (guard.lhs == b && guard.rhs == a);
         });
}

bool same_shape(const SymShape& a, const SymShape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::vector<AxisGroup> reshape_groups(const SymShape& in, const SymShape& out) {
  const auto is_empty = [](const Dim& d) { return d == Dim(0); };
  if (std::ranges::any_of(in, is_empty) || std::ranges::any_of(out, is_empty)) return {};
  std::vector<AxisGroup> groups;
  size_t i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    AxisGroup g{i, i, o, o};
    Dim a = 1, b = 1;
    if (i < in.size()) a = in[i++];
    if (o < out.size()) b = out[o++];
    while (!(a == b)) {
      const bool grow_in = i < in.size() && (o == out.size() || mod(b, a) == Dim(0));
      const bool grow_out = o < out.size() && (i == in.size() || mod(a, b) == Dim(0));
      if (grow_in)
        a = a * in[i++];
      else if (grow_out)
        b = b * out[o++];
      else
        return {};
    }
    g.in_end = i;
    g.out_end = o;
    groups.push_back(g);
  }
  return groups;
}

bool differ_by_unit_axes(const SymShape& a, const SymShape& b) {
  const auto units_dropped = [](SymShape s) {
    std::erase_if(s, [](const Dim& d) { return d == Dim(1); });
    return s;
  };
  return same_shape(units_dropped(a), units_dropped(b));
}

bool nearly(double value, double wanted, DType dtype) {
  // Three roundings of the storage type: exporters compute such numbers in it.
  const double unit = dtype == DType::kF16 ? 0x1p-11 : dtype == DType::kBF16 ? 0x1p-8 : 0x1p-20;
  return std::abs(value - wanted) <= 3 * unit * std::abs(wanted);
}

bool is_norm(OpKind op) {
  const auto points = rounding_points(op);
  return std::find(points.begin(), points.end(), "normalised") != points.end();
}

ValueId under_casts(const Graph& graph, ValueId value) {
  constexpr int kMaxCasts = 16;  // exporters write one or two
  for (int taken = 0; taken < kMaxCasts; ++taken) {
    const Node* cast = producer_of(graph, value, OpKind::kCast);
    if (!cast) break;
    const DType from = dtype_of(graph, cast->inputs[0]), to = dtype_of(graph, value);
    if (!is_float(from) || !is_float(to) || is_small_float(from) || is_small_float(to)) break;
    value = cast->inputs[0];
  }
  return value;
}

bool same_value(const Graph& graph, ValueId a, ValueId b) {
  if (a == b) return true;
  const Node *x = graph.producer(a), *y = graph.producer(b);
  return x && y && x->op == y->op && x->inputs == y->inputs && x->attrs == y->attrs &&
         x->outputs.size() == 1 && y->outputs.size() == 1;
}

std::optional<int64_t> reduces_last_axes(const Graph& graph, const Node& node) {
  const auto attrs = node.attrs_as<ReduceAttrs>();
  const int64_t rank = rank_of(graph, node.inputs[0]);
  if (!attrs.keepdims || attrs.axes.empty() || node.inputs.size() != 1) return std::nullopt;
  int64_t expected = rank - static_cast<int64_t>(attrs.axes.size());
  for (int64_t axis : attrs.axes) {
    if ((axis + rank) % rank != expected++) return std::nullopt;
  }
  return rank - static_cast<int64_t>(attrs.axes.size());
}

bool is_clamped(const Graph& graph, ValueId value, ValueId& inner, double& minimum) {
  value = under_casts(graph, value);
  const Node* n = producer_of(graph, value, OpKind::kClip);
  if (!n) n = producer_of(graph, value, OpKind::kMax);
  if (!n || n->inputs.size() < 2) return false;
  const bool is_clip = n->op == OpKind::kClip;
  const bool upper = is_clip && n->has_input(2);
  if (upper || (!is_clip && n->inputs.size() != 2)) return false;
  const auto c = uniform(graph, n->inputs[1]);
  if (!c || !(*c > 0)) return false;
  inner = n->inputs[0];
  minimum = *c;
  return true;
}

}  // namespace vernier::analysis
