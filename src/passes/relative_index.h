// Indices that depend on the distance of two places only, as lists by distance. Used by
// attention.cpp for scores by relative position.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/index.h"
#include "passes/rewrite.h"

namespace vernier::passes {

/// An integer matrix [.., rows, cols] with the elements f(row − col).
class RelativeIndex {
 public:
  /// Empty if that is not proven, or if an element may not be in [0, size).
  static std::optional<RelativeIndex> find(const Graph& graph, ValueId index, int64_t size);

  /// The list f(n − before), n in [0, count); or backwards, f(before − n). Emits its nodes.
  ValueId emit(Graph& graph, const Dim& before, const Dim& count, bool backwards) const;

  ValueId value() const { return value_; }

 private:
  ValueId value_ = kNoValue;
  std::vector<NodeId> nodes_;                   // that compute f, in order
  std::map<ValueId, analysis::Affine> leaves_;  // its variables, and sizes
};

/// The lists of one graph: attentions share those of one index.
class BucketLists {
 public:
  ValueId get(Graph& graph, const RelativeIndex& index, const Dim& before, const Dim& count,
              bool backwards);

 private:
  using Key = std::tuple<ValueId, std::string, std::string, bool>;
  std::map<Key, ValueId> lists_;
};

}  // namespace vernier::passes
