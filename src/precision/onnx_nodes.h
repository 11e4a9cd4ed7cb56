// The ONNX nodes of a raised graph: one entry each, with the places of its origin and the names
// that a rule may use for it. Contract: docs/precision.md ("Selectors", "trtexec").
#pragma once
#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace vernier::precision {

/// One ONNX node. Origins are copied when a rewrite splits a node, so an origin may be on several
/// live nodes, or on none (folded, merged, …).
struct OnnxNode {
  struct Place {
    ir::NodeId node = ir::kNoNode;
    size_t origin = 0;  ///< index among the node's origins
  };
  std::string key, name, op_type;
  std::vector<Place> places;    ///< on live nodes, in graph order
  std::vector<size_t> retired;  ///< indices into Graph::retired
  bool is_live() const { return !places.empty(); }
};

/// Every ONNX node exactly once, in file order (key order: path, then number).
std::vector<OnnxNode> onnx_nodes(const ir::Graph& raised);

/// The order of origin keys: "/call/3#17" by path, then by number.
std::strong_ordering compare_keys(std::string_view a, std::string_view b);

/// The ONNX name of a composite: "LayerNormalization" for LayerNorm, else the operator's own name.
std::string_view onnx_name(OpKind composite);

/// Names that trtexec specs may use besides the ONNX name; numbered from 0.
struct SyntheticNames {
  std::string by_type;  ///< "Softmax_12": the k-th ONNX node of that type in file order
  /// "LayerNormalization_3": the k-th raised composite of that kind, by the file order of its last
  /// ONNX node; empty for nodes outside composites. Several if it is part of several.
  std::vector<std::string> composites;
};
/// By Origin::key, for every ONNX node of the graph.
std::map<std::string, SyntheticNames> synthetic_names(const ir::Graph& raised);

}  // namespace vernier::precision
