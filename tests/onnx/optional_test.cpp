// Optional tensors: what import knows of them, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/model_builder.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

using ::testing::HasSubstr;

// x, declared as optional(f32[2]).
ModelBuilder optional_model() {
  ModelBuilder model(18);
  model.input("x", kFloat, {2}).output("y");
  proto::TypeProto& type = *model.graph().mutable_input(0)->mutable_type();
  const proto::TypeProto tensor = type;
  *type.mutable_optional_type()->mutable_elem_type() = tensor;
  return model;
}
Tensor two() {
  const std::vector<double> x{3, 4};
  return Tensor::from(DType::kF32, {2}, std::span<const double>(x));
}

TEST(Optional, AnInputOfATensorIsRequired) {
  ModelBuilder model = optional_model();
  model.output("has");
  model.node("OptionalHasElement", {"x"}, {"has"});
  model.node("OptionalGetElement", {"x"}, {"y"});
  ImportReport report;
  const auto graph = model.import(&report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_THAT(report.notes[0], HasSubstr("input 'x' may be absent in the model; the engine req"));
  const auto result = ops::evaluate(*graph, {{"x", two()}});
  EXPECT_EQ(result.outputs.at("has").i, (std::vector<int64_t>{1}));
  EXPECT_EQ(result.outputs.at("has").shape, Shape{});
  EXPECT_EQ(result.outputs.at("y").f, (std::vector<double>{3, 4}));
}

// Of no input, an unnamed one, and an optional that is made empty.
TEST(Optional, WhatIsAbsentHasNoElement) {
  for (const Names& inputs : std::vector<Names>{{}, {""}, {"empty"}}) {
    ModelBuilder model(18);
    model.input("x", kFloat, {2}).output("y");
    model.node("Optional", {}, {"empty"});
    model.node("OptionalHasElement", inputs, {"y"});
    const auto result = ops::evaluate(*model.import(), {{"x", two()}});
    EXPECT_EQ(result.outputs.at("y").i, (std::vector<int64_t>{0}));
  }
}

TEST(Optional, OneThatIsMadeOfATensorIsTheTensor) {
  ModelBuilder model(18);
  model.input("x", kFloat, {2}).output("y");
  model.node("Optional", {"x"}, {"o"});
  model.node("OptionalGetElement", {"o"}, {"y"});
  const auto result = ops::evaluate(*model.import(), {{"x", two()}});
  EXPECT_EQ(result.outputs.at("y").f, (std::vector<double>{3, 4}));
}

// An empty optional is to an operator what an input is that the model leaves out.
TEST(Optional, AnEmptyOneIsALeftOutInput) {
  ModelBuilder model(18);
  model.input("x", kFloat, {2}).output("y");
  model.node("Optional", {}, {"limit"});
  model.node("Clip", {"x", "limit"}, {"y"});
  const auto result = ops::evaluate(*model.import(), {{"x", two()}});
  EXPECT_EQ(result.outputs.at("y").f, (std::vector<double>{3, 4}));
}

TEST(Optional, AnElementThatIsNotThereIsRefused) {
  ModelBuilder model(18);
  model.input("x", kFloat, {2}).output("y");
  model.node("Optional", {}, {"empty"});
  model.node("OptionalGetElement", {"empty"}, {"y"});
  EXPECT_THAT(model.error(), HasSubstr("its input is an optional without an element"));
  ModelBuilder returned(18);
  returned.input("x", kFloat, {2}).output("y").node("Optional", {}, {"y"});
  EXPECT_THAT(returned.error(), HasSubstr("graph output 'y' is an optional without an element"));
}

TEST(Optional, OnesOfSequencesAreRefused) {
  ModelBuilder model = optional_model();
  proto::TypeProto& type = *model.graph().mutable_input(0)->mutable_type();
  type.mutable_optional_type()->mutable_elem_type()->set_sequence_type("");
  model.node("OptionalHasElement", {"x"}, {"y"});
  EXPECT_THAT(model.error(), HasSubstr("graph input 'x' is not a tensor"));
}

}  // namespace
}  // namespace vernier::onnx
