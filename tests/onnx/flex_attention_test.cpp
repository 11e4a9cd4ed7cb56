// FlexAttention of ai.onnx.preview: the graphs of its attributes change scores and probabilities;
// which graphs are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/model_builder.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

using ::testing::HasSubstr;

// y = op(x, weight)
proto::GraphProto graph_of(const std::string& op, const proto::TensorProto& weight) {
  proto::GraphProto graph;
  graph.set_name("g");
  graph.add_input()->set_name("in");
  *graph.add_initializer() = weight;
  *graph.add_node() = make_node(op, {"in", weight.name()}, {"out"});
  graph.add_output()->set_name("out");
  return graph;
}

// Two query heads of one key head. q = 0, so that the scores of the two keys are 0.
ModelBuilder model_of(const std::vector<Attribute>& attributes, int64_t q_rank = 4) {
  ModelBuilder model(26);
  std::vector<TestDim> q_dims{1, 2, 1, 1};
  q_dims.resize(static_cast<size_t>(q_rank), 1);
  model.input("q", kFloat, q_dims).input("k", kFloat, {1, 1, 2, 1});
  model.input("v", kFloat, {1, 1, 2, 1}).output("y");
  auto* opset = model.model().add_opset_import();
  opset->set_domain("ai.onnx.preview");
  opset->set_version(1);
  model.node("FlexAttention", {"q", "k", "v"}, {"y"}, attributes).set_domain("ai.onnx.preview");
  return model;
}
std::vector<double> answer(const std::vector<Attribute>& attributes) {
  const std::vector<double> values{1, 3};
  const auto zeros = [](Shape shape) {
    return EvalTensor(DType::kF32, std::move(shape)).to_tensor();
  };
  const auto graph = model_of(attributes).import();
  const auto result = ops::evaluate(
      *graph, {{"q", zeros({1, 2, 1, 1})},
               {"k", zeros({1, 1, 2, 1})},
               {"v", Tensor::from(DType::kF32, {1, 1, 2, 1}, std::span<const double>(values))}});
  EXPECT_EQ(result.outputs.at("y").shape, (Shape{1, 2, 1, 1}));
  return result.outputs.at("y").f;
}

TEST(FlexAttention, GraphsChangeScoresAndProbabilities) {
  const auto near = [](double value) {
    return ::testing::Pointwise(::testing::DoubleNear(1e-6), std::vector<double>{value, value});
  };
  const Attribute bias =
      attr_graph("score_mod", graph_of("Add", f32_tensor("bias", {2}, {0, std::log(3.0F)})));
  const Attribute twice = attr_graph("prob_mod", graph_of("Mul", f32_tensor("two", {}, {2})));
  EXPECT_THAT(answer({}), near(2));
  EXPECT_THAT(answer({attr_float("scale", 0.25F)}), near(2));
  EXPECT_THAT(answer({attr_int("softmax_precision", 11)}), near(2));
  EXPECT_THAT(answer({bias}), near(2.5));
  EXPECT_THAT(answer({twice}), near(4));
  EXPECT_THAT(answer({bias, twice}), near(5));
}

TEST(FlexAttention, WhatItsGraphsMayNotBeIsRefused) {
  const proto::TensorProto one = f32_tensor("one", {}, {1});
  proto::GraphProto two_inputs = graph_of("Add", one), two_outputs = two_inputs;
  two_inputs.add_input()->set_name("more");
  two_outputs.add_output()->set_name("in");
  proto::GraphProto nothing = graph_of("Add", one);
  nothing.mutable_output(0)->set_name("other");
  const auto error = [](const proto::GraphProto& graph) {
    return model_of({attr_graph("score_mod", graph)}).error();
  };
  EXPECT_THAT(error(two_inputs), HasSubstr("its graph 'g' has 2 inputs; expected 1"));
  EXPECT_THAT(error(two_outputs), HasSubstr("graph 'score_mod' has 2 outputs; expected 1"));
  EXPECT_THAT(error(nothing), HasSubstr("its graph 'g' does not define output 'other'"));
  EXPECT_THAT(error(graph_of("Add", f32_tensor("wide", {2, 1, 1, 1}, {0, 0}))),
              HasSubstr("graph 'score_mod' gives f32[2, 2, 1, 2]; expected f32[1, 2, 1, 2]"));
  EXPECT_THAT(error(graph_of("Less", one)),
              HasSubstr("graph 'score_mod' gives bool[1, 2, 1, 2]; expected f32[1, 2, 1, 2]"));
  EXPECT_THAT(error(graph_of("Multinomial", one)),
              HasSubstr("Multinomial x1, it draws random numbers; an engine has one answer: "
                        "'/score_mod/0/0/Multinomial_0'"));
}

TEST(FlexAttention, WrongInputsAndAttributesAreRefused) {
  EXPECT_THAT(model_of({}, 3).error(), HasSubstr("input 0 has shape [1, 2, 1]; expected rank 4"));
  EXPECT_THAT(model_of({attr_int("softmax_precision", kInt64)}).error(),
              HasSubstr("softmax_precision is no float type"));
  EXPECT_THAT(model_of({attr_float("scale", -1)}).error(), HasSubstr("its scale is negative"));
}

}  // namespace
}  // namespace vernier::onnx
