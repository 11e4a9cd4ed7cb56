// Selectors of rules: which ONNX nodes they match. Grammar: docs/precision.md.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "precision/onnx_nodes.h"
#include "precision/roles.h"

namespace vernier::precision {

/// One condition on an ONNX node.
struct Term {
  enum class Kind : uint8_t {
    kName,     ///< `pattern` is a glob over ONNX node names
    kOp,       ///< `pattern` is an ONNX op type, or the name of a composite that it is part of
    kRole,     ///< `role`
    kLayer,    ///< in one of the blocks `first` … `last`
    kTrtexec,  ///< `pattern` is a glob over ONNX names and synthetic names
  };
  Kind kind = Kind::kName;
  std::string pattern;
  Role role = Role::kAttention;
  int first = 0, last = 0;
};

/// All terms must hold.
struct Selector {
  std::vector<Term> terms;
};

/// The term as a user writes it: "op:LayerNorm", "layer:0..3"; for trtexec the name alone.
std::string str(const Term& term);

/// Anchored match: `*` stands for any characters, `?` for one.
bool matches_glob(std::string_view pattern, std::string_view text);

/// The ONNX nodes of one raised graph, for selection. Holds the graph's structure at construction;
/// the graph must outlive it.
class Selection {
 public:
  explicit Selection(const ir::Graph& raised);

  const std::vector<OnnxNode>& nodes() const { return nodes_; }
  /// Indices into nodes() of the matches, ascending. `notes` gets remarks for the user about
  /// ambiguous names. Throws Error(kInput), starting with `who`, if there is no match or a block
  /// does not exist: names the term at fault and the nearest names.
  std::vector<size_t> matches(const Selector& selector, const std::string& who,
                              std::vector<std::string>& notes) const;
  /// All roles of an ONNX node, over all its places.
  Roles roles(const OnnxNode& node) const;
  /// True if the node is the only origin of an Attention.
  bool is_whole_attention(const OnnxNode& node) const;

 private:
  std::vector<size_t> matches_of(const Term& term, const std::string& who,
                                 std::vector<std::string>& notes) const;
  std::vector<size_t> trtexec_matches(const Term& term, const std::string& who,
                                      std::vector<std::string>& notes) const;
  bool holds(const Term& term, const OnnxNode& node) const;
  bool has_op(const OnnxNode& node, std::string_view op) const;
  bool in_blocks(const OnnxNode& node, int first, int last) const;
  void check_blocks(const Term& term, const std::string& who) const;
  std::string nearest(const Term& term) const;

  const ir::Graph& graph_;
  Structure structure_;
  std::vector<OnnxNode> nodes_;
  std::map<std::string, SyntheticNames> synthetic_;
};

}  // namespace vernier::precision
