// Promotion: what the range audit requests for single nodes, in addition to mode and rules.
#pragma once
#include <string>
#include <vector>

namespace vernier {

/// ONNX nodes (by ledger key) that compute, or store their results, in f32 whatever the mode
/// requests: the range audit found that a smaller type cannot hold them.
struct Promotion {
  std::vector<std::string> nodes;
  bool compute = false, store = false;
  bool operator==(const Promotion&) const = default;
};

}  // namespace vernier
