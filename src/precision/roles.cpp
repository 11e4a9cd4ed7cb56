// Roles and blocks of a raised graph: see roles.h. The table of definitions: docs/precision.md.
#include "precision/roles.h"

#include <algorithm>
#include <unordered_set>

namespace vernier::precision {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr size_t kMostNodes = 1024;  // of one branch: a block of a Transformer has some dozen
constexpr size_t kOperands = 3;      // q, k and v come first among an Attention's inputs

bool is_norm(OpKind op) {
  const auto points = rounding_points(op);
  return std::find(points.begin(), points.end(), "normalised") != points.end();
}
bool is_view(OpKind op) { return (flags(op) & kView) != 0; }
bool is_elementwise(OpKind op) { return (flags(op) & kElementwise) != 0 && !is_view(op); }

using NodeSet = std::vector<bool>;  // by NodeId

class Reader {
 public:
  explicit Reader(const Graph& graph)
      : graph_(graph), position_(graph.num_nodes(), -1), skip_(graph.num_nodes(), kNoValue) {
    result_.roles.assign(graph.num_nodes(), 0);
    result_.block.assign(graph.num_nodes(), Structure::kNoBlock);
    int next = 0;
    for (NodeId id : graph.order()) {
      position_[at(id)] = next++;
      if (is_norm(node(id).op)) add_role(id, Role::kNorm);
      if (node(id).op != OpKind::kAttention) continue;
      attentions_.push_back(id);
      add_role(id, Role::kAttention);
    }
  }

  Structure run() {
    for (NodeId id : graph_.order()) read_residual(id);
    for (NodeId id : graph_.order()) read_feed_forward(id);
    group_attentions();
    find_feeders();
    find_blocks();
    find_embedding();
    return std::move(result_);
  }

 private:
  static size_t at(NodeId id) { return static_cast<size_t>(id); }
  const Node& node(NodeId id) const { return graph_.node(id); }
  bool has(NodeId id, Role role) const { return (result_.roles[at(id)] & bit(role)) != 0; }
  void add_role(NodeId id, Role role) { result_.roles[at(id)] |= bit(role); }
  bool is_float_value(ValueId v) const { return v != kNoValue && is_float(graph_.value(v).dtype); }
  /// What computes a floating value; kNoNode for inputs, constants, integers and absent ones.
  NodeId maker(ValueId v) const { return is_float_value(v) ? graph_.value(v).producer : kNoNode; }
  bool makes_floats(const Node& n) const {
    return std::any_of(n.outputs.begin(), n.outputs.end(),
                       [&](ValueId v) { return is_float_value(v); });
  }
  bool touches_floats(const Node& n) const {
    return makes_floats(n) || std::any_of(n.inputs.begin(), n.inputs.end(),
                                          [&](ValueId v) { return is_float_value(v); });
  }
  /// The inputs that a node's values are made of: of an Attention no masks and tables.
  static std::span<const ValueId> operands(const Node& n) {
    return n.op == OpKind::kAttention ? std::span(n.inputs).first(kOperands) : std::span(n.inputs);
  }
  /// The node under views that a value comes from.
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
    while (!open.empty() && seen[0].size() + seen[1].size() <= kMostNodes) {
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

  /// As branches_off, also from what `sum` is a residual sum of: (x + f(x)) + g(x).
  bool is_skip(ValueId sum, ValueId branch) const {
    constexpr int kBranches = 4;  // side by side; two in GPT-J
    std::vector<ValueId> stems{sum};
    for (int i = 0; i < kBranches && !stems.empty(); ++i) {
      std::vector<ValueId> deeper;
      for (ValueId stem : stems) {
        if (graph_.value(stem).is_constant()) continue;
        if (branches_off(branch, stem)) return true;
        const NodeId id = maker(stem);
        if (id == kNoNode || !has(id, Role::kResidual)) continue;
        deeper.push_back(skip_[at(id)]);
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
      add_role(id, Role::kResidual);
      skip_[at(id)] = n.inputs[i];
      return;
    }
  }
  ValueId branch_of(NodeId residual) const {
    const Node& n = node(residual);
    return n.inputs[0] == skip_[at(residual)] ? n.inputs[1] : n.inputs[0];
  }

  // ---- feed-forward branches

  /// Linear layers that `value` comes from through views and elementwise operators only: all, or
  /// those with something elementwise between.
  enum class Between : uint8_t { kAnything, kElementwise };
  std::vector<NodeId> linears_above(ValueId value, Between between) const {
    std::vector<NodeId> found;
    std::vector<std::pair<ValueId, bool>> open{{value, between == Between::kAnything}};
    std::unordered_set<NodeId> seen[2];
    while (!open.empty() && seen[0].size() + seen[1].size() <= kMostNodes) {
      const auto [v, counts] = open.back();
      open.pop_back();
      const NodeId id = maker(v);
      if (id == kNoNode || has(id, Role::kResidual) || !seen[counts].insert(id).second) continue;
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
    if (!has(id, Role::kResidual)) return;
    for (NodeId down : linears_above(branch_of(id), Between::kAnything)) {
      const auto ups = linears_above(node(down).inputs[0], Between::kElementwise);
      for (NodeId up : ups) add_role(up, Role::kFfnUp);
      if (ups.empty() || has(down, Role::kFfnDown)) continue;
      add_role(down, Role::kFfnDown);
      downs_.push_back(down);
    }
  }

  // ---- blocks

  /// What values are computed from; of an Attention only its q, k and v.
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
  /// branch was added since: self and cross attention of a decoder are one block.
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

  /// Along the depth: by the place of each group's last attention.
  void number_groups(const std::vector<int>& group, int groups) {
    std::vector<int> number(static_cast<size_t>(groups), Structure::kNoBlock);
    result_.num_blocks = groups;
    int next = groups;
    for (size_t i = attentions_.size(); i-- > 0;) {
      int& block = number[static_cast<size_t>(group[i])];
      if (block == Structure::kNoBlock) block = --next;
      result_.block[at(attentions_[i])] = block;
    }
  }

  /// The block that all uses of a node end in, through q, k and v; kNoBlock if there is none.
  int fed_block(const Node& n) const {
    int block = Structure::kNoBlock;
    for (ValueId out : n.outputs) {
      if (out == kNoValue) continue;
      for (NodeId user : graph_.value(out).users) {
        const auto& in = node(user).inputs;
        const bool attention = node(user).op == OpKind::kAttention;
        if (attention && std::find(in.begin() + kOperands, in.end(), out) != in.end())
          return Structure::kNoBlock;
        if (!attention && !feeder_[at(user)]) return Structure::kNoBlock;
        const int users = result_.block[at(user)];
        if (block != Structure::kNoBlock && block != users) return Structure::kNoBlock;
        block = users;
      }
    }
    return block;
  }

  /// Projections to q, k and v, what stands between them and the attention, and the norm before
  /// them, if all that they make ends in one block's attention.
  void find_feeders() {
    feeder_.assign(graph_.num_nodes(), false);
    NodeSet projected(graph_.num_nodes());  // a Linear layer or what stands above one
    for (auto id = graph_.order().rbegin(); id != graph_.order().rend(); ++id) {
      const Node& n = node(*id);
      if (n.op == OpKind::kAttention || has(*id, Role::kResidual) || !makes_floats(n)) continue;
      const int block = fed_block(n);
      if (block == Structure::kNoBlock) continue;
      bool above = n.op == OpKind::kLinear;
      for (ValueId out : n.outputs) {
        if (out == kNoValue) continue;
        for (NodeId user : graph_.value(out).users) above = above || projected[at(user)];
      }
      const bool near = n.op == OpKind::kLinear || is_norm(n.op) || is_view(n.op);
      if (above && !near) continue;
      feeder_[at(*id)] = true;
      projected[at(*id)] = above;
      result_.block[at(*id)] = block;
    }
  }

  /// Nodes that an attention or a residual sum depends on, and these themselves.
  NodeSet stream() const {
    NodeSet found(graph_.num_nodes());
    for (auto id = graph_.order().rbegin(); id != graph_.order().rend(); ++id) {
      found[at(*id)] =
          found[at(*id)] || node(*id).op == OpKind::kAttention || has(*id, Role::kResidual);
      if (!found[at(*id)]) continue;
      for (ValueId in : node(*id).inputs) {
        if (maker(in) != kNoNode) found[at(maker(in))] = true;
      }
    }
    return found;
  }

  /// The last node of a block that has no stream behind it: an attention's output projection, or
  /// the norm after a residual sum where norms follow the sums (its skip comes from a norm too).
  bool ends_block(const Node& n) const {
    const NodeId before = n.inputs.empty() ? kNoNode : maker_under_views(n.inputs[0]);
    if (before == kNoNode) return false;
    if (n.op == OpKind::kLinear) return node(before).op == OpKind::kAttention;
    if (!is_norm(n.op) || !has(before, Role::kResidual)) return false;
    const NodeId skip = maker_under_views(skip_[at(before)]);
    return skip != kNoNode && is_norm(node(skip).op);
  }

  void find_blocks() {
    const NodeSet in_stream = stream();
    after_.assign(graph_.num_nodes(), Structure::kNoBlock);
    for (NodeId id : graph_.order()) {
      const Node& n = node(id);
      int& after = after_[at(id)];
      if (n.op == OpKind::kAttention) {
        after = result_.block[at(id)];
        continue;
      }
      for (ValueId in : n.inputs) {
        if (maker(in) != kNoNode) after = std::max(after, after_[at(maker(in))]);
      }
      if (after == Structure::kNoBlock || feeder_[at(id)] || !touches_floats(n)) continue;
      if (in_stream[at(id)] || ends_block(n)) {
        result_.block[at(id)] = after;
      } else if (!is_norm(n.op)) {
        add_role(id, Role::kHead);
      }
    }
  }

  // ---- embedding

  void find_embedding() {
    std::vector<ValueId> open;
    for (NodeId id : attentions_) {
      const auto inputs = operands(node(id));
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
    for (const NodeSet found = ancestors(open); NodeId id : graph_.order()) {
      const bool before = found[at(id)] && after_[at(id)] == Structure::kNoBlock;
      if (before && !feeder_[at(id)] && !is_norm(node(id).op)) add_role(id, Role::kEmbedding);
    }
    if (!attentions_.empty()) return;
    for (NodeId id : graph_.order()) {
      if (node(id).op == OpKind::kGather && is_lookup(node(id))) add_role(id, Role::kEmbedding);
    }
  }
  bool is_lookup(const Node& gather) const {
    const ir::Value& table = graph_.value(gather.inputs[0]);
    return table.is_constant() && is_float(table.dtype) && table.shape.size() == 2 &&
           !graph_.value(gather.inputs[1]).is_constant();
  }

  const Graph& graph_;
  std::vector<int> position_;  // in topological order
  std::vector<ValueId> skip_;  // of a residual sum: the operand that is no branch
  std::vector<NodeId> attentions_, downs_;
  NodeSet feeder_;
  std::vector<int> after_;  // the last block that a node descends from
  Structure result_;
};

Roles roles_of_part(std::string_view part) {
  if (part == "probs") return bit(Role::kAttentionSoftmax);
  if (part == "scores" || part == "q" || part == "k") return bit(Role::kAttentionScores);
  if (part == "context" || part == "v" || part == "out") return bit(Role::kAttentionContext);
  return 0;
}

}  // namespace

Structure structure_of(const ir::Graph& raised) { return Reader(raised).run(); }

bool is_whole(const ir::Node& node) {
  return std::all_of(node.origins.begin(), node.origins.end(),
                     [](const ir::Origin& o) { return o.part.empty(); });
}

Roles roles_of(const Structure& structure, const ir::Graph& graph, ir::NodeId node,
               const ir::Origin& origin) {
  const Roles roles = structure.roles[static_cast<size_t>(node)];
  if (graph.node(node).op != OpKind::kAttention) return roles;
  if (!is_whole(graph.node(node))) return roles | roles_of_part(origin.part);
  return roles | bit(Role::kAttentionScores) | bit(Role::kAttentionSoftmax) |
         bit(Role::kAttentionContext);
}

}  // namespace vernier::precision
