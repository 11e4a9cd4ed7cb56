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

  /// The list f(n − before), n in [0, count); or backwards, f(before − n). Emits its nodes, but for
  /// those in `lists`: what became of each value. It is for one `before`, `count` and direction.
  ValueId emit(Graph& graph, const Dim& before, const Dim& count, bool backwards,
               std::map<ValueId, ValueId>& lists) const;

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
  /// As get(places, 2·places): a part of the list of all distances from -places to places, so that
  /// what two indices share is computed once for both directions.
  ValueId get(Graph& graph, const RelativeIndex& index, const Dim& places, bool backwards);

 private:
  using Key = std::tuple<ValueId, std::string, std::string, bool>;
  std::map<Key, ValueId> lists_;
  std::map<std::string, std::map<ValueId, ValueId>> shared_;  // by `places`
};

}  // namespace vernier::passes
