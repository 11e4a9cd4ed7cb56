// Import of Loop: steps that are known, steps that a run may not reach, and what is refused. Values
// are worked out by hand. Scan is in recurrent_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "onnx/model_builder.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<double>;

// A body of iteration i, condition go and the carried names. The outputs begin with a condition.
proto::GraphProto body(const Names& carried, const std::vector<proto::NodeProto>& nodes,
                       const Names& outputs) {
  proto::GraphProto graph;
  graph.set_name("body");
  for (const char* name : {"i", "go"}) graph.add_input()->set_name(name);
  for (const std::string& name : carried) graph.add_input()->set_name(name);
  for (const auto& node : nodes) *graph.add_node() = node;
  for (const std::string& name : outputs) graph.add_output()->set_name(name);
  return graph;
}

proto::TensorProto yes(int32_t value = 1) {
  proto::TensorProto tensor;
  tensor.set_name("yes");
  tensor.set_data_type(kBool);
  tensor.add_int32_data(value);
  return tensor;
}

// Inputs: x of two floats, the number m and the condition c. Constants: zero as x, limit = 5, yes.
ModelBuilder loop(const proto::GraphProto& graph, const Names& inputs, const Names& outputs,
                  int64_t steps = 3) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).input("m", kInt64, {}).input("c", kBool, {});
  model.initializer(i64_tensor("steps", {}, {steps})).initializer(yes());
  model.initializer(i64_tensor("none", {}, {0})).initializer(i64_tensor("one", {}, {1}));
  model.initializer(i64_tensor("three", {}, {3})).initializer(f32_tensor("limit", {}, {5}));
  model.initializer(f32_tensor("zero", {2}, {0, 0}));
  model.node("Loop", inputs, outputs, {attr_graph("body", graph)});
  for (const std::string& name : outputs) {
    if (!name.empty()) model.output(name);
  }
  return model;
}

// s += x, and the sums; goes on as before.
proto::GraphProto sums() {
  return body({"s"},
              {make_node("Add", {"s", "x"}, {"s_out"}), make_node("Identity", {"go"}, {"go_out"}),
               make_node("Identity", {"s_out"}, {"copy"})},
              {"go_out", "s_out", "copy"});
}
// As sums(), while the elements of s are below 5 in all.
proto::GraphProto sums_below() {
  return body({"s"},
              {make_node("Add", {"s", "x"}, {"s_out"}),
               make_node("ReduceSum", {"s_out"}, {"total"}, {attr_int("keepdims", 0)}),
               make_node("Less", {"total", "limit"}, {"go_out"}),
               make_node("Identity", {"s_out"}, {"copy"})},
              {"go_out", "s_out", "copy"});
}

std::map<std::string, EvalTensor> run(const ModelBuilder& model, const Values& x, bool c = true) {
  return ops::evaluate(*model.import(),
                       {{"x", Tensor::from(DType::kF32, {2}, std::span<const double>(x))},
                        {"m", Tensor::scalar(DType::kI64, 2)},
                        {"c", Tensor::scalar(DType::kBool, c ? 1 : 0)}})
      .outputs;
}

// ---- steps that are known ---------------------------------------------------------------------

TEST(Loop, OfAKnownTripCountIsUnrolled) {
  const ModelBuilder model = loop(sums(), {"steps", "", "zero"}, {"y", "all"});
  const auto result = run(model, {1, 2});
  EXPECT_EQ(result.at("y").f, (Values{3, 6}));
  EXPECT_EQ(result.at("all").f, (Values{1, 2, 2, 4, 3, 6}));
  EXPECT_EQ(result.at("all").shape, (Shape{3, 2}));
  const auto graph = model.import();
  EXPECT_THAT(graph->retired,
              ::testing::Contains(::testing::Field(&ir::Retired::why, "unrolled: 3 steps")));
  EXPECT_EQ(graph->node(graph->order()[0]).origins[0].key, "/body/0/0#0");
}

TEST(Loop, GoesOnByAConstantCondition) {
  const Values two{2, 4};
  EXPECT_EQ(run(loop(sums(), {"steps", "yes", "zero"}, {"y"}, 2), {1, 2}).at("y").f, two);
  const proto::GraphProto always =
      body({"s"}, {make_node("Add", {"s", "x"}, {"s_out"})}, {"yes", "s_out"});  // of the model
  EXPECT_EQ(run(loop(always, {"steps", "", "zero"}, {"y"}, 2), {1, 2}).at("y").f, two);
}

TEST(Loop, OneStepNeedsNoConditionForTheNext) {
  const auto result = run(loop(sums_below(), {"steps", "", "zero"}, {"y", "all"}, 1), {1, 2});
  EXPECT_EQ(result.at("all").f, (Values{1, 2}));
}

TEST(Loop, TheNumberOfTheStepIsAConstant) {
  const proto::GraphProto graph = body({"s"},
                                       {make_node("Cast", {"i"}, {"f"}, {attr_int("to", kFloat)}),
                                        make_node("Add", {"s", "f"}, {"s_out"})},
                                       {"go", "s_out"});
  EXPECT_EQ(run(loop(graph, {"steps", "", "x"}, {"y"}), {10, 20}).at("y").f, (Values{13, 23}));
}

TEST(Loop, ABodyMayDeclareListsOfOne) {
  proto::GraphProto graph = body({"s"},
                                 {make_node("Squeeze", {"i"}, {"n"}),
                                  make_node("Cast", {"n"}, {"f"}, {attr_int("to", kFloat)}),
                                  make_node("Add", {"s", "f"}, {"s_out"})},
                                 {"go", "s_out"});
  for (int input : {0, 1})
    graph.mutable_input(input)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->add_dim()
        ->set_dim_value(1);
  EXPECT_EQ(run(loop(graph, {"steps", "", "x"}, {"y"}), {10, 20}).at("y").f, (Values{13, 23}));
}

TEST(Loop, EndsWhereAConditionOfConstantsDoes) {
  const proto::GraphProto graph = body(
      {"k", "s"},
      {make_node("Add", {"k", "one"}, {"k_out"}), make_node("Less", {"k_out", "three"}, {"go_out"}),
       make_node("Add", {"s", "s"}, {"s_out"})},
      {"go_out", "k_out", "s_out", "s"});
  const auto result = run(loop(graph, {"", "yes", "none", "x"}, {"k_end", "y", "all"}), {1, 3});
  EXPECT_EQ(result.at("k_end").i, (std::vector<int64_t>{3}));
  EXPECT_EQ(result.at("y").f, (Values{8, 24}));
  EXPECT_EQ(result.at("all").f, (Values{1, 3, 2, 6, 4, 12}));
}

TEST(Loop, ACounterOfFloatsIsFolded) {
  const proto::GraphProto graph = body(
      {"t", "s"},
      {make_node("Add", {"t", "half"}, {"t_out"}),
       make_node("Less", {"t_out", "limit"}, {"go_out"}), make_node("Add", {"s", "x"}, {"s_out"})},
      {"go_out", "t_out", "s_out"});
  ModelBuilder model = loop(graph, {"", "", "half", "zero"}, {"", "y"});
  model.initializer(f32_tensor("half", {}, {0.5F}));
  EXPECT_EQ(run(model, {1, 2}).at("y").f, (Values{9, 18}));  // until t = 0.5 + 9 · 0.5
}

TEST(Loop, CarriedValuesMayGrow) {
  const proto::GraphProto graph = body(
      {"s"}, {make_node("Concat", {"s", "x"}, {"s_out"}, {attr_int("axis", 0)})}, {"go", "s_out"});
  EXPECT_EQ(run(loop(graph, {"steps", "", "zero"}, {"y"}, 2), {1, 2}).at("y").f,
            (Values{0, 0, 1, 2, 1, 2}));
}

TEST(Loop, OfNoStepsGivesWhatItWasGiven) {
  proto::GraphProto graph = sums();
  auto* type = graph.mutable_output(2)->mutable_type()->mutable_tensor_type();
  type->set_elem_type(kFloat);
  type->mutable_shape()->add_dim()->set_dim_value(2);
  for (const Names& inputs : {Names{"none", "", "x"}, Names{"steps", "no", "x"}}) {
    ModelBuilder model = loop(graph, inputs, {"y", "all"});
    proto::TensorProto no = yes(0);
    no.set_name("no");
    model.initializer(no);
    const auto result = run(model, {1, 2});
    EXPECT_EQ(result.at("y").f, (Values{1, 2}));
    EXPECT_EQ(result.at("all").shape, (Shape{0, 2}));
    EXPECT_EQ(result.at("all").dtype, DType::kF32);
  }
  EXPECT_THAT(loop(sums(), {"none", "", "x"}, {"y", "all"}).error(),
              HasSubstr("Loop x1, it has no steps, and the shape of output 'copy' of its body is "
                        "not declared: 'Loop_0' (#0)"));
  EXPECT_EQ(loop(sums(), {"none", "", "x"}, {"y"}).error(), "no error");
}

TEST(Loop, InALoopIsUnrolledToo) {
  const proto::GraphProto inner =
      body({"t"}, {make_node("Add", {"t", "x"}, {"t_out"})}, {"go", "t_out"});
  const proto::GraphProto outer =
      body({"s"}, {make_node("Loop", {"steps", "", "s"}, {"s_out"}, {attr_graph("body", inner)})},
           {"go", "s_out"});
  EXPECT_EQ(run(loop(outer, {"steps", "", "zero"}, {"y"}), {1, 2}).at("y").f, (Values{9, 18}));
}

// ---- steps that a run may not reach -------------------------------------------------------------

TEST(Loop, ARunMayEndItEarly) {
  const ModelBuilder model = loop(sums_below(), {"steps", "", "zero"}, {"y", "all"}, 4);
  auto result = run(model, {1, 1});  // 2, 4, 6
  EXPECT_EQ(result.at("y").f, (Values{3, 3}));
  EXPECT_EQ(result.at("all").f, (Values{1, 1, 2, 2, 3, 3}));
  result = run(model, {10, 0});
  EXPECT_EQ(result.at("y").f, (Values{10, 0}));
  EXPECT_EQ(result.at("all").shape, (Shape{1, 2}));
  result = run(model, {0, 1});
  EXPECT_EQ(result.at("y").f, (Values{0, 4}));
  EXPECT_EQ(result.at("all").shape, (Shape{4, 2}));
}

// After the step that ends it, the condition would hold again.
TEST(Loop, ThatARunHasEndedDoesNotGoOn) {
  const proto::GraphProto graph = body(
      {"s"},
      {make_node("ReduceSum", {"s"}, {"total"}, {attr_int("keepdims", 0)}),
       make_node("Less", {"total", "limit"}, {"go_out"}), make_node("Sub", {"s", "x"}, {"s_out"})},
      {"go_out", "s_out"});
  EXPECT_EQ(run(loop(graph, {"steps", "", "x"}, {"y"}), {3, 3}).at("y").f, (Values{0, 0}));
  EXPECT_EQ(run(loop(graph, {"steps", "", "x"}, {"y"}), {2, 2}).at("y").f, (Values{-4, -4}));
}

TEST(Loop, ARunMayLeaveItOut) {
  const ModelBuilder model = loop(sums(), {"steps", "c", "zero"}, {"y", "all"});
  EXPECT_EQ(run(model, {1, 2}, true).at("all").f, (Values{1, 2, 2, 4, 3, 6}));
  const auto result = run(model, {1, 2}, false);
  EXPECT_EQ(result.at("y").f, (Values{0, 0}));
  EXPECT_EQ(result.at("all").shape, (Shape{0, 2}));
}

// ---- refusals ---------------------------------------------------------------------------------

struct Refused {
  ModelBuilder model;
  const char* message;
};

TEST(LoopRefusals, SayWhatOnlyARunKnows) {
  const Names outputs{"y", "all"};
  for (const Refused& row : {
           Refused{loop(sums(), {"m", "", "zero"}, outputs),
                   "Loop x1, its trip count is not known when the engine is built, since it "
                   "depends on data; export the model with a constant one: 'Loop_0' (#0)"},
           Refused{loop(sums_below(), {"", "yes", "zero"}, outputs),
                   "its condition depends on data, and it has no trip count; at most 64 steps are "
                   "supported then, all of which are computed"},
           Refused{loop(sums_below(), {"steps", "", "zero"}, outputs, 65),
                   "its condition depends on data, and its trip count is 65; at most 64"},
           Refused{loop(sums(), {"steps", "", "zero"}, outputs, 4097),
                   "it has more than 4096 steps, the limit"},
           Refused{loop(sums(), {"", "", "zero"}, outputs), "it has more than 4096 steps"},
       })
    EXPECT_THAT(row.model.error(), HasSubstr(row.message));
}

TEST(LoopRefusals, ATripCountMayNotBeASizeOfTheInputs) {
  ModelBuilder model(13);
  model.input("x", kFloat, {"n", 2}).output("y");
  model.node("Size", {"x"}, {"count"});
  model.node("Loop", {"count", "", "x"}, {"y"},
             {attr_graph("body", body({"s"}, {make_node("Neg", {"s"}, {"t"})}, {"go", "t"}))});
  EXPECT_THAT(model.error(), HasSubstr("its trip count is 2*n, a size of the inputs; export the "
                                       "model with fixed sizes"));
}

TEST(LoopRefusals, StepsMustNotRefuseRunsThatEndBeforeThem) {
  proto::GraphProto gathers = sums_below(), grows = sums_below();
  *gathers.add_node() = make_node("Gather", {"x", "m"}, {"at_m"});
  gathers.add_output()->set_name("at_m");
  *grows.mutable_node(0) = make_node("Concat", {"s", "x"}, {"s_out"}, {attr_int("axis", 0)});
  EXPECT_THAT(loop(gathers, {"steps", "", "zero"}, {"y", "all", "at"}).error(),
              HasSubstr("its condition depends on data, and its step 1 may refuse a run that ends "
                        "before it: node '/body/0/1/Gather_0' (Gather) does not take every value "
                        "of its input 1"));
  EXPECT_THAT(loop(grows, {"steps", "", "zero"}, {"y"}).error(),
              HasSubstr("its condition depends on data, and its carried value 0 is f32[6] after "
                        "step 1 and f32[4] before it; equal types and shapes are supported"));
}

TEST(LoopRefusals, NameWhatIsWrong) {
  ModelBuilder none = loop(sums(), {"steps", "", "zero"}, {"y", "all"});
  none.graph().mutable_node(0)->clear_attribute();
  proto::GraphProto sequence = sums();
  *sequence.add_node() = make_node("SequenceEmpty", {}, {"sequence"});
  for (const Refused& row : {
           Refused{none, "attribute 'body' is missing"},
           Refused{loop(sums(), {"steps", "", "zero"}, {"y", "all", "more"}),
                   "its body has 3 inputs and 3 outputs; expected 3 inputs and at least 4 outputs"},
           Refused{loop(sums(), {"steps", "", "zero", "zero"}, {"y", "z"}),
                   "its body has 3 inputs and 3 outputs; expected 4 inputs and at least 3 outputs"},
           Refused{loop(sums(), {"steps", "x", "zero"}, {"y"}),
                   "its condition is f32[2]; expected one bool"},
           Refused{loop(sequence, {"steps", "", "zero"}, {"y"}), "SequenceEmpty x1"},
       })
    EXPECT_THAT(row.model.error(), HasSubstr(row.message));
}

// Four loops in one another have 2^48 copies of a body without nodes.
TEST(LoopRefusals, CopiesOfBodiesWithoutNodesAreBounded) {
  proto::GraphProto graph = body({"s"}, {}, {"go", "s"});
  for (int level = 0; level < 3; ++level)
    graph = body({"s"}, {make_node("Loop", {"steps", "", "s"}, {"t"}, {attr_graph("body", graph)})},
                 {"go", "t"});
  EXPECT_THAT(loop(graph, {"steps", "", "zero"}, {"y"}, 4096).error(),
              HasSubstr("the model has more than 200000 nodes once its functions are inlined and "
                        "its loops unrolled"));
}

}  // namespace
}  // namespace vernier::onnx
