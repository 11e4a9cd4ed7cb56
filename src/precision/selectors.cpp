// Matching of selectors: see selectors.h.
#include "precision/selectors.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "analysis/layers.h"
#include "core/error.h"
#include "core/names.h"

namespace vernier::precision {
namespace {

bool is_pattern(std::string_view text) { return text.find_first_of("*?") != text.npos; }

}  // namespace

std::string str(const Term& term) {
  switch (term.kind) {
    case Term::Kind::kName:
      return "name:" + term.pattern;
    case Term::Kind::kOp:
      return "op:" + term.pattern;
    case Term::Kind::kRole:
      return "role:" + std::string(name(term.role));
    case Term::Kind::kLayer:
      return "layer:" + std::to_string(term.first) +
             (term.last == term.first ? "" : ".." + std::to_string(term.last));
    case Term::Kind::kTrtexec:
      return term.pattern;
  }
  return {};
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = pattern.npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

Selection::Selection(const ir::Graph& raised)
    : graph_(raised),
      structure_(structure_of(raised)),
      nodes_(onnx_nodes(raised)),
      synthetic_(synthetic_names(raised)) {}

Roles Selection::roles(const OnnxNode& node) const {
  Roles of_nodes = 0, of_views = 0;
  for (const OnnxNode::Place& place : node.places) {
    const ir::Node& n = graph_.node(place.node);
    ((flags(n.op) & kView) != 0 ? of_views : of_nodes) |=
        roles_of(structure_, graph_, place.node, n.origins[place.origin]);
  }
  const bool only_views =
      std::all_of(node.places.begin(), node.places.end(), [&](const OnnxNode::Place& place) {
        return (flags(graph_.node(place.node).op) & kView) != 0;
      });
  return only_views ? of_views : of_nodes;
}

bool Selection::is_whole_attention(const OnnxNode& node) const {
  return std::any_of(node.places.begin(), node.places.end(), [&](const OnnxNode::Place& place) {
    const ir::Node& n = graph_.node(place.node);
    return n.op == OpKind::kAttention && is_whole(n);
  });
}

bool Selection::has_op(const OnnxNode& node, std::string_view op) const {
  if (node.op_type == op) return true;
  return std::any_of(node.places.begin(), node.places.end(), [&](const OnnxNode::Place& place) {
    const OpKind kind = graph_.node(place.node).op;
    return (flags(kind) & kComposite) != 0 && (name(kind) == op || onnx_name(kind) == op);
  });
}

// The nodes that decide an ONNX node's block: composites if there are any, else nodes that compute,
// else views. A mask shared by all blocks is in `first` … `last` only if all of them are.
bool Selection::in_blocks(const OnnxNode& node, int first, int last) const {
  const auto rank = [&](const OnnxNode::Place& place) {
    const uint32_t what = flags(graph_.node(place.node).op);
    return (what & kComposite) != 0 ? 2 : (what & kView) != 0 ? 0 : 1;
  };
  int best = 0;
  for (const OnnxNode::Place& place : node.places) best = std::max(best, rank(place));
  bool found = false;
  for (const OnnxNode::Place& place : node.places) {
    const int block = structure_.block[place.node];
    if (rank(place) != best || block == analysis::Layers::kNone) continue;
    if (block < first || block > last) return false;
    found = true;
  }
  return found;
}

bool Selection::holds(const Term& term, const OnnxNode& node) const {
  switch (term.kind) {
    case Term::Kind::kName:
      return matches_glob(term.pattern, node.name);
    case Term::Kind::kOp:
      return has_op(node, term.pattern);
    case Term::Kind::kRole:
      return (roles(node) & bit(term.role)) != 0;
    case Term::Kind::kLayer:
      return in_blocks(node, term.first, term.last);
    case Term::Kind::kTrtexec:
      break;  // trtexec_matches
  }
  return false;
}

// An exact name matches the first kind of name that has it; a pattern matches all kinds.
std::vector<size_t> Selection::trtexec_matches(const Term& term, const std::string& who,
                                               std::vector<std::string>& notes) const {
  std::array<std::vector<size_t>, 3> by_kind;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const SyntheticNames& other = synthetic_.at(nodes_[i].key);
    const auto fits = [&](const std::string& text) { return matches_glob(term.pattern, text); };
    if (fits(nodes_[i].name)) {
      by_kind[0].push_back(i);
    } else if (fits(other.by_type)) {
      by_kind[1].push_back(i);
    } else if (std::any_of(other.composites.begin(), other.composites.end(), fits)) {
      by_kind[2].push_back(i);
    }
  }
  std::vector<size_t> found;
  for (const std::vector<size_t>& some : by_kind) {
    if (!found.empty() && !is_pattern(term.pattern)) break;
    found.insert(found.end(), some.begin(), some.end());
  }
  std::sort(found.begin(), found.end());
  const auto count = [&](size_t kind) { return std::to_string(by_kind[kind].size()); };
  if (is_pattern(term.pattern) && !by_kind[0].empty() && found.size() > by_kind[0].size()) {
    notes.push_back(who + " matches " + count(0) + " by ONNX name, and also " + count(1) +
                    " by type and number and " + count(2) +
                    " as parts of a composite; it applies to all");
  }
  return found;
}

void Selection::check_blocks(const Term& term, const std::string& who) const {
  if (structure_.num_blocks == 0) {
    throw Error(ErrorCode::kInput,
                who + ": '" + str(term) +
                    "' needs blocks, which are counted by raised Attentions, and this model has "
                    "none; `vernier inspect MODEL --raised` shows what stopped them");
  }
  if (term.last < structure_.num_blocks) return;
  throw Error(ErrorCode::kInput, who + ": '" + str(term) + "' asks for block " +
                                     std::to_string(term.last) + ", but this model has blocks 0.." +
                                     std::to_string(structure_.num_blocks - 1));
}

std::vector<size_t> Selection::matches_of(const Term& term, const std::string& who,
                                          std::vector<std::string>& notes) const {
  if (term.kind == Term::Kind::kTrtexec) return trtexec_matches(term, who, notes);
  if (term.kind == Term::Kind::kLayer) check_blocks(term, who);
  std::vector<size_t> found;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (holds(term, nodes_[i])) found.push_back(i);
  }
  return found;
}

// "; nearest: …" among the names that this kind of term can have.
std::string Selection::nearest(const Term& term) const {
  std::set<std::string> known;
  for (const OnnxNode& node : nodes_) {
    const SyntheticNames& other = synthetic_.at(node.key);
    if (term.kind == Term::Kind::kName || term.kind == Term::Kind::kTrtexec)
      known.insert(node.name);
    if (term.kind == Term::Kind::kTrtexec) {
      known.insert(other.by_type);
      known.insert(other.composites.begin(), other.composites.end());
    }
    if (term.kind == Term::Kind::kRole) {
      for (Role role : all_roles()) {
        if ((roles(node) & bit(role)) != 0) known.insert(std::string(name(role)));
      }
    }
    if (term.kind != Term::Kind::kOp) continue;
    known.insert(node.op_type);
    for (const OnnxNode::Place& place : node.places) {
      const OpKind kind = graph_.node(place.node).op;
      if ((flags(kind) & kComposite) != 0) known.insert(std::string(name(kind)));
    }
  }
  const std::string wanted =
      term.kind == Term::Kind::kRole ? std::string(name(term.role)) : term.pattern;
  return nearest_names(wanted, {known.begin(), known.end()});
}

std::vector<size_t> Selection::matches(const Selector& selector, const std::string& who,
                                       std::vector<std::string>& notes) const {
  std::vector<size_t> found;
  std::string counted;
  for (size_t i = 0; i < selector.terms.size(); ++i) {
    const Term& term = selector.terms[i];
    const std::vector<size_t> some = matches_of(term, who, notes);
    if (some.empty()) {
      throw Error(ErrorCode::kInput, who + " matches nothing: the model has no node '" + str(term) +
                                         "'" + nearest(term));
    }
    counted += (i ? ", '" : "'") + str(term) + "' (" + std::to_string(some.size()) + ")";
    std::vector<size_t> both;
    std::set_intersection(found.begin(), found.end(), some.begin(), some.end(),
                          std::back_inserter(both));
    found = i ? both : some;
  }
  if (found.empty()) {
    throw Error(ErrorCode::kInput,
                who + " matches nothing: no node matches all of " + counted + " at once");
  }
  return found;
}

}  // namespace vernier::precision
