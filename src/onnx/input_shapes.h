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

  /// The shape of one input. A named size that is neither an identifier nor an expression of such
  /// names becomes an identifier made of it; an unnamed one "<input>_d<axis>".
  /// Throws Error(kInput) for an input without a shape and for impossible sizes.
  SymShape shape(const proto::ValueInfoProto& input);

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Dim named(const std::string& text);
  Dim fresh(const std::string& text);

  std::set<std::string> plain_;        // identifiers that stand alone as a size
  std::map<std::string, int> copies_;  // of an identifier, numbered so far
  std::map<std::string, Dim> made_;    // for every other name met
  std::vector<std::string> notes_;
};

}  // namespace vernier::onnx
