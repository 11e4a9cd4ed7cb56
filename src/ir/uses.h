// The users of a value: the nodes that read it, and the graph outputs that return it. Lists with
// constant-time insertion, removal and lookup. Part of graph.h.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <unordered_map>
#include <vector>

namespace vernier::ir {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;  ///< an absent optional input, an unwanted output
inline constexpr NodeId kNoNode = -1;

/// The users of a value, one entry per use, in order of insertion. A removal leaves a gap, which
/// iteration skips; Graph closes the gaps when they outnumber the users.
class UserList {
 public:
  using Place = uint32_t;  ///< index of a use in the list, until gaps are closed
  struct Use {
    NodeId node;     ///< kNoNode: a gap
    uint32_t input;  ///< which of the node's inputs
  };

  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = NodeId;
    using difference_type = std::ptrdiff_t;
    using pointer = const NodeId*;
    using reference = const NodeId&;
    Iterator() = default;
    Iterator(const Use* at, const Use* end) : at_(at), end_(end) { skip_gaps(); }
    reference operator*() const { return at_->node; }
    Iterator& operator++() {
      ++at_;
      skip_gaps();
      return *this;
    }
    Iterator operator++(int) {
      const Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    void skip_gaps() {
      while (at_ != end_ && at_->node == kNoNode) ++at_;
    }
    const Use *at_ = nullptr, *end_ = nullptr;
  };

  Iterator begin() const { return {uses_.data(), uses_.data() + uses_.size()}; }
  Iterator end() const { return {uses_.data() + uses_.size(), uses_.data() + uses_.size()}; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  NodeId front() const { return *begin(); }
  /// Is this use at `place`?
  bool holds(Place place, NodeId node, size_t input) const {
    return place < uses_.size() && uses_[place].node == node && uses_[place].input == input;
  }

 private:
  friend class Graph;
  std::vector<Use> uses_;
  size_t size_ = 0;
};

/// The values that a graph returns, in order; a value may be returned twice.
class OutputList {
 public:
  OutputList() = default;
  OutputList(std::initializer_list<ValueId> ids) {
    for (ValueId id : ids) push_back(id);
  }

  const std::vector<ValueId>& ids() const { return ids_; }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }
  size_t size() const { return ids_.size(); }
  bool empty() const { return ids_.empty(); }
  ValueId operator[](size_t i) const { return ids_[i]; }
  ValueId front() const { return ids_.front(); }
  ValueId back() const { return ids_.back(); }
  bool contains(ValueId id) const { return places_.contains(id); }

  void push_back(ValueId id) {
    places_[id].push_back(ids_.size());
    ids_.push_back(id);
  }
  void set(size_t i, ValueId id) {
    const auto found = places_.find(ids_[i]);
    std::erase(found->second, i);
    if (found->second.empty()) places_.erase(found);
    ids_[i] = id;
    places_[id].push_back(i);
  }
  /// Every return of `from` becomes one of `to`.
  void replace(ValueId from, ValueId to) {
    const auto found = places_.find(from);
    if (found == places_.end() || from == to) return;
    const std::vector<size_t> places = std::move(found->second);
    places_.erase(found);
    for (size_t i : places) ids_[i] = to;
    auto& others = places_[to];
    others.insert(others.end(), places.begin(), places.end());
  }

 private:
  std::vector<ValueId> ids_;
  std::unordered_map<ValueId, std::vector<size_t>> places_;
};

}  // namespace vernier::ir
