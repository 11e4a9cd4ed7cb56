// Operators beside their meaning: two models with the same inputs and one output y must compute the
// same values. Also the spelling of nodes of ONNX Runtime's domain.
#pragma once
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "onnx/model_builder.h"

namespace vernier::onnx {

/// A model of opset 17 that imports com.microsoft.
ModelBuilder microsoft_model();
/// A node of domain com.microsoft.
void fused(ModelBuilder& model, const std::string& op, const Names& in, const Names& out,
           const std::vector<Attribute>& attributes = {});

/// An input of both models: int32 where numbers are given, else random f32.
struct TestInput {
  std::string name;
  Shape shape;
  std::vector<int64_t> integers = {};
};
void declare(ModelBuilder& model, const std::vector<TestInput>& inputs);

using Build = std::function<void(ModelBuilder&)>;

struct MeaningCase {
  std::string name;
  std::vector<TestInput> inputs;
  Build op, meaning;  ///< both define y
};
inline void PrintTo(const MeaningCase& row, std::ostream* out) { *out << row.name; }
/// Imports and evaluates both models in FP64 and compares y.
void expect_same_meaning(const MeaningCase& row);

/// A model with output y that import refuses with `message` in its error.
struct RefusedCase {
  std::string name;
  Build build;
  std::string message;
};
inline void PrintTo(const RefusedCase& row, std::ostream* out) { *out << row.name; }
void expect_refused(const RefusedCase& row);

}  // namespace vernier::onnx
