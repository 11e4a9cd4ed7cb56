// NodeContext: what the translation of one ONNX node sees and does. Contract of the functions in
// the group files (elementwise.cpp, shape.cpp, ...): read inputs and attributes, emit nodes, set
// the outputs. See docs/adding_an_operator.md.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "onnx/attributes.h"
#include "onnx/tensor_reader.h"
#include "ops/infer.h"

namespace vernier::onnx {

/// Thrown by a translation for a variant of an operator that Vernier does not have; collected with
/// the unknown operators into one error.
struct UnsupportedNode {
  std::string why;
};

/// Imports a graph of the node's attributes with these values as its inputs; returns its outputs.
/// `path` tells apart several copies of the node's graphs ("score_mod/17/0").
using InlineGraph = std::function<std::vector<ir::ValueId>(
    const proto::GraphProto& graph, const std::string& path, std::span<const ir::ValueId> inputs)>;

/// The one number of an integer or bool value, if constants and known sizes determine it: folds the
/// constant nodes that it is computed from.
using KnownNumber = std::function<std::optional<int64_t>(ir::ValueId)>;

/// One node of the file, with names resolved.
struct NodeSite {
  const proto::NodeProto* node;
  ir::Origin origin;
  int64_t opset = 0;                ///< version of the node's domain here
  std::vector<ir::ValueId> inputs;  ///< kNoValue: absent
  const AttributeBindings* bindings = nullptr;
  InlineGraph inline_graph = {};
  KnownNumber known_number = {};
};

class NodeContext {
 public:
  NodeContext(ir::Graph& graph, TensorReader& tensors, NodeSite site);

  int64_t opset() const { return site_.opset; }
  Attributes& attrs() { return attrs_; }

  size_t num_inputs() const { return site_.inputs.size(); }
  bool has_input(size_t i) const { return i < num_inputs() && site_.inputs[i] != ir::kNoValue; }
  /// Input i; fails if it is absent.
  ir::ValueId input(size_t i);
  /// Input i or kNoValue.
  ir::ValueId optional_input(size_t i);
  /// All inputs, absent ones as kNoValue, without absent ones at the end.
  std::vector<ir::ValueId> all_inputs();

  const ir::Graph& graph() const { return graph_; }
  const ir::Value& value(ir::ValueId id) const { return graph_.value(id); }
  DType dtype(ir::ValueId value) const { return graph_.value(value).dtype; }
  const SymShape& shape(ir::ValueId value) const { return graph_.value(value).shape; }
  int64_t rank(ir::ValueId value) const { return static_cast<int64_t>(shape(value).size()); }
  /// Does the size depend on data? Then only a value computed from that data holds it.
  bool depends_on_data(const Dim& size) const { return ops::depends_on_data(graph_, size); }
  /// Contents of an integer value where all of them are known numbers.
  std::optional<std::vector<int64_t>> integers(ir::ValueId value) const;
  /// KnownNumber of the value.
  std::optional<int64_t> known_number(ir::ValueId value) const { return site_.known_number(value); }

  /// Declared outputs, unnamed ones included.
  size_t num_outputs() const;
  /// Output i has a name.
  bool wants_output(size_t i) const;

  ir::ValueId constant(Tensor tensor) { return graph_.add_constant(std::move(tensor)); }
  ir::ValueId constant_i64(std::vector<int64_t> values) {
    return constant(Tensor::i64(std::move(values)));
  }
  /// The array of a tensor attribute.
  Tensor read_tensor(const proto::TensorProto& tensor);

  /// Adds and infers a node that carries this ONNX node's origin; returns its outputs.
  std::vector<ir::ValueId> emit_all(OpKind op, std::vector<ir::ValueId> inputs, AttrBytes attrs,
                                    size_t num_outputs);
  template <class A>
  // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved on
  ir::ValueId emit(OpKind op, std::vector<ir::ValueId> inputs, const A& attrs) {
    return emit_all(op, std::move(inputs), encode(attrs), 1)[0];
  }
  ir::ValueId emit(OpKind op, std::vector<ir::ValueId> inputs) {
    return emit_all(op, std::move(inputs), {}, 1)[0];
  }
  ir::ValueId reshape(ir::ValueId value, SymShape shape);
  ir::ValueId transpose(ir::ValueId value, std::vector<int64_t> perm);
  /// The value in another type; itself where it has that type.
  ir::ValueId cast(ir::ValueId value, DType type);
  /// The nodes of graph attribute `name` with these values as its inputs; returns its outputs.
  /// Fails if the attribute is absent, and for another number of inputs. A reference that shape()
  /// gave may be invalid afterwards.
  std::vector<ir::ValueId> inline_graph(const std::string& name,
                                        std::span<const ir::ValueId> inputs);

  /// The ONNX node as such goes away, whatever nodes it emits: `why` for the ledger.
  void retire(const std::string& why);
  void set_output(size_t i, ir::ValueId value);
  /// Output i is an optional without an element: to its readers an input that is absent.
  void set_absent(size_t i) { absent_.insert(i); }
  bool is_absent(size_t i) const { return absent_.contains(i); }
  /// The values set, by output index; kNoValue where none was.
  const std::vector<ir::ValueId>& outputs() const { return outputs_; }
  /// After the translation: every attribute and input must have been read.
  void check_all_read() const;

  /// Throws Error(kInput): "node 'x' (Op, #17): <what>".
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void unsupported(const std::string& why) const { throw UnsupportedNode{why}; }

 private:
  ir::Graph& graph_;
  TensorReader& tensors_;
  NodeSite site_;
  std::string where_;
  Attributes attrs_;
  std::set<size_t> inputs_read_, absent_;
  size_t graphs_inlined_ = 0;
  std::vector<ir::ValueId> outputs_;
};

/// "node 'x' (Op, #17)"
std::string describe(const ir::Origin& origin);

}  // namespace vernier::onnx
