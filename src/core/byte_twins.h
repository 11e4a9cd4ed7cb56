// Finds arrays with equal bytes, among any number of them: constants of a graph, weights of an
// engine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/tensor.h"

namespace vernier {

class ByteTwins {
 public:
  /// The id of the first array that was added with this kind and these bytes; empty if there is
  /// none, and then `id` is added. `kind`: whatever else must be equal (type, shape).
  std::optional<int32_t> find_or_add(const std::string& kind, const Tensor& array, int32_t id);

 private:
  struct Entry {
    Tensor array;
    int32_t id;
  };
  struct Bucket {
    Entry first;
    std::unordered_multimap<std::string, Entry> others;  // by hash: different arrays, equal samples
  };
  std::unordered_map<std::string, Bucket> buckets_;  // by kind, size and sample
};

}  // namespace vernier
