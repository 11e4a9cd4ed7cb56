// The graph and its invariants: see graph.h.
#include "ir/graph.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_set>

#include "core/op_attrs.h"

namespace vernier::ir {

namespace {

std::optional<double> uniform_of(const Tensor& t) {
  if (t.elems() < 1 || t.elems() > kMaxUniformElems) return std::nullopt;
  const auto at = [&t](int64_t i) {
    return is_float(t.dtype()) ? t.float_at(i) : static_cast<double>(t.integer_at(i));
  };
  const double first = at(0);
  for (int64_t i = 1; i < t.elems(); ++i) {
    if (!(at(i) == first)) return std::nullopt;
  }
  return first;
}

}  // namespace

ValueId Graph::add_constant(Tensor tensor, std::string value_name) {
  Value v;
  v.name = std::move(value_name);
  values_.push_back(std::move(v));
  const auto id = static_cast<ValueId>(values_.size() - 1);
  make_constant(id, std::move(tensor));
  return id;
}

ValueId Graph::add_input(std::string value_name, DType dtype, SymShape shape) {
  Value v;
  v.name = std::move(value_name);
  v.dtype = dtype;
  v.shape = std::move(shape);
  v.has_shape = true;
  values_.push_back(std::move(v));
  inputs.push_back(static_cast<ValueId>(values_.size() - 1));
  ++changes_;
  return inputs.back();
}

NodeId Graph::add_node(OpKind op, std::vector<ValueId> node_inputs, AttrBytes attrs,
                       int num_outputs) {
  const auto id = static_cast<NodeId>(nodes_.size());
  Node n;
  n.op = op;
  n.attrs = std::move(attrs);
  for (int i = 0; i < num_outputs; ++i) {
    Value v;
    v.producer = id;
    v.producer_output = i;
    values_.push_back(std::move(v));
    n.outputs.push_back(static_cast<ValueId>(values_.size() - 1));
  }
  nodes_.push_back(std::move(n));
  order_.push_back(id);
  ++changes_;
  set_inputs(id, std::move(node_inputs));
  return id;
}

const Node* Graph::producer(ValueId id) const {
  if (id == kNoValue || value(id).producer == kNoNode) return nullptr;
  return &node(value(id).producer);
}
Node* Graph::producer(ValueId id) { return const_cast<Node*>(std::as_const(*this).producer(id)); }

bool Graph::is_output(ValueId id) const { return outputs.contains(id); }
bool Graph::single_use(ValueId id) const { return value(id).users.size() == 1 && !is_output(id); }

void Graph::add_use(ValueId id, NodeId user, size_t input) {
  UserList& users = value(id).users;
  node(user).uses[input] = static_cast<UserList::Place>(users.uses_.size());
  users.uses_.push_back({user, static_cast<uint32_t>(input)});
  ++users.size_;
}

void Graph::remove_use(ValueId id, UserList::Place place) {
  constexpr size_t kFewGaps = 8;
  UserList& users = value(id).users;
  users.uses_[place].node = kNoNode;
  --users.size_;
  if (users.uses_.size() <= 2 * users.size_ + kFewGaps) return;
  std::erase_if(users.uses_, [](const UserList::Use& use) { return use.node == kNoNode; });
  for (size_t i = 0; i < users.uses_.size(); ++i)
    node(users.uses_[i].node).uses[users.uses_[i].input] = static_cast<UserList::Place>(i);
}

void Graph::set_input(NodeId id, size_t index, ValueId v) {
  ++changes_;
  Node& n = node(id);
  if (n.inputs.size() <= index) n.inputs.resize(index + 1, kNoValue);
  n.uses.resize(n.inputs.size(), 0);
  if (const ValueId old = n.inputs[index]; old != kNoValue) remove_use(old, n.uses[index]);
  n.inputs[index] = v;
  if (v != kNoValue) add_use(v, id, index);
}

void Graph::set_inputs(NodeId id, std::vector<ValueId> new_inputs) {
  for (size_t i = 0; i < node(id).inputs.size(); ++i) set_input(id, i, kNoValue);
  node(id).inputs.clear();
  node(id).uses.clear();
  node(id).inputs.resize(new_inputs.size(), kNoValue);
  for (size_t i = 0; i < new_inputs.size(); ++i) set_input(id, i, new_inputs[i]);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  const std::vector<UserList::Use> uses = value(from).users.uses_;  // set_input changes the list
  for (const UserList::Use& use : uses) {
    if (use.node != kNoNode) set_input(use.node, use.input, to);
  }
  outputs.replace(from, to);
  const bool is_graph_input = std::find(inputs.begin(), inputs.end(), to) != inputs.end();
  if (value(to).name.empty() && !is_graph_input) value(to).name = value(from).name;
}

void Graph::make_constant(ValueId id, Tensor tensor) {
  ++changes_;
  Value& v = value(id);
  if (v.producer != kNoNode) {
    node(v.producer).outputs[v.producer_output] = kNoValue;
    v.producer = kNoNode;
  }
  const bool wider = !typed && tensor.dtype() == DType::kF32 &&
                     (v.dtype == DType::kF16 || v.dtype == DType::kBF16);
  if (!wider) v.dtype = tensor.dtype();  // else stored in f32 until types are decided
  v.shape.assign(tensor.shape().begin(), tensor.shape().end());
  v.has_shape = true;
  v.uniform = uniform_of(tensor);
  v.constant = std::move(tensor);
  v.derivation = nullptr;
  v.values.reset();
}

void Graph::drop_dead(NodeId id) {
  std::vector<NodeId> open{id};
  while (!open.empty()) {
    const NodeId at = open.back();
    open.pop_back();
    Node& n = node(at);
    if (n.removed || is_used(n)) continue;
    for (ValueId in : n.inputs) {
      if (in != kNoValue && value(in).producer != kNoNode) open.push_back(value(in).producer);
    }
    set_inputs(at, {});
    n.removed = true;
    dropped_.push_back(at);
  }
}

void Graph::remove_node(NodeId id) {
  VERNIER_ASSERT(!is_used(node(id)));
  set_inputs(id, {});
  node(id).removed = true;
  // A node that is removed alone was usually added last.
  const auto at = std::find(order_.rbegin(), order_.rend(), id);
  order_.erase(std::next(at).base());
}

void Graph::retire(const std::vector<Origin>& origins, LedgerState state, const std::string& why) {
  ++changes_;
  for (const Origin& origin : origins) retired.push_back({origin, state, why});
}

bool Graph::is_used(const Node& n) const {
  return std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId out) {
    return out != kNoValue && (!value(out).users.empty() || is_output(out));
  });
}

int Graph::remove_dead() {
  std::vector<NodeId> dead = std::move(dropped_);
  dropped_.clear();
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    Node& n = node(*it);
    if (n.removed || is_used(n)) continue;
    dead.push_back(*it);
    set_inputs(*it, {});  // so that its producers have one use less
    n.removed = true;
  }
  if (dead.empty()) return 0;
  ++changes_;
  std::erase_if(order_, [&](NodeId id) { return node(id).removed; });
  std::sort(dead.begin(), dead.end());
  retire_dead(dead);
  return static_cast<int>(dead.size());
}

// Adds a row for each origin of dead nodes that is on no live node and in no earlier row.
void Graph::retire_dead(const std::vector<NodeId>& dead) {
  std::unordered_set<std::string> open;
  for (NodeId id : dead) {
    for (const Origin& origin : node(id).origins) open.insert(origin.key);
  }
  if (open.empty()) return;
  for (NodeId id : order_) {
    for (const Origin& origin : node(id).origins) open.erase(origin.key);
  }
  for (const Retired& row : retired) open.erase(row.origin.key);
  for (NodeId id : dead) {
    const Node& n = node(id);
    bool all_constant = true, all_shape = true;
    for (ValueId out : n.outputs) {
      if (out == kNoValue) continue;  // became a constant
      all_constant = false;
      all_shape = all_shape && value(out).values.has_value();
    }
    for (const Origin& origin : n.origins) {
      if (open.erase(origin.key) == 0) continue;
      if (all_constant)
        retired.push_back({origin, LedgerState::kFolded, "constant"});
      else if (all_shape)
        retired.push_back({origin, LedgerState::kShape, "computes sizes only"});
      else
        retired.push_back({origin, LedgerState::kDead, "no output depends on it"});
    }
  }
}

bool Graph::is_sorted() const {
  std::vector<bool> done(nodes_.size(), false);
  for (NodeId id : order_) {
    for (ValueId in : node(id).inputs) {
      if (in == kNoValue) continue;
      const NodeId producer = value(in).producer;
      if (producer != kNoNode && !done[producer]) return false;
    }
    done[id] = true;
  }
  return true;
}

void Graph::sort() {
  if (is_sorted()) return;
  ++changes_;
  std::vector<size_t> position(nodes_.size(), 0);
  for (size_t i = 0; i < order_.size(); ++i) position[order_[i]] = i;
  std::vector<int64_t> waiting(nodes_.size(), 0);
  using Ready = std::pair<size_t, NodeId>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (NodeId id : order_) {
    int64_t count = 0;
    for (ValueId in : node(id).inputs) count += in != kNoValue && value(in).producer != kNoNode;
    waiting[id] = count;
    if (count == 0) ready.emplace(position[id], id);
  }
  std::vector<NodeId> sorted;
  while (!ready.empty()) {
    const NodeId id = ready.top().second;
    ready.pop();
    sorted.push_back(id);
    for (ValueId out : node(id).outputs) {
      if (out == kNoValue) continue;
      for (NodeId user : value(out).users) {
        if (--waiting[user] == 0) ready.emplace(position[user], user);
      }
    }
  }
  VERNIER_ASSERT(sorted.size() == order_.size(), "the graph has a cycle");
  order_ = std::move(sorted);
}

void merge_origins(std::vector<Origin>& to, const std::vector<Origin>& from) {
  constexpr size_t kFew = 16;  // for fewer, a search is faster than a table
  if (from.size() <= kFew) {
    for (const Origin& origin : from) {
      const bool present =
          std::any_of(to.begin(), to.end(), [&](const Origin& o) { return o.key == origin.key; });
      if (!present) to.push_back(origin);
    }
    return;
  }
  std::unordered_set<std::string> present;
  for (const Origin& origin : to) present.insert(origin.key);
  for (const Origin& origin : from) {
    if (present.insert(origin.key).second) to.push_back(origin);
  }
}

void check(const Graph& graph, const std::string& where) {
  std::vector<bool> defined(graph.num_values(), false);
  for (ValueId in : graph.inputs) defined[in] = true;
  size_t uses = 0;
  for (NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    const auto what = [&] {
      return where + ": node " + std::to_string(id) + " (" + std::string(name(n.op)) + " '" +
             n.name + "')";
    };
    VERNIER_ASSERT(!n.removed, what() + " is removed but in the order");
    VERNIER_ASSERT(n.uses.size() == n.inputs.size(), what() + ": use list");
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId in = n.inputs[i];
      if (in == kNoValue) continue;
      VERNIER_ASSERT(in >= 0 && static_cast<size_t>(in) < graph.num_values(), what());
      const Value& v = graph.value(in);
      VERNIER_ASSERT(v.is_constant() || defined[in],
                     what() + " uses value " + std::to_string(in) + " before it is defined");
      VERNIER_ASSERT(v.users.holds(n.uses[i], id, i), what() + ": use list");
      ++uses;
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] == kNoValue) continue;
      const Value& v = graph.value(n.outputs[i]);
      VERNIER_ASSERT(v.producer == id && v.producer_output == static_cast<int>(i),
                     what() + ": producer link");
      defined[n.outputs[i]] = true;
    }
    check_attrs(n.op, n.attrs);
  }
  for (size_t v = 0; v < graph.num_values(); ++v)
    uses -= graph.value(static_cast<ValueId>(v)).users.size();
  VERNIER_ASSERT(uses == 0, where + ": a value has users that do not read it");
  VERNIER_ASSERT(graph.outputs.size() == graph.output_names.size(), where);
  for (ValueId out : graph.outputs) {
    VERNIER_ASSERT(graph.value(out).is_constant() || defined[out],
                   where + ": an output is undefined");
  }
  const std::set<std::string> names(graph.output_names.begin(), graph.output_names.end());
  VERNIER_ASSERT(names.size() == graph.output_names.size(), where + ": two outputs share a name");
}

}  // namespace vernier::ir
