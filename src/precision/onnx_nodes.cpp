// The ONNX nodes of a raised graph and their synthetic names: see onnx_nodes.h.
#include "precision/onnx_nodes.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace vernier::precision {
namespace {

struct KeyOrder {
  bool operator()(const std::string& a, const std::string& b) const {
    return compare_keys(a, b) < 0;
  }
};

bool is_composite(OpKind op) { return (flags(op) & kComposite) != 0; }

// The key of the ONNX node that ends a composite.
const std::string& last_key(const ir::Node& node) {
  return std::max_element(node.origins.begin(), node.origins.end(),
                          [](const ir::Origin& a, const ir::Origin& b) {
                            return compare_keys(a.key, b.key) < 0;
                          })
      ->key;
}

}  // namespace

std::strong_ordering compare_keys(std::string_view a, std::string_view b) {
  const auto split = [](std::string_view key) {
    const size_t hash = std::min(key.rfind('#'), key.size());
    int64_t number = -1;
    if (hash < key.size()) std::from_chars(key.data() + hash + 1, key.data() + key.size(), number);
    return std::pair(key.substr(0, hash), number);
  };
  const auto [path_a, number_a] = split(a);
  const auto [path_b, number_b] = split(b);
  if (path_a != path_b) return path_a <=> path_b;
  return number_a <=> number_b;
}

std::vector<OnnxNode> onnx_nodes(const ir::Graph& raised) {
  std::map<std::string, OnnxNode, KeyOrder> by_key;
  const auto entry = [&](const ir::Origin& origin) -> OnnxNode& {
    OnnxNode& node = by_key[origin.key];
    node.key = origin.key;
    node.name = origin.name;
    node.op_type = origin.op_type;
    return node;
  };
  for (ir::NodeId id : raised.order()) {
    const auto& origins = raised.node(id).origins;
    for (size_t i = 0; i < origins.size(); ++i) entry(origins[i]).places.push_back({id, i});
  }
  for (size_t i = 0; i < raised.retired.size(); ++i)
    entry(raised.retired[i].origin).retired.push_back(i);
  std::vector<OnnxNode> nodes;
  for (auto& [key, node] : by_key) nodes.push_back(std::move(node));
  return nodes;
}

std::string_view onnx_name(OpKind composite) {
  if (composite == OpKind::kLayerNorm) return "LayerNormalization";
  if (composite == OpKind::kRMSNorm) return "RMSNormalization";
  return name(composite);
}

std::map<std::string, SyntheticNames> synthetic_names(const ir::Graph& raised) {
  std::map<std::string, SyntheticNames> names;
  std::map<std::string, int> counts;
  for (const OnnxNode& node : onnx_nodes(raised)) {
    names[node.key].by_type = node.op_type + "_" + std::to_string(counts[node.op_type]++);
  }
  std::vector<ir::NodeId> composites;
  for (ir::NodeId id : raised.order()) {
    const ir::Node& node = raised.node(id);
    if (is_composite(node.op) && !node.origins.empty()) composites.push_back(id);
  }
  std::stable_sort(composites.begin(), composites.end(), [&](ir::NodeId a, ir::NodeId b) {
    return compare_keys(last_key(raised.node(a)), last_key(raised.node(b))) < 0;
  });
  counts.clear();
  for (ir::NodeId id : composites) {
    const ir::Node& node = raised.node(id);
    const std::string kind(onnx_name(node.op));
    const std::string numbered = kind + "_" + std::to_string(counts[kind]++);
    for (const ir::Origin& origin : node.origins) names[origin.key].composites.push_back(numbered);
  }
  return names;
}

}  // namespace vernier::precision
