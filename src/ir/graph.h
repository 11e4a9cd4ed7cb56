// Graph: the SSA intermediate representation. The graph owns values and nodes; ids refer to them
// and stay valid during the graph's lifetime. No ONNX, no device. Text form: ir/text.h.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/attr_codec.h"
#include "core/derivation.h"
#include "core/dim.h"
#include "core/ledger_state.h"
#include "core/numerics.h"
#include "core/op_kind.h"
#include "core/tensor.h"
#include "core/token_rule.h"
#include "ir/uses.h"

namespace vernier::ir {

/// The ONNX node that a node came from. `key` is unique in the model ("/fn_call/3#17": path of
/// function calls, then the index in file order); `part` is its part of a composite (a rounding
/// point, or empty). `asked` is the request that precision/ makes for this ONNX node; the request
/// of a live node satisfies all of its origins.
struct Origin {
  std::string key, name, op_type, part;
  Request asked = {};
};

inline constexpr int64_t kMaxUniformElems = 1 << 16;

struct Value {
  std::string name;  ///< the ONNX name where the value equals an ONNX value, else empty
  DType dtype = DType::kUndefined;
  SymShape shape;
  bool has_shape = false;  ///< false until inference has run
  Tensor constant;  ///< defined() for constants; until types are decided, f16 and bf16 may be
                    ///< stored in f32
  /// Of a constant: how it was made (ir/derivations.h); null: nobody recorded it.
  DerivationPtr derivation;
  /// c if every element of the constant is c; only for at most kMaxUniformElems elements.
  std::optional<double> uniform;
  /// Known contents of a small integer or bool tensor as size expressions, in row-major order.
  std::optional<std::vector<Dim>> values;
  NodeId producer = kNoNode;  ///< kNoNode: a graph input or a constant
  int producer_output = 0;
  UserList users;  ///< one entry per use as a node input

  bool is_constant() const { return constant.defined(); }
};

class Graph;

struct Node {
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs;
  std::vector<ValueId> inputs, outputs;
  std::vector<UserList::Place> uses;  ///< place of inputs[i] in its value's users; for Graph only
  std::string name;                   ///< for messages; no pass reads it
  std::vector<Origin> origins;
  Request request;                                ///< what is asked of this node (precision/)
  std::vector<std::shared_ptr<Graph>> subgraphs;  ///< bodies of If, Loop, Scan
  bool removed = false;
  bool apart = false;  ///< no pass may merge it into a composite: its request conflicts with it

  /// Is input `i` present?
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] != kNoValue; }
  /// Is output `i` wanted?
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i] != kNoValue; }
  template <class A>
  A attrs_as() const {
    return decode<A>(attrs);
  }
};

/// A condition that the sizes of the inputs must meet at run time: lhs == rhs.
struct Guard {
  Dim lhs, rhs;
  std::string where;  ///< the node that requires it, for messages
};

/// Index of a graph's guards: the texts of their two sides, the smaller first.
struct GuardIndex {
  std::set<std::pair<std::string, std::string>> texts;
  size_t count = 0;  ///< number of guards in the index
};

/// The state of an ONNX node that no longer has a node in the graph.
struct Retired {
  Origin origin;
  LedgerState state = LedgerState::kRemoved;
  std::string why;
};

/// The operands of 8 bits of a product whose model says them itself (onnx/int8_operands.h).
struct Int8Operands {
  DType type = DType::kI8;        ///< or f8e4m3
  float x_scale = 1, x_zero = 0;  ///< q = x·factor / x_scale + x_zero, in all rows
  std::vector<float> factors;     ///< of x's columns; empty: 1
  std::vector<float> w_scales;    ///< by column: w / factor is numbers of `type` in units of them
};

/// A size that depends on data: the places that a run keeps for the tokens of an input
/// (core/token_rows.h).
struct TokenCount {
  std::string symbol;
  ValueId mask = kNoValue;  ///< a graph input [B, S]
  TokenRule rule = {};
};

class Graph {
 public:
  std::string name = "main";
  std::vector<ValueId> inputs;
  OutputList outputs;
  std::vector<std::string> output_names;  ///< ONNX names, parallel to outputs
  std::vector<Guard> guards;
  GuardIndex known_guards;  ///< for ops/infer.cpp, which adds guards
  std::map<std::string, Dim>
      symbol_substitutions;  ///< symbols replaced by unification, for messages and binding
  /// True after precision is decided: results have the storage type of their node's request, and
  /// operands of one node may have different float types.
  bool typed = false;
  /// Symbols that only the data says (InferContext::fresh_size), and the largest that each can be,
  /// where that is known. Such a size is its symbol less 1.
  std::map<std::string, std::optional<Dim>> data_sizes;
  std::vector<TokenCount> token_counts;
  std::vector<std::string> notes;  ///< what passes want the reader of a build to know
  std::map<std::string, Int8Operands> int8_operands;  ///< by the key of the product's ONNX node
  std::vector<Retired> retired;
  /// Work of folded constants so far, and its limit (ops::fold_node); 0: not computed yet.
  double folded_work = 0, max_folded_work = 0;

  /// Adds a constant; equal tensors are not merged here (see the fold pass).
  ValueId add_constant(Tensor tensor, std::string name = "");
  ValueId add_input(std::string name, DType dtype, SymShape shape);
  /// Appends a node with `num_outputs` fresh values (types unknown until inferred).
  NodeId add_node(OpKind op, std::vector<ValueId> inputs, AttrBytes attrs, int num_outputs = 1);

  Value& value(ValueId id) { return values_[id]; }
  const Value& value(ValueId id) const { return values_[id]; }
  Node& node(NodeId id) { return nodes_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  size_t num_values() const { return values_.size(); }
  size_t num_nodes() const { return nodes_.size(); }  ///< including removed ones
  /// Live nodes in topological order (sort() is stable); nodes removed by drop_dead() stay in it
  /// until the next remove_dead().
  const std::vector<NodeId>& order() const { return order_; }

  /// The producing node, or null for inputs and constants.
  const Node* producer(ValueId id) const;
  Node* producer(ValueId id);
  bool is_output(ValueId id) const;
  /// Exactly one use by a node and not a graph output.
  bool single_use(ValueId id) const;

  void set_input(NodeId node, size_t index, ValueId value);
  void set_inputs(NodeId node, std::vector<ValueId> inputs);
  /// Every use of `from` (graph outputs included) becomes a use of `to`. If `from` has an ONNX name
  /// and `to` has none, `to` takes it.
  void replace_uses(ValueId from, ValueId to);
  /// `value` becomes a constant: its producer (if any) no longer defines it. Its derivation is
  /// what the caller sets after that.
  void make_constant(ValueId value, Tensor tensor);
  /// Removes a node whose outputs have no uses.
  void remove_node(NodeId id);
  /// Removes the node if its outputs have no uses, and then its producers that became unused. For a
  /// pass that makes many nodes dead one by one: the next remove_dead() updates the order and
  /// retires origins.
  void drop_dead(NodeId id);
  /// Records the state of origins that no live node has.
  void retire(const std::vector<Origin>& origins, LedgerState state, const std::string& why);
  /// Removes nodes without used outputs; retires their origins unless a live node or an earlier
  /// row holds them: kShape if all outputs have known values, kFolded if constant, else kDead.
  /// Returns how many were removed.
  int remove_dead();
  /// Restores topological order (stable by current position). Asserts that there is no cycle.
  void sort();
  /// A deep copy.
  std::shared_ptr<Graph> clone() const { return std::make_shared<Graph>(*this); }
  /// Changes with every call above that changes nodes, values or uses.
  uint64_t changes() const { return changes_; }

 private:
  void add_use(ValueId value, NodeId node, size_t input);
  void remove_use(ValueId value, UserList::Place place);
  bool is_used(const Node& node) const;
  bool is_sorted() const;
  void retire_dead(const std::vector<NodeId>& dead);

  std::deque<Value> values_;  // deque: references stay valid while passes add values
  std::deque<Node> nodes_;
  std::vector<NodeId> order_;
  std::vector<NodeId> dropped_;  // since the last remove_dead()
  uint64_t changes_ = 0;
};

/// Appends the origins of `from` whose keys are not in `to`.
void merge_origins(std::vector<Origin>& to, const std::vector<Origin>& from);

/// Throws Error(kInternal) naming `where` and the first broken rule: ids in range, producers and
/// users consistent, inputs defined before use, attributes decodable, types and shapes present
/// once inferred, output names unique.
void check(const Graph& graph, const std::string& where);

}  // namespace vernier::ir
