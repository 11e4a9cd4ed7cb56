// The order in which a body's nodes are imported. ONNX asks for topological order; optimisers that
// append nodes at the end write files without it, and every other runtime sorts them.
#pragma once
#include <vector>

#include "onnx/onnx.pb.h"

namespace vernier::onnx {

/// Indices of the nodes, each behind the nodes whose outputs it uses (in the bodies of its branches
/// too). File order where that is topological; otherwise a node is preceded by what it needs. On a
/// cycle some node still stands before one that it uses: the caller sees the undefined name.
std::vector<int> node_order(const google::protobuf::RepeatedPtrField<proto::NodeProto>& nodes);

}  // namespace vernier::onnx
