// Residual sums, feed-forward branches and layers of a raised graph: see layers.h.
#include "analysis/layers.h"

#include <algorithm>
#include <span>
#include <unordered_set>

namespace vernier::analysis {
namespace {

using ir::kNoNode;

constexpr size_t kMaxNodes = 1024;  // per branch: a layer of a Transformer has a few dozen nodes
constexpr size_t kOperands = 3;     // q, k and v come first among an Attention's inputs

bool is_view(OpKind op) { return (flags(op) & kView) != 0; }
bool is_elementwise(OpKind op) { return (flags(op) & kElementwise) != 0 && !is_view(op); }

class Reader {
 public:
  explicit Reader(const Graph& graph) : graph_(graph), position_(graph.num_nodes(), -1) {
    const size_t nodes = graph.num_nodes();
    result_.of.assign(nodes, Layers::kNone);
    result_.skip.assign(nodes, kNoValue);
    for (NodeSet* set : {&result_.ffn_up, &result_.ffn_down, &result_.before, &result_.behind})
      set->assign(nodes, false);
    int next = 0;
    for (NodeId id : graph.order()) {
      position_[at(id)] = next++;
      if (node(id).op == OpKind::kAttention) attentions_.push_back(id);
    }
  }

  Layers run() {
    for (NodeId id : graph_.order()) read_residual(id);
    for (NodeId id : graph_.order()) read_feed_forward(id);
    group_attentions();
    find_feeders();
    find_layers();
    find_before();
    return std::move(result_);
  }

 private:
  static size_t at(NodeId id) { return static_cast<size_t>(id); }
  const Node& node(NodeId id) const { return graph_.node(id); }
  bool is_residual(NodeId id) const { return result_.is_residual(id); }
  bool is_float_value(ValueId v) const { return v != kNoValue && is_float(graph_.value(v).dtype); }
  /// The producer of a float value; kNoNode for inputs, constants, integers and absent values.
  NodeId maker(ValueId v) const { return is_float_value(v) ? graph_.value(v).producer : kNoNode; }
  bool makes_floats(const Node& n) const {
    return std::any_of(n.outputs.begin(), n.outputs.end(),
                       [&](ValueId v) { return is_float_value(v); });
  }
  bool touches_floats(const Node& n) const {
    return makes_floats(n) || std::any_of(n.inputs.begin(), n.inputs.end(),
                                          [&](ValueId v) { return is_float_value(v); });
  }
  /// The inputs that a node's values are computed from: not the masks and tables of an Attention.
  static std::span<const ValueId> operands(const Node& n) {
    return n.op == OpKind::kAttention ? std::span(n.inputs).first(kOperands) : std::span(n.inputs);
  }
  /// The node that a value comes from, looking through views.
  NodeId maker_under_views(ValueId v) const {
    NodeId id = maker(v);
    while (id != kNoNode && is_view(node(id).op)) id = maker(node(id).inputs[0]);
    return id;
  }
  int position(ValueId v) const {
    const NodeId id = graph_.value(v).producer;
    return id == kNoNode ? -1 : position_[at(id)];
  }

  // ---- residual sums

  /// Is `branch` computed from `stem`, with a product of matrices on the way?
  bool branches_off(ValueId branch, ValueId stem) const {
    const int first = position(stem);
    std::vector<std::pair<ValueId, bool>> open{{branch, false}};
    std::unordered_set<NodeId> seen[2];
    while (!open.empty() && seen[0].size() + seen[1].size() <= kMaxNodes) {
      const auto [value, above] = open.back();
      open.pop_back();
      if (value == stem && above) return true;
      const NodeId id = maker(value);
      if (id == kNoNode || position_[at(id)] <= first) continue;
      const bool product = above || (flags(node(id).op) & kProduct) != 0;
      if (!seen[product].insert(id).second) continue;
      for (ValueId in : node(id).inputs) {
        if (is_float_value(in)) open.emplace_back(in, product);
      }
    }
    return false;
  }

  /// As branches_off, also if `sum` is itself a residual sum: (x + f(x)) + g(x).
  bool is_skip(ValueId sum, ValueId branch) const {
    constexpr int kBranches = 4;  // parallel branches; GPT-J has two
    std::vector<ValueId> stems{sum};
    for (int i = 0; i < kBranches && !stems.empty(); ++i) {
      std::vector<ValueId> deeper;
      for (ValueId stem : stems) {
        if (graph_.value(stem).is_constant()) continue;
        if (branches_off(branch, stem)) return true;
        const NodeId id = maker(stem);
        if (id == kNoNode || !is_residual(id)) continue;
        deeper.push_back(result_.skip[at(id)]);
      }
      stems = std::move(deeper);
    }
    return false;
  }

  void read_residual(NodeId id) {
    const Node& n = node(id);
    if (n.op != OpKind::kAdd || !makes_floats(n)) return;
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (!is_skip(n.inputs[i], n.inputs[1 - i])) continue;
      result_.skip[at(id)] = n.inputs[i];
      return;
    }
  }
  ValueId branch_of(NodeId residual) const {
    const Node& n = node(residual);
    return n.inputs[0] == result_.skip[at(residual)] ? n.inputs[1] : n.inputs[0];
  }

  // ---- feed-forward branches

  /// Linear layers that `value` comes from through views and elementwise operators only: all, or
  /// those with something elementwise between.
  enum class Between : uint8_t { kAnything, kElementwise };
  std::vector<NodeId> linears_above(ValueId value, Between between) const {
    std::vector<NodeId> found;
    std::vector<std::pair<ValueId, bool>> open{{value, between == Between::kAnything}};
    std::unordered_set<NodeId> seen[2];
    while (!open.empty() && seen[0].size() + seen[1].size() <= kMaxNodes) {
      const auto [v, counts] = open.back();
      open.pop_back();
      const NodeId id = maker(v);
      if (id == kNoNode || is_residual(id) || !seen[counts].insert(id).second) continue;
      const OpKind op = node(id).op;
      if (op == OpKind::kLinear && counts) found.push_back(id);
      if (!is_view(op) && !is_elementwise(op)) continue;
      const bool passed = counts || (is_elementwise(op) && op != OpKind::kCast);
      for (ValueId in : node(id).inputs) {
        if (is_float_value(in)) open.emplace_back(in, passed);
      }
    }
    return found;
  }

  void read_feed_forward(NodeId id) {
    if (!is_residual(id)) return;
    for (NodeId down : linears_above(branch_of(id), Between::kAnything)) {
      const auto ups = linears_above(node(down).inputs[0], Between::kElementwise);
      for (NodeId up : ups) result_.ffn_up[at(up)] = true;
      if (ups.empty() || result_.ffn_down[at(down)]) continue;
      result_.ffn_down[at(down)] = true;
      downs_.push_back(down);
    }
  }

  // ---- layers

  /// The values that a node is computed from; for an Attention only q, k and v.
  NodeSet ancestors(std::span<const ValueId> values) const {
    NodeSet found(graph_.num_nodes());
    std::vector<ValueId> open(values.begin(), values.end());
    while (!open.empty()) {
      const NodeId id = maker(open.back());
      open.pop_back();
      if (id == kNoNode || found[at(id)]) continue;
      found[at(id)] = true;
      const auto inputs = operands(node(id));
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
    return found;
  }

  /// An attention joins the group of the one that its query comes from, unless a feed-forward
  /// branch was added since: self and cross attention of a decoder are one layer.
  void group_attentions() {
    std::vector<int> group(attentions_.size());
    std::vector<NodeSet> above;
    int groups = 0;
    for (size_t i = 0; i < attentions_.size(); ++i) {
      const auto inputs = operands(node(attentions_[i]));
      const NodeSet query = ancestors(inputs.first(1));
      above.push_back(ancestors(inputs));
      group[i] = groups;
      for (size_t j = i; j-- > 0;) {
        if (!query[at(attentions_[j])]) continue;
        const bool apart = downs_.empty() ||
                           std::any_of(downs_.begin(), downs_.end(),
                                       [&](NodeId d) { return query[at(d)] && !above[j][at(d)]; });
        if (!apart) group[i] = group[j];
        break;
      }
      groups += group[i] == groups;
    }
    number_groups(group, groups);
  }

  /// In order of depth: by the position of each group's last attention.
  void number_groups(const std::vector<int>& group, int groups) {
    std::vector<int> number(static_cast<size_t>(groups), Layers::kNone);
    result_.count = groups;
    int next = groups;
    for (size_t i = attentions_.size(); i-- > 0;) {
      int& layer = number[group[i]];
      if (layer == Layers::kNone) layer = --next;
      result_.of[at(attentions_[i])] = layer;
    }
  }

  /// The layer in which all uses of a node end, through q, k and v; kNone if there is none.
  int fed_layer(const Node& n) const {
    int layer = Layers::kNone;
    for (ValueId out : n.outputs) {
      if (out == kNoValue) continue;
      for (NodeId user : graph_.value(out).users) {
        const auto& in = node(user).inputs;
        const bool attention = node(user).op == OpKind::kAttention;
        if (attention && std::find(in.begin() + kOperands, in.end(), out) != in.end())
          return Layers::kNone;
        if (!attention && !feeder_[at(user)]) return Layers::kNone;
        const int users = result_.of[at(user)];
        if (layer != Layers::kNone && layer != users) return Layers::kNone;
        layer = users;
      }
    }
    return layer;
  }

  /// Projections to q, k and v, the nodes between them and the attention, and the norm before them,
  /// if all their results end in one layer's attention.
  void find_feeders() {
    feeder_.assign(graph_.num_nodes(), false);
    NodeSet projected(graph_.num_nodes());  // a Linear layer or a node above one
    for (auto id = graph_.order().rbegin(); id != graph_.order().rend(); ++id) {
      const Node& n = node(*id);
      if (n.op == OpKind::kAttention || is_residual(*id) || !makes_floats(n)) continue;
      const int layer = fed_layer(n);
      if (layer == Layers::kNone) continue;
      bool above = n.op == OpKind::kLinear;
      for (ValueId out : n.outputs) {
        if (out == kNoValue) continue;
        for (NodeId user : graph_.value(out).users) above = above || projected[at(user)];
      }
      const bool near = n.op == OpKind::kLinear || is_norm(n.op) || is_view(n.op);
      if (above && !near) continue;
      feeder_[at(*id)] = true;
      projected[at(*id)] = above;
      result_.of[at(*id)] = layer;
    }
  }

  /// Attentions, residual sums and all nodes that they depend on.
  NodeSet stream() const {
    NodeSet found(graph_.num_nodes());
    for (auto id = graph_.order().rbegin(); id != graph_.order().rend(); ++id) {
      found[at(*id)] = found[at(*id)] || node(*id).op == OpKind::kAttention || is_residual(*id);
      if (!found[at(*id)]) continue;
      for (ValueId in : node(*id).inputs) {
        if (maker(in) != kNoNode) found[at(maker(in))] = true;
      }
    }
    return found;
  }

  /// The last node of a layer without a residual stream after it: an attention's output projection,
  /// or the norm after a residual sum in a post-norm model (its skip comes from a norm too).
  bool ends_layer(const Node& n) const {
    const NodeId before = n.inputs.empty() ? kNoNode : maker_under_views(n.inputs[0]);
    if (before == kNoNode) return false;
    if (n.op == OpKind::kLinear) return node(before).op == OpKind::kAttention;
    if (!is_norm(n.op) || !is_residual(before)) return false;
    const NodeId skip = maker_under_views(result_.skip[at(before)]);
    return skip != kNoNode && is_norm(node(skip).op);
  }

  void find_layers() {
    const NodeSet in_stream = stream();
    after_.assign(graph_.num_nodes(), Layers::kNone);
    for (NodeId id : graph_.order()) {
      const Node& n = node(id);
      int& after = after_[at(id)];
      if (n.op == OpKind::kAttention) {
        after = result_.of[at(id)];
        continue;
      }
      for (ValueId in : n.inputs) {
        if (maker(in) != kNoNode) after = std::max(after, after_[at(maker(in))]);
      }
      if (after == Layers::kNone || feeder_[at(id)] || !touches_floats(n)) continue;
      if (in_stream[at(id)] || ends_layer(n)) {
        result_.of[at(id)] = after;
      } else {
        result_.behind[at(id)] = true;
      }
    }
  }

  // ---- what comes before the first layers

  void find_before() {
    std::vector<ValueId> open;
    for (NodeId id : attentions_) {
      const auto inputs = operands(node(id));
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
    for (const NodeSet found = ancestors(open); NodeId id : graph_.order()) {
      result_.before[at(id)] = found[at(id)] && after_[at(id)] == Layers::kNone && !feeder_[at(id)];
    }
    if (!attentions_.empty()) return;
    for (NodeId id : graph_.order()) {
      if (node(id).op == OpKind::kGather && is_lookup(node(id))) result_.before[at(id)] = true;
    }
  }
  bool is_lookup(const Node& gather) const {
    const ir::Value& table = graph_.value(gather.inputs[0]);
    return table.is_constant() && is_float(table.dtype) && table.shape.size() == 2 &&
           !graph_.value(gather.inputs[1]).is_constant();
  }

  const Graph& graph_;
  std::vector<int> position_;  // in topological order
  std::vector<NodeId> attentions_, downs_;
  NodeSet feeder_;
  std::vector<int> after_;  // the last layer that a node descends from
  Layers result_;
};

}  // namespace

Layers layers_of(const Graph& raised) { return Reader(raised).run(); }

}  // namespace vernier::analysis
