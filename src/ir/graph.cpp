// The graph and its invariants: see graph.h.
#include "ir/graph.h"

#include <algorithm>
#include <queue>
#include <set>

#include "core/op_attrs.h"

namespace vernier::ir {

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
  set_inputs(id, std::move(node_inputs));
  return id;
}

const Node* Graph::producer(ValueId id) const {
  if (id == kNoValue || value(id).producer == kNoNode) return nullptr;
  return &node(value(id).producer);
}
Node* Graph::producer(ValueId id) { return const_cast<Node*>(std::as_const(*this).producer(id)); }

bool Graph::is_output(ValueId id) const {
  return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
}
bool Graph::single_use(ValueId id) const { return value(id).users.size() == 1 && !is_output(id); }

void Graph::set_input(NodeId id, size_t index, ValueId v) {
  Node& n = node(id);
  if (n.inputs.size() <= index) n.inputs.resize(index + 1, kNoValue);
  if (const ValueId old = n.inputs[index]; old != kNoValue) {
    auto& users = value(old).users;
    users.erase(std::find(users.begin(), users.end(), id));
  }
  n.inputs[index] = v;
  if (v != kNoValue) value(v).users.push_back(id);
}

void Graph::set_inputs(NodeId id, std::vector<ValueId> new_inputs) {
  for (size_t i = 0; i < node(id).inputs.size(); ++i) set_input(id, i, kNoValue);
  node(id).inputs.clear();
  for (size_t i = 0; i < new_inputs.size(); ++i) set_input(id, i, new_inputs[i]);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  const std::vector<NodeId> users = value(from).users;  // set_input edits the list
  for (NodeId user : users) {
    Node& n = node(user);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == from) set_input(user, i, to);
    }
  }
  std::replace(outputs.begin(), outputs.end(), from, to);
  const bool is_graph_input = std::find(inputs.begin(), inputs.end(), to) != inputs.end();
  if (value(to).name.empty() && !is_graph_input) value(to).name = value(from).name;
}

void Graph::make_constant(ValueId id, Tensor tensor) {
  Value& v = value(id);
  if (v.producer != kNoNode) {
    node(v.producer).outputs[static_cast<size_t>(v.producer_output)] = kNoValue;
    v.producer = kNoNode;
  }
  const bool wider = !typed && tensor.dtype() == DType::kF32 &&
                     (v.dtype == DType::kF16 || v.dtype == DType::kBF16);
  if (!wider) v.dtype = tensor.dtype();  // else: held in f32 until types are decided
  v.shape.assign(tensor.shape().begin(), tensor.shape().end());
  v.has_shape = true;
  v.constant = std::move(tensor);
  v.values.reset();
}

void Graph::remove_node(NodeId id) {
  Node& n = node(id);
  for (ValueId out : n.outputs) {
    VERNIER_ASSERT(out == kNoValue || (value(out).users.empty() && !is_output(out)));
  }
  set_inputs(id, {});
  n.removed = true;
  std::erase(order_, id);
}

void Graph::retire(const std::vector<Origin>& origins, const std::string& state,
                   const std::string& why) {
  for (const Origin& origin : origins) retired.push_back({origin, state, why});
}

int Graph::remove_dead() {
  std::vector<NodeId> dead;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    Node& n = node(*it);
    const bool used = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId out) {
      return out != kNoValue && (!value(out).users.empty() || is_output(out));
    });
    if (used) continue;
    dead.push_back(*it);
    const std::vector<ValueId> old_inputs = n.inputs;
    set_inputs(*it, {});  // so that producers further up see one use less
    n.removed = true;
  }
  if (dead.empty()) return 0;
  std::erase_if(order_, [&](NodeId id) { return node(id).removed; });
  std::set<std::string> held;
  for (NodeId id : order_) {
    for (const Origin& origin : node(id).origins) held.insert(origin.key);
  }
  for (const Retired& row : retired) held.insert(row.origin.key);
  std::sort(dead.begin(), dead.end());
  for (NodeId id : dead) {
    const Node& n = node(id);
    bool all_constant = true, all_shape = true;
    for (ValueId out : n.outputs) {
      if (out == kNoValue) continue;  // became a constant
      all_constant = false;
      all_shape = all_shape && value(out).values.has_value();
    }
    for (const Origin& origin : n.origins) {
      if (!held.insert(origin.key).second) continue;
      if (all_constant)
        retired.push_back({origin, "folded", "constant"});
      else if (all_shape)
        retired.push_back({origin, "shape", "computes sizes only"});
      else
        retired.push_back({origin, "dead", "no output depends on it"});
    }
  }
  return static_cast<int>(dead.size());
}

void Graph::sort() {
  std::map<NodeId, size_t> position;
  for (size_t i = 0; i < order_.size(); ++i) position[order_[i]] = i;
  std::map<NodeId, int> waiting;
  using Ready = std::pair<size_t, NodeId>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (NodeId id : order_) {
    int count = 0;
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
  for (const Origin& origin : from) {
    const bool present =
        std::any_of(to.begin(), to.end(), [&](const Origin& o) { return o.key == origin.key; });
    if (!present) to.push_back(origin);
  }
}

namespace {

void check_node(const Graph& graph, NodeId id, const std::set<ValueId>& defined,
                const std::string& where) {
  const Node& n = graph.node(id);
  const std::string what = where + ": node " + std::to_string(id) + " (" + std::string(name(n.op)) +
                           " '" + n.name + "')";
  VERNIER_ASSERT(!n.removed, what + " is removed but in the order");
  for (ValueId in : n.inputs) {
    if (in == kNoValue) continue;
    VERNIER_ASSERT(in >= 0 && static_cast<size_t>(in) < graph.num_values(), what);
    const Value& v = graph.value(in);
    VERNIER_ASSERT(v.is_constant() || defined.contains(in),
                   what + " uses value " + std::to_string(in) + " before it is defined");
    VERNIER_ASSERT(std::count(v.users.begin(), v.users.end(), id) ==
                       std::count(n.inputs.begin(), n.inputs.end(), in),
                   what + ": use list");
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    const Value& v = graph.value(n.outputs[i]);
    VERNIER_ASSERT(v.producer == id && v.producer_output == static_cast<int>(i),
                   what + ": producer link");
  }
  check_attrs(n.op, n.attrs);
}

}  // namespace

void check(const Graph& graph, const std::string& where) {
  std::set<ValueId> defined(graph.inputs.begin(), graph.inputs.end());
  for (NodeId id : graph.order()) {
    check_node(graph, id, defined, where);
    for (ValueId out : graph.node(id).outputs) {
      if (out != kNoValue) defined.insert(out);
    }
  }
  VERNIER_ASSERT(graph.outputs.size() == graph.output_names.size(), where);
  for (ValueId out : graph.outputs) {
    VERNIER_ASSERT(graph.value(out).is_constant() || defined.contains(out),
                   where + ": an output is undefined");
  }
  const std::set<std::string> names(graph.output_names.begin(), graph.output_names.end());
  VERNIER_ASSERT(names.size() == graph.output_names.size(), where + ": two outputs share a name");
}

}  // namespace vernier::ir
