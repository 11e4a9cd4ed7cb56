// Importer: reads a model's nodes in file order and builds the graph with inferred types and
// shapes; inlines local functions and branches of If. Contract: import.h.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "onnx/import.h"
#include "onnx/node_context.h"
#include "onnx/unsupported.h"

namespace vernier::onnx {

/// The meaning of a name of the model.
struct Binding {
  enum class Kind : uint8_t {
    kValue,        ///< a value of the graph; kNoValue: an argument that a call leaves out, or an
                   ///< optional without an element
    kUnknown,      ///< depends on a node that is not supported (reported at the end)
    kUnavailable,  ///< an output of a supported node that Vernier does not compute
  };
  Kind kind = Kind::kValue;
  ir::ValueId value = ir::kNoValue;
  ir::Origin producer = {};  ///< kUnavailable: the node
};

/// The names visible in one body: the main graph, one call of a function, one branch.
struct Scope {
  const Scope* parent = nullptr;  ///< a branch sees the names around it, a function does not
  std::string path;               ///< "" or "/fn/3": prefix of origin keys and inner names
  const Opsets* opsets = nullptr;
  const AttributeBindings* bindings = nullptr;
  std::map<std::string, Binding> names;

  const Binding* find(const std::string& name) const;
};

class Importer {
 public:
  Importer(proto::ModelProto& model, const std::filesystem::path& folder,
           const ImportOptions& options, ImportReport& report);
  std::shared_ptr<ir::Graph> run();

 private:
  using Nodes = google::protobuf::RepeatedPtrField<proto::NodeProto>;

  void read_functions();
  /// After all nodes: what a Q/DQ model that Vernier wrote says of int8 products.
  void take_operands();
  /// What the reader of a build should know of the Ifs of which both branches are computed.
  void note_open_ifs();
  void add_initializers(proto::GraphProto& graph, Scope& scope);
  /// Inputs of type optional(tensor) become tensors, which every run must give.
  void require_optional_inputs();
  void add_inputs(Scope& scope);
  void add_outputs(const Scope& scope);
  void note_declared_shape(const proto::ValueInfoProto& declared, ir::ValueId value);

  void import_nodes(const Nodes& nodes, Scope& scope);
  /// Counts one more node, or body: one may have no nodes. Throws Error(kInput) for too many.
  void count(int64_t& counter) const;
  void import_node(const proto::NodeProto& node, const ir::Origin& origin, Scope& scope);
  void translate(const proto::NodeProto& node, NodeSite site, Scope& scope);
  /// Values of the node's inputs; false if one of them depends on an unsupported node.
  bool resolve_inputs(const proto::NodeProto& node, const Scope& scope,
                      std::vector<ir::ValueId>& inputs);
  /// The value as i4 or u4 if it is an initializer of 4 bits, else itself.
  ir::ValueId in_own_type(ir::ValueId value);
  void define(Scope& scope, const std::string& name, Binding binding, const std::string& where);
  void define_unknown(const proto::NodeProto& node, Scope& scope, const std::string& where);

  // calls.cpp
  /// Counts the bytes of one more copy of (a part of) a body: nested calls multiply bodies.
  void charge(size_t bytes);
  /// Throws Error(kInput) where a call or branch at `where` would be nested too deeply.
  void enter(const std::string& where);
  /// The operator sets of a function, read once per function.
  const Opsets& opsets_of(const proto::FunctionProto& function);
  void inline_call(const proto::FunctionProto& function, const NodeSite& site, Scope& scope);
  void import_if(const NodeSite& site, Scope& scope);
  /// An If whose condition is not known: both branches, and a Where for each output. Throws
  /// UnsupportedNode with the reason, which goes on after "its condition is not known ..., and ".
  void import_both(const proto::GraphProto& then_branch, const proto::GraphProto& else_branch,
                   const NodeSite& site, Scope& scope);
  /// Imports a body into `inner`, whose names are the body's inputs, as part of `scope`; false,
  /// with the nodes noted, if it has unsupported ones.
  bool import_body(const proto::GraphProto& body, const std::string& where, const Scope& scope,
                   Scope& inner);
  /// InlineGraph of the node at `where`. Throws UnsupportedNode for a body with unsupported nodes.
  std::vector<ir::ValueId> inline_graph(const proto::GraphProto& graph, const std::string& path,
                                        std::span<const ir::ValueId> inputs,
                                        const std::string& where, const Scope& scope);
  void take_branch(const proto::GraphProto& branch, const std::string& path, const NodeSite& site,
                   Scope& scope);
  void retire_branch(const proto::GraphProto& branch, const std::string& path);
  /// Binds the node's outputs in `scope` to the values named `results` in `inner`.
  void bind_results(const NodeSite& site, const std::vector<std::string>& results,
                    const Scope& inner, Scope& scope);
  /// KnownNumber (node_context.h).
  std::optional<int64_t> known_number(ir::ValueId value);
  /// Folds the constant nodes that the value is computed from.
  void fold_cone(ir::ValueId value, size_t depth, std::set<ir::NodeId>& seen);

  proto::ModelProto& model_;
  ImportOptions options_;
  Watch watch_{options_.limits};
  ImportReport& report_;
  TensorReader tensors_;
  Opsets opsets_;
  Functions functions_;
  std::map<const proto::FunctionProto*, Opsets> function_opsets_;
  UnsupportedNodes unsupported_;
  std::vector<std::string> open_ifs_;  // names of those of which both branches are computed
  std::vector<const proto::FunctionProto*> call_stack_;
  int64_t bodies_ = 0;        // of graphs of attributes, copies included
  int nesting_ = 0;           // of calls and bodies, here
  size_t inlined_bytes_ = 0;  // of names, operands and constants of bodies so far
  std::shared_ptr<ir::Graph> graph_ = std::make_shared<ir::Graph>();
  // Initializers of INT4 and UINT4, held as i8 and u8, and the same as i4 and u4 once it is needed.
  std::map<ir::ValueId, ir::ValueId> four_bits_;
  size_t substitutions_ = 0;  // of the graph, applied so far
};

}  // namespace vernier::onnx
