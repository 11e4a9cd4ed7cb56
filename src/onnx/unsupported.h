// UnsupportedNodes: all nodes of a model whose operator Vernier does not support, collected for one
// error message.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ir/graph.h"
#include "onnx/model_file.h"

namespace vernier::onnx {

/// Local functions by (domain, name, overload).
using FunctionKey = std::tuple<std::string, std::string, std::string>;
using Functions = std::map<FunctionKey, const proto::FunctionProto*>;
FunctionKey function_key(const proto::NodeProto& node);

/// An operator that is known and not translated; without an op_type: all of the domain.
struct Refusal {
  std::string_view domain, op_type, why;
};
std::span<const Refusal> known_refusals();

class UnsupportedNodes {
 public:
  /// Adds one node; an empty `why`: the operator is not known.
  void add(const std::string& domain, const ir::Origin& origin, const std::string& why);
  bool empty() const { return rows_.empty(); }
  /// Throws Error(kInput) listing every operator with its nodes, unless there is none.
  void throw_if_any() const;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::string>> rows_;
};

/// Adds every node of the graph, and of the functions it calls, whose operator is unknown. Branches
/// of If are skipped: which of them is needed is known later.
void find_unsupported(const google::protobuf::RepeatedPtrField<proto::NodeProto>& nodes,
                      const Opsets& opsets, const Functions& functions, const std::string& path,
                      UnsupportedNodes& found);

/// Names nodes: their own name, or "<OpType>_<k>", k-th of its type in file order.
class NodeNames {
 public:
  ir::Origin origin(const proto::NodeProto& node, int index, const std::string& path);

 private:
  std::map<std::string, int> counts_;
};

}  // namespace vernier::onnx
