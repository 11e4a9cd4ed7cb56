// One operator's ONNX nodes with known answers: a case builds a model with the input x, evaluates
// it in FP64 and compares to 1e-6 (most values are small integers and halves).
#pragma once
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "onnx/model_builder.h"

namespace vernier::onnx {

struct VersionCase {
  std::string name;
  int64_t opset;
  std::vector<int64_t> dims;  // of x, which counts 1, 2, 3, ... where `x` is empty
  std::function<void(ModelBuilder&)> build;
  std::vector<double> expected;
  Shape expected_shape;
  std::vector<double> x = {};
};
inline void PrintTo(const VersionCase& row, std::ostream* out) { *out << row.name; }
void expect_values(const VersionCase& row);

/// 1, 2, …, count
std::vector<double> counted(int64_t count);
/// A builder of one node: y = op(x, further inputs).
std::function<void(ModelBuilder&)> one(const std::string& op, const std::vector<Attribute>& attrs,
                                       const std::vector<proto::TensorProto>& constants = {});

/// Lists, a number, and an input that is not given.
proto::TensorProto i64(const std::string& name, const std::vector<int64_t>& values);
proto::TensorProto f32(const std::string& name, const std::vector<float>& values);
proto::TensorProto scalar(const std::string& name, float value);
inline proto::TensorProto absent() { return {}; }

}  // namespace vernier::onnx
