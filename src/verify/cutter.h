// Cutter: parts of a failing model as small models with the arrays that go in, for reduce. A part
// is given by nodes; what lies between them comes along. Contract: docs/diagnosis.md "Reduce".
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "evaluate/rows.h"
#include "ir/graph.h"
#include "onnx/slice.h"
#include "plan/plan.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours

struct Cut {
  std::set<size_t> nodes;  ///< of the main graph, by number in the file
  std::vector<std::byte> model;
  NamedTensors inputs;  ///< R at the cut, in the types of the model; graph inputs as they were
};

class Cutter {
 public:
  /// `inputs`: of the whole model, on which it fails. `plan` is its engine's: which nodes compute.
  Cutter(const onnx::ModelSlicer& slicer, const ir::Graph& model, const plan::Plan& plan,
         NamedTensors inputs);
  /// Nodes that compute something at run time.
  const std::set<size_t>& computing() const { return computing_; }
  /// The smallest part that has `chosen` (not empty): nodes between two of them, those that make
  /// constants for them, and those that make a value that is no tensor of its own in the graph.
  /// Empty where there is nothing that such a part would answer.
  std::optional<Cut> cut(const std::set<size_t>& chosen) const;

 private:
  std::set<size_t> between(const std::set<size_t>& chosen) const;
  bool settle_inputs(std::set<size_t>& nodes, onnx::Slice& slice) const;
  std::vector<std::string> outputs_of(const std::set<size_t>& nodes) const;

  const onnx::ModelSlicer& slicer_;
  const ir::Graph& model_;
  NamedTensors inputs_;
  std::map<std::string, ir::ValueId> values_;  // by ONNX name
  std::map<std::string, size_t> producer_;     // node that makes a value
  std::vector<std::set<size_t>> users_;        // nodes that use a node's outputs
  std::vector<bool> varies_;                   // depends on an input
  std::set<size_t> computing_;
};

}  // namespace vernier::verify
