// g(f(a, b), c) ⇒ FusedElementwise{"f(%0,%1);g(%3,%2)"}(a, b, c)
//   requires: every operator elementwise with one output; every inner result used only inside the
//   chain, and of the chain's shape (a smaller one would be computed again for every row); one
//   request that satisfies all nodes; no type of 8 bits and fewer that values are rounded to, which
//   would be lost inside (dtype.h: is_small_float, is_small_integer). A decision about floats stays
//   a step of its own, so that verify can follow it (docs/decisions/0012-decisions-are-steps.md).
//   Chains are maximal: they grow upward from their last node, and nodes are visited from the end.
#include <algorithm>
#include <map>
#include <set>

#include "core/decisions.h"
#include "core/op_attrs.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

// Limits of one loop: operand pointers, and results on its stack.
constexpr size_t kMaxInputs = 12;
constexpr size_t kMaxInstructions = 32;

bool decides(const Graph& graph, const Node& n) {
  std::vector<DType> in;
  for (ValueId v : n.inputs) in.push_back(graph.value(v).dtype);
  return is_decision(n.op, in, graph.value(n.outputs[0]).dtype);
}

bool has_small_type(const Graph& graph, const Node& n) {
  const auto is_small = [&graph](ValueId v) {
    const DType type = v == kNoValue ? DType::kUndefined : graph.value(v).dtype;
    return is_small_float(type) || is_small_integer(type);
  };
  return std::ranges::any_of(n.inputs, is_small) || std::ranges::any_of(n.outputs, is_small);
}

bool fusable(const Graph& graph, const Node& n) {
  if ((flags(n.op) & kElementwise) == 0 || n.op == OpKind::kFusedElementwise) return false;
  if (n.op == OpKind::kIdentity || n.outputs.size() != 1 || !n.has_output(0)) return false;
  if (graph.value(n.outputs[0]).values) return false;  // sizes are computed on the host
  if (std::ranges::find(n.inputs, kNoValue) != n.inputs.end()) return false;
  return !decides(graph, n) && !has_small_type(graph, n);
}

class Chain {
 public:
  /// `position`: of every node in the graph's order.
  Chain(const Graph& graph, NodeId root, const std::vector<size_t>& position)
      : graph_(graph), root_(root), request_(graph.node(root).request) {
    members_.insert(root);
    // A new member removes at most one input, so with more than one too many no node fits.
    const bool can_grow = inputs_with_members() <= kMaxInputs + 1;
    while (can_grow && members_.size() < kMaxInstructions && grow()) {
    }
    order_.assign(members_.begin(), members_.end());
    std::sort(order_.begin(), order_.end(),
              [&](NodeId a, NodeId b) { return position[a] < position[b]; });
  }

  size_t size() const { return members_.size(); }
  const std::vector<NodeId>& order() const { return order_; }
  const Request& request() const { return request_; }

  std::vector<ValueId> inputs() const {
    std::vector<ValueId> list;
    for (NodeId id : order_) {
      for (ValueId v : graph_.node(id).inputs) {
        if (inside(v) || std::find(list.begin(), list.end(), v) != list.end()) continue;
        list.push_back(v);
      }
    }
    return list;
  }

  std::string program(const std::vector<ValueId>& inputs) const {
    std::map<ValueId, size_t> number;
    for (ValueId v : inputs) number.emplace(v, number.size());
    std::string text;
    for (NodeId id : order_) {
      const Node& n = graph_.node(id);
      if (!text.empty()) text += ';';
      text += std::string(name(n.op)) + print_attrs(n.op, n.attrs) + '(';
      for (size_t i = 0; i < n.inputs.size(); ++i)
        text += (i ? ",%" : "%") + std::to_string(number.at(n.inputs[i]));
      text += ')';
      number.emplace(n.outputs[0], number.size());
    }
    return text;
  }

 private:
  bool inside(ValueId v) const {
    const ir::NodeId producer = graph_.value(v).producer;
    return producer != ir::kNoNode && members_.contains(producer);
  }

  // Adds one producer whose uses are all inside the chain; false if there is none.
  bool grow() {
    const SymShape& shape = shape_of(graph_, graph_.node(root_).outputs[0]);
    std::set<ValueId> seen;  // an operand may be read many times
    for (NodeId id : members_) {
      for (ValueId v : graph_.node(id).inputs) {
        if (!seen.insert(v).second) continue;
        const Node* n = graph_.producer(v);
        if (!n || inside(v) || !fusable(graph_, *n) || graph_.is_output(v)) continue;
        const auto& users = graph_.value(v).users;
        const bool only_here = std::all_of(users.begin(), users.end(),
                                           [&](NodeId user) { return members_.contains(user); });
        if (!only_here || !same_shape(shape_of(graph_, v), shape)) continue;
        const auto request =
            vernier::fused_request(n->request, Part::kOther, request_, Part::kOther);
        if (!request) continue;
        const NodeId candidate = graph_.value(v).producer;
        members_.insert(candidate);
        if (inputs_with_members() <= kMaxInputs) {
          request_ = *request;
          return true;
        }
        members_.erase(candidate);
      }
    }
    return false;
  }
  size_t inputs_with_members() const {
    std::set<ValueId> list;
    for (NodeId id : members_) {
      for (ValueId v : graph_.node(id).inputs) {
        if (!inside(v)) list.insert(v);
      }
    }
    return list.size();
  }

  const Graph& graph_;
  NodeId root_;
  Request request_;  // of all members
  std::set<NodeId> members_;
  std::vector<NodeId> order_;
};

}  // namespace

int fuse_elementwise(Graph& graph) {
  int found = 0;
  const std::vector<NodeId> order = graph.order();
  std::vector<size_t> position(graph.num_nodes(), 0);
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!is_live(graph, *it) || !fusable(graph, graph.node(*it))) continue;
    const Chain chain(graph, *it, position);
    if (chain.size() < 2) continue;
    const std::vector<ValueId> inputs = chain.inputs();
    OriginSet origins;
    for (NodeId id : chain.order()) origins.add(graph, &graph.node(id));
    const FusedElementwiseAttrs attrs{chain.program(inputs)};
    mutate(graph, *it, OpKind::kFusedElementwise, inputs, attrs);
    graph.node(*it).origins = origins.list();
    graph.node(*it).request = chain.request();
    for (auto inner = chain.order().rbegin(); inner != chain.order().rend(); ++inner)
      graph.drop_dead(*inner);
    ++found;
  }
  graph.remove_dead();
  return found;
}

}  // namespace vernier::passes
