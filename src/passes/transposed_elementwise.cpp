// Transpose(f(Transpose(x), …)) ⇒ f(x, …)   f: an elementwise operator, or a tree of them
//   requires: the outer transpose undoes the inner ones; results inside the tree have its rank and
//   are read inside it only; its other operands are constants that lie along one axis (which is
//   moved); one type and one request for a transpose and the operator beside it.
//   Every element is computed from the same numbers at another place, so no bit changes. Exporters
//   from channels-last frameworks write such pairs around biases and activations.
#include <algorithm>
#include <map>

#include "ir/derivations.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

using enum OpKind;

constexpr size_t kMostNodes = 32;  // of one tree: a walk from one node is bounded

// Does `outer` put back the axes that `inner` moved?
bool undoes(const std::vector<int64_t>& outer, const Node& inner) {
  const auto perm = inner.attrs_as<TransposeAttrs>().perm;
  if (perm.size() != outer.size()) return false;
  for (size_t axis = 0; axis < outer.size(); ++axis) {
    if (perm[outer[axis]] != static_cast<int64_t>(axis)) return false;
  }
  return true;
}

// The elementwise nodes between one outer transpose and inner ones.
class Tree {
 public:
  Tree(Graph& graph, NodeId outer)
      : graph_(graph),
        outer_(outer),
        perm_(graph.node(outer).attrs_as<TransposeAttrs>().perm),
        result_(graph.node(outer).inputs[0]) {}

  bool rewrite() {
    if (!find_nodes() || !find_requests()) return false;
    const NodeId root = nodes_.front();
    const Node f = graph_.node(root);
    std::vector<ValueId> inputs = moved_operands(f);
    graph_.retire(graph_.node(outer_).origins, LedgerState::kRemoved,
                  "undoes a transpose before it");
    Node& made = graph_.node(outer_);
    made.name = f.name;
    made.origins = f.origins;
    made.request = requests_.at(root);
    mutate(graph_, outer_, f.op, std::move(inputs), f.attrs);
    graph_.drop_dead(root);
    return true;
  }

 private:
  bool holds(NodeId id) const { return std::ranges::find(nodes_, id) != nodes_.end(); }

  // An elementwise node whose result nothing outside reads.
  bool belongs(NodeId id) const {
    const Node& n = graph_.node(id);
    if ((flags(n.op) & kElementwise) == 0 || n.outputs.size() != 1 || n.apart) return false;
    const ValueId value = n.outputs[0];
    if (graph_.is_output(value) || rank_of(graph_, value) != rank_of(graph_, result_)) return false;
    const auto& users = graph_.value(value).users;
    return std::all_of(users.begin(), users.end(),
                       [this](NodeId user) { return user == outer_ || holds(user); });
  }

  // All that belong, those first that others read last.
  bool find_nodes() {
    const NodeId root = graph_.value(result_).producer;
    if (graph_.node(outer_).apart || root == ir::kNoNode || !belongs(root)) return false;
    nodes_ = {root};
    for (bool grows = true; grows;) {
      grows = false;
      for (size_t k = 0; k < nodes_.size(); ++k) {
        for (ValueId operand : graph_.node(nodes_[k]).inputs) {
          const NodeId from = operand == kNoValue ? ir::kNoNode : graph_.value(operand).producer;
          if (from == ir::kNoNode || holds(from) || !belongs(from)) continue;
          if (nodes_.size() == kMostNodes) return false;
          nodes_.push_back(from);
          grows = true;
        }
      }
    }
    return true;
  }

  const Node* inner_transpose(ValueId operand) const {
    const Node* n = producer_of(graph_, operand, kTranspose);
    const bool fits =
        n && undoes(perm_, *n) && dtype_of(graph_, n->inputs[0]) == dtype_of(graph_, operand);
    return fits ? n : nullptr;
  }

  // A constant whose elements keep their order wherever its axes go.
  const Tensor* one_axis_constant(ValueId operand) const {
    const Tensor* t = constant_of(graph_, operand);
    if (!t || t->elems() == 0 || t->shape().size() > perm_.size()) return nullptr;
    const auto long_axes =
        std::ranges::count_if(t->shape(), [](int64_t size) { return size != 1; });
    return long_axes <= 1 ? t : nullptr;
  }

  // Every other operand can be moved, and there is a request for each node.
  bool find_requests() {
    if (dtype_of(graph_, result_) != dtype_of(graph_, graph_.node(outer_).outputs[0])) return false;
    bool has_transpose = false;
    for (NodeId id : nodes_) {
      const Node& n = graph_.node(id);
      std::optional<Request> request = n.request;
      if (id == nodes_.front()) request = common_request(*request, graph_.node(outer_).request);
      for (ValueId operand : n.inputs) {
        if (operand == kNoValue || holds(graph_.value(operand).producer)) continue;
        const Node* transpose = inner_transpose(operand);
        if (!transpose && !one_axis_constant(operand)) return false;
        if (transpose && request) request = common_request(*request, transpose->request);
        has_transpose = has_transpose || transpose;
      }
      if (!request) return false;
      requests_.emplace(id, *request);
    }
    return has_transpose;
  }

  ValueId moved(ValueId operand) {
    if (operand == kNoValue) return operand;
    const NodeId from = graph_.value(operand).producer;
    if (holds(from)) return moved_result(from);
    if (const Node* transpose = inner_transpose(operand)) return transpose->inputs[0];
    const Tensor& constant = *one_axis_constant(operand);
    if (constant.elems() == 1) return operand;
    Shape whole(perm_.size() - constant.shape().size(), 1), shape;
    whole.insert(whole.end(), constant.shape().begin(), constant.shape().end());
    for (int64_t axis : perm_) shape.push_back(whole[axis]);
    return ir::add_reshaped_constant(graph_, operand, std::move(shape));
  }
  std::vector<ValueId> moved_operands(const Node& n) {
    std::vector<ValueId> operands;
    for (ValueId operand : n.inputs) operands.push_back(moved(operand));
    return operands;
  }
  // The node again, on operands that are not transposed.
  ValueId moved_result(NodeId id) {
    if (const auto done = results_.find(id); done != results_.end()) return done->second;
    const Node n = graph_.node(id);
    std::vector<ValueId> operands = moved_operands(n);
    const NodeId copy = graph_.add_node(n.op, std::move(operands), n.attrs, 1);
    Node& made = graph_.node(copy);
    made.name = n.name;
    made.origins = n.origins;
    made.request = requests_.at(id);
    ops::infer_node(graph_, copy);
    return results_[id] = graph_.node(copy).outputs[0];
  }

  Graph& graph_;
  NodeId outer_;
  std::vector<int64_t> perm_;
  ValueId result_;
  std::vector<NodeId> nodes_;  // the root first
  std::map<NodeId, Request> requests_;
  std::map<NodeId, ValueId> results_;
};

}  // namespace

int drop_transposes(Graph& graph) {
  int found = 0;
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (is_live(graph, id) && graph.node(id).op == kTranspose) found += Tree(graph, id).rewrite();
  }
  return found;
}

}  // namespace vernier::passes
