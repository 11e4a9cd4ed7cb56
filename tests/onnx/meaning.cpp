// Comparing an operator with its meaning: see meaning.h.
#include "onnx/meaning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

Tensor value_of(const TestInput& input, std::mt19937& random) {
  if (!input.integers.empty())
    return Tensor::from(DType::kI32, input.shape, std::span<const int64_t>(input.integers));
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(num_elems(input.shape)));
  for (double& v : values) v = normal(random);
  return Tensor::from(DType::kF32, input.shape, std::span<const double>(values));
}

}  // namespace

ModelBuilder microsoft_model() {
  ModelBuilder model(17);
  auto* opset = model.model().add_opset_import();
  opset->set_domain("com.microsoft");
  opset->set_version(1);
  return model;
}

void fused(ModelBuilder& model, const std::string& op, const Names& in, const Names& out,
           const std::vector<Attribute>& attributes) {
  model.node(op, in, out, attributes).set_domain("com.microsoft");
}

void declare(ModelBuilder& model, const std::vector<TestInput>& inputs) {
  for (const TestInput& input : inputs) {
    model.input(input.name, input.integers.empty() ? kFloat : kInt32,
                {input.shape.begin(), input.shape.end()});
  }
}

void expect_same_meaning(const MeaningCase& row) {
  std::map<std::string, Tensor> values;
  std::mt19937 random(1);
  for (const TestInput& input : row.inputs) values[input.name] = value_of(input, random);
  const auto run = [&](const Build& build) {
    ModelBuilder model = microsoft_model();
    declare(model, row.inputs);
    model.output("y");
    build(model);
    return ops::evaluate(*model.import(), values).outputs.at("y");
  };
  const EvalTensor got = run(row.op), expected = run(row.meaning);
  ASSERT_EQ(str(got.shape), str(expected.shape));
  ASSERT_EQ(got.dtype, expected.dtype);
  bool varies = got.elems() == 1;
  for (int64_t i = 0; i < got.elems(); ++i) {
    // Two orders of the same sums in FP64; the constants of both models are the same floats.
    ASSERT_NEAR(got.value(i), expected.value(i), 1e-12) << "element " << i;
    varies = varies || got.value(i) != got.value(0);
  }
  EXPECT_TRUE(varies);
}

void expect_refused(const RefusedCase& row) {
  ModelBuilder model = microsoft_model();
  model.output("y");
  row.build(model);
  EXPECT_THAT(model.error(), ::testing::HasSubstr(row.message));
}

}  // namespace vernier::onnx
