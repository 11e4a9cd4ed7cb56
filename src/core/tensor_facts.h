// What is known of arrays, found again by their address.
#pragma once
#include <cstddef>
#include <map>
#include <utility>

#include "vernier/tensor.h"

namespace vernier {

/// Holds the arrays, so that no address is used again.
template <class Fact>
class TensorFacts {
 public:
  /// make(): the fact, asked for where nothing at this address is known.
  template <class Make>
  void add(const Tensor& t, const Make& make) {
    if (!known_.contains(t.data())) known_.emplace(t.data(), Known{t, make()});
  }
  /// Null where nothing is known of these elements.
  const Fact* find(const Tensor& t) const {
    const auto it = known_.find(t.data());
    if (it == known_.end()) return nullptr;
    const auto& [tensor, fact] = it->second;
    return tensor.dtype() == t.dtype() && tensor.elems() == t.elems() ? &fact : nullptr;
  }

 private:
  struct Known {
    Tensor tensor;
    Fact fact;
  };
  std::map<const std::byte*, Known> known_;
};

}  // namespace vernier
