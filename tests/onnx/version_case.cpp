// ONNX nodes with known answers: see version_case.h.
#include "onnx/version_case.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/evaluate.h"

namespace vernier::onnx {

std::vector<double> counted(int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i + 1);
  return values;
}

std::function<void(ModelBuilder&)> one(const std::string& op, const std::vector<Attribute>& attrs,
                                       const std::vector<proto::TensorProto>& constants) {
  return [=](ModelBuilder& model) {
    Names inputs{"x"};
    for (const auto& tensor : constants) {
      if (!tensor.name().empty()) model.initializer(tensor);
      inputs.push_back(tensor.name());
    }
    model.node(op, inputs, {"y"}, attrs);
  };
}

proto::TensorProto i64(const std::string& name, const std::vector<int64_t>& values) {
  return i64_tensor(name, {static_cast<int64_t>(values.size())}, values);
}
proto::TensorProto f32(const std::string& name, const std::vector<float>& values) {
  return f32_tensor(name, {static_cast<int64_t>(values.size())}, values);
}
proto::TensorProto scalar(const std::string& name, float value) {
  return f32_tensor(name, {}, {value});
}

void expect_values(const VersionCase& row) {
  ModelBuilder model(row.opset);
  model.input("x", kFloat, {row.dims.begin(), row.dims.end()}).output("y");
  row.build(model);
  const auto graph = model.import();
  const std::vector<double> x = row.x.empty() ? counted(num_elems(row.dims)) : row.x;
  const auto result = ops::evaluate(
      *graph, {{"x", Tensor::from(DType::kF32, row.dims, std::span<const double>(x))}});
  const EvalTensor& y = result.outputs.at("y");
  EXPECT_EQ(y.shape, row.expected_shape);
  ASSERT_EQ(y.f.size(), row.expected.size());
  for (size_t i = 0; i < y.f.size(); ++i) {
    EXPECT_NEAR(y.f[i], row.expected[i], 1e-6 * (1 + std::abs(row.expected[i]))) << "element " << i;
  }
}

}  // namespace vernier::onnx
