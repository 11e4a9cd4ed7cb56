// GraphNodes: the nodes and constants of an ONNX graph that is being made, with names that nobody
// else has. Internal to src/onnx.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/dim.h"
#include "core/tensor.h"
#include "onnx/onnx.pb.h"

namespace vernier::onnx {

struct MadeAttribute {
  const char* name;
  std::variant<int64_t, double, std::string, std::vector<int64_t>, Tensor> value;
};
using MadeAttributes = std::vector<MadeAttribute>;

class GraphNodes {
 public:
  explicit GraphNodes(proto::GraphProto& graph) : graph_(graph) {}

  /// `wanted`, or the first of `wanted`_1, … that is free.
  std::string fresh(const std::string& wanted);
  bool take(const std::string& name) { return names_.insert(name).second; }
  /// New nodes are called after this one.
  void name_nodes(const std::string& name) { node_name_ = name; }

  /// A node with these outputs; "" is an absent input or output.
  void add(const std::string& op, const std::vector<std::string>& inputs,
           const std::vector<std::string>& outputs, const MadeAttributes& attributes = {});
  /// A node with one new output.
  std::string make(const std::string& op, const std::vector<std::string>& inputs,
                   const MadeAttributes& attributes = {});
  /// What the last node makes is called so.
  void rename_last(const std::string& name);

  /// The weight `name`, whose bytes are copied.
  void add_constant(const std::string& name, const Tensor& tensor);
  /// A small constant; equal ones are one.
  std::string integers(const std::vector<int64_t>& values);
  std::string number(DType type, double value);

  /// Where a named size is found: an axis of an input.
  void size_is_at(const std::string& symbol, const std::string& input, int64_t axis);
  /// i64 [1]: the size. Throws Error(kInput) where no input has one of its symbols.
  std::string size(const Dim& dim);
  /// i64 [rank]
  std::string sizes(const SymShape& shape);

 private:
  std::string small(const std::string& key, const Tensor& tensor, const std::string& name);

  proto::GraphProto& graph_;
  std::string node_name_;
  std::set<std::string> names_, node_names_;
  std::map<std::string, std::string> small_;  // by contents
  std::map<std::string, std::string> sizes_;  // by expression
  std::map<std::string, std::pair<std::string, int64_t>> places_;
};

}  // namespace vernier::onnx
