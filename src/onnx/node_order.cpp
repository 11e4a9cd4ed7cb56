// Sorting nodes: see node_order.h.
#include "onnx/node_order.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

namespace vernier::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<proto::NodeProto>;
using Producers = std::unordered_map<std::string_view, int>;

// The nodes that `node` uses outputs of, those that its sub-graphs use included.
void add_needed(const proto::NodeProto& node, const Producers& producers,
                std::vector<int>& needed) {
  for (const std::string& name : node.input()) {
    if (const auto found = producers.find(name); found != producers.end())
      needed.push_back(found->second);
  }
  for (const auto& attribute : node.attribute()) {
    for (const auto& inner : attribute.g().node()) add_needed(inner, producers, needed);
  }
}

bool is_topological(const Nodes& nodes, const Producers& producers) {
  std::vector<int> needed;
  for (int i = 0; i < nodes.size(); ++i) {
    needed.clear();
    add_needed(nodes[i], producers, needed);
    if (std::any_of(needed.begin(), needed.end(), [i](int j) { return j >= i; })) return false;
  }
  return true;
}

}  // namespace

void add_used(const proto::NodeProto& node, std::vector<std::string>& used) {
  for (const std::string& name : node.input()) {
    if (!name.empty()) used.push_back(name);
  }
  for (const auto& attribute : node.attribute()) {
    std::vector<std::string> inner;
    std::set<std::string> defined;
    const proto::GraphProto& body = attribute.g();
    for (const auto& input : body.input()) defined.insert(input.name());
    for (const auto& tensor : body.initializer()) defined.insert(tensor.name());
    for (const auto& one : body.node()) {
      add_used(one, inner);
      defined.insert(one.output().begin(), one.output().end());
    }
    for (const auto& output : body.output()) inner.push_back(output.name());
    for (const std::string& name : inner) {
      if (!defined.contains(name)) used.push_back(name);
    }
  }
}

std::vector<int> node_order(const Nodes& nodes) {
  Producers producers;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].output()) {
      if (!name.empty()) producers.emplace(name, i);
    }
  }
  std::vector<int> order;
  order.reserve(nodes.size());
  if (is_topological(nodes, producers)) {
    for (int i = 0; i < nodes.size(); ++i) order.push_back(i);
    return order;
  }
  // Depth first with an explicit stack: chains can be as long as the file.
  struct Visit {
    int node;
    std::vector<int> needed;
    size_t next = 0;
  };
  std::vector<bool> met(static_cast<size_t>(nodes.size()), false);
  std::vector<Visit> stack;
  const auto enter = [&](int node) {
    if (met[node]) return;
    met[node] = true;
    stack.push_back({.node = node, .needed = {}});
    add_needed(nodes[node], producers, stack.back().needed);
  };
  for (int i = 0; i < nodes.size(); ++i) {
    enter(i);
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next < visit.needed.size()) {
        enter(visit.needed[visit.next++]);
        continue;
      }
      order.push_back(visit.node);
      stack.pop_back();
    }
  }
  return order;
}

}  // namespace vernier::onnx
