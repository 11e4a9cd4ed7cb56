// Sizes of graph inputs: numbers, named sizes and expressions of them become Dims.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/dim.h"
#include "onnx/onnx.pb.h"

namespace vernier::onnx {

class InputShapes {
 public:
  /// Collects the plain names of all inputs, which expressions may refer to.
  explicit InputShapes(const std::vector<const proto::ValueInfoProto*>& inputs);

  /// The shape of one input. A named size that is neither an identifier nor an expression of
  /// identifiers becomes an identifier derived from it; an unnamed size becomes "<input>_d<axis>".
  /// Throws Error(kInput) for an input without a shape and for unsupported sizes.
  SymShape shape(const proto::ValueInfoProto& input);

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Dim named(const std::string& text);
  Dim fresh(const std::string& text);

  std::set<std::string> plain_;        // identifiers that are a whole size, and derived ones
  std::map<std::string, int> copies_;  // numbered copies of an identifier so far
  std::map<std::string, Dim> made_;    // sizes made for all other names
  std::vector<std::string> notes_;
};

}  // namespace vernier::onnx
