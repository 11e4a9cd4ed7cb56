// The names that nodes use, and the order in which a body's nodes are imported. ONNX asks for
// topological order; optimizers that append nodes at the end write files without it, and every
// other runtime sorts them.
#pragma once
#include <string>
#include <vector>

#include "onnx/onnx.pb.h"

namespace vernier::onnx {

/// Adds the names that a node uses: its inputs, and names that bodies of its branches use but do
/// not define. No "".
void add_used(const proto::NodeProto& node, std::vector<std::string>& used);

/// Indices of the nodes in topological order (uses inside the bodies of branches count too). File
/// order if that is topological; otherwise depth first from the first node on. In a cycle some node
/// still comes before one that it uses: the caller finds an undefined name.
std::vector<int> node_order(const google::protobuf::RepeatedPtrField<proto::NodeProto>& nodes);

}  // namespace vernier::onnx
