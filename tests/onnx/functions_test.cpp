// Local functions and If: inlining, attribute references, captured values, origins, and what is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/model_builder.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<double> run(const ir::Graph& graph, const std::vector<double>& x) {
  const Shape shape{static_cast<int64_t>(x.size())};
  return ops::evaluate(graph, {{"x", Tensor::from(DType::kF32, shape, std::span<const double>(x))}})
      .outputs.at("y")
      .f;
}

// y = leaky(leaky(x)) through two levels: outer calls inner with its own attribute's value.
ModelBuilder nested_functions() {
  ModelBuilder model(16);
  model.input("x", kFloat, {2}).output("y");
  proto::FunctionProto& inner = model.function("inner", {"a"}, {"b"});
  inner.add_attribute("slope");
  *inner.add_node() =
      make_node("LeakyRelu", {"a"}, {"b"}, {attr_ref("alpha", "slope", Attribute::FLOAT)});
  proto::FunctionProto& outer = model.function("outer", {"p"}, {"q"});
  *outer.add_attribute_proto() = attr_float("rate", 0.5F);
  auto* call = outer.add_node();
  *call = make_node("inner", {"p"}, {"q"}, {attr_ref("slope", "rate", Attribute::FLOAT)});
  call->set_domain("local");
  return model;
}

proto::NodeProto& call(ModelBuilder& model, const std::string& name, const Names& in,
                       const Names& out, const std::vector<Attribute>& attributes = {}) {
  proto::NodeProto& node = model.node(name, in, out, attributes);
  node.set_domain("local");
  return node;
}

TEST(Functions, AttributesPassThroughNestedCallsAndDefaultsHold) {
  ModelBuilder model = nested_functions();
  call(model, "outer", {"x"}, {"m"});                           // default rate 0.5
  call(model, "outer", {"m"}, {"y"}, {attr_float("rate", 2)});  // given
  const auto graph = model.import();
  EXPECT_EQ(run(*graph, {-4, 3}), (std::vector<double>{-4, 3}));  // -4 · 0.5 · 2
}

TEST(Functions, NodesKnowTheirPathAndCallsAreRetired) {
  ModelBuilder model = nested_functions();
  model.node("Identity", {"x"}, {"i"});
  call(model, "outer", {"i"}, {"y"}).set_name("block");
  const auto graph = model.import();
  ASSERT_EQ(graph->order().size(), 2U);
  const ir::Node& leaky = graph->node(graph->order()[1]);
  ASSERT_EQ(leaky.origins.size(), 1U);
  EXPECT_EQ(leaky.origins[0].key, "/outer/1/inner/0#0");
  EXPECT_EQ(leaky.origins[0].name, "/outer/1/inner/0/LeakyRelu_0");
  EXPECT_EQ(leaky.origins[0].op_type, "LeakyRelu");
  std::vector<std::string> removed;
  for (const auto& row : graph->retired) {
    EXPECT_EQ(row.state, LedgerState::kRemoved);
    removed.push_back(row.origin.key + " " + row.origin.name);
  }
  EXPECT_THAT(removed, ::testing::UnorderedElementsAre("#1 block", "/outer/1#0 /outer/1/inner_0"));
  EXPECT_EQ(graph->value(graph->outputs[0]).name, "y");  // the outermost name of the value
}

TEST(Functions, AnAbsentAttributeWithoutDefaultIsAbsentInside) {
  ModelBuilder model(16);
  model.input("x", kFloat, {2}).output("y");
  proto::FunctionProto& f = model.function("f", {"a"}, {"b"});
  f.add_attribute("slope");
  *f.add_node() =
      make_node("LeakyRelu", {"a"}, {"b"}, {attr_ref("alpha", "slope", Attribute::FLOAT)});
  call(model, "f", {"x"}, {"y"});
  EXPECT_NEAR(run(*model.import(), {-100, 1})[0], -1, 1e-6);  // LeakyRelu's own default, 0.01
}

TEST(Functions, AnInputMayBeLeftOut) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y");
  model.initializer(f32_tensor("limit", {}, {3}));
  *model.function("clip", {"v", "low", "high"}, {"w"}).add_node() =
      make_node("Clip", {"v", "low", "high"}, {"w"});
  call(model, "clip", {"x", "", "limit"}, {"y"});
  EXPECT_EQ(run(*model.import(), {-9, 9}), (std::vector<double>{-9, 3}));
}

TEST(Functions, MistakesAreNamed) {
  const auto error_of = [](const std::function<void(ModelBuilder&)>& change) {
    ModelBuilder model = nested_functions();
    change(model);
    return model.error();
  };
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.model().mutable_functions(0)->mutable_node(0)->set_op_type("outer");
                m.model().mutable_functions(0)->mutable_node(0)->set_domain("local");
                m.model().mutable_functions(0)->mutable_node(0)->clear_attribute();
                call(m, "outer", {"x"}, {"y"});
              }),
              HasSubstr("function 'outer' calls itself"));
  EXPECT_THAT(
      error_of([](ModelBuilder& m) { call(m, "outer", {"x"}, {"y"}, {attr_int("speed", 1)}); }),
      HasSubstr("function 'outer' has no attribute 'speed'"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                call(m, "outer", {"x", "x"}, {"y"});
              }),
              HasSubstr("takes 1 inputs and returns 1 outputs; the call has 2 and 1"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.model().mutable_functions(1)->set_output(0, "nothing");
                call(m, "outer", {"x"}, {"y"});
              }),
              HasSubstr("does not define output 'nothing'"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                *m.model().add_functions() = m.model().functions(0);
                call(m, "outer", {"x"}, {"y"});
              }),
              HasSubstr("function 'inner' of domain 'local' is defined twice"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.node("LeakyRelu", {"x"}, {"y"}, {attr_ref("alpha", "rate", Attribute::FLOAT)});
              }),
              HasSubstr("the node is not in a function"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.model().mutable_functions(0)->mutable_node(0)->set_input(0, "x");
                call(m, "outer", {"x"}, {"y"});
              }),
              HasSubstr("uses 'x', which no node, input or initializer defines"));
}

// y = f0(x), f0 calls f1, and so on; the last one computes.
ModelBuilder nested_calls(int depth) {
  ModelBuilder model(13);
  model.input("x", kFloat, {1}).output("y");
  for (int level = 0; level < depth; ++level) {
    proto::FunctionProto& f = model.function("f" + std::to_string(level), {"a"}, {"b"});
    const bool last = level + 1 == depth;
    *f.add_node() = make_node(last ? "Neg" : "f" + std::to_string(level + 1), {"a"}, {"b"});
    if (!last) f.mutable_node(0)->set_domain("local");
  }
  call(model, "f0", {"x"}, {"y"});
  return model;
}

TEST(Functions, TheDepthOfCallsIsBoundedAndSaid) {
  EXPECT_EQ(nested_calls(64).error(), "no error");
  for (int depth : {65, 20'000}) {
    EXPECT_THAT(nested_calls(depth).error(),
                HasSubstr("functions and branches are nested more than 64 deep"))
        << depth;
  }
}

TEST(Functions, WhatIsUnknownIsFoundHoweverDeepItIsCalled) {
  ModelBuilder model = nested_calls(20'000);
  model.model().mutable_functions(19'999)->mutable_node(0)->set_op_type("Frobnicate");
  EXPECT_THAT(model.error(), HasSubstr("Frobnicate x1: '/f19999/Frobnicate_0' (/f19999#0)"));
}

// An If around `inner` whose condition is the initializer "yes".
proto::NodeProto branch_around(const proto::NodeProto& inner, const std::string& in,
                               const std::string& out) {
  proto::GraphProto taken, other;
  taken.set_name("t");
  other.set_name("o");
  *taken.add_node() = inner;
  taken.add_output()->set_name(inner.output(0));
  *other.add_node() = make_node("Neg", {in}, {out + "_other"});
  other.add_output()->set_name(out + "_other");
  return make_node("If", {"yes"}, {out},
                   {attr_graph("then_branch", taken), attr_graph("else_branch", other)});
}

TEST(Functions, BranchesCountAsDepthToo) {
  // Every function calls the next one inside ten branches.
  const auto nested = [](int functions) {
    ModelBuilder model(13);
    model.input("x", kFloat, {1}).output("y");
    proto::TensorProto yes = i64_tensor("yes", {}, {1});
    yes.set_data_type(kBool);
    yes.clear_int64_data();
    yes.add_int32_data(1);
    model.initializer(yes);
    for (int level = 0; level < functions; ++level) {
      proto::FunctionProto& f = model.function("f" + std::to_string(level), {"a", "yes"}, {"r"});
      const bool last = level + 1 == functions;
      proto::NodeProto node =
          last ? make_node("Neg", {"a"}, {"b0"})
               : make_node("f" + std::to_string(level + 1), {"a", "yes"}, {"b0"});
      if (!last) node.set_domain("local");
      for (int k = 0; k < 10; ++k)
        node = branch_around(node, "a", k == 9 ? "r" : "b" + std::to_string(k + 1));
      *f.add_node() = node;
    }
    call(model, "f0", {"x", "yes"}, {"y"});
    return model.error();
  };
  EXPECT_EQ(nested(5), "no error");  // 55 deep
  EXPECT_THAT(nested(6), HasSubstr("functions and branches are nested more than 64 deep"));
}

TEST(Functions, CopiesOfLargeBodiesAreStoppedBeforeTheyFillMemory) {
  const auto model_of = [](int calls, const std::function<void(proto::FunctionProto&)>& grow) {
    ModelBuilder model(13);
    model.input("x", kFloat, {1}).output("y");
    proto::FunctionProto& f = model.function("f", {"a"}, {"b"});
    *f.add_node() = make_node("Neg", {"a"}, {"b"});
    grow(f);
    for (int i = 0; i < calls; ++i)
      call(model, "f", {i == 0 ? "x" : "v" + std::to_string(i - 1)},
           {i + 1 == calls ? "y" : "v" + std::to_string(i)});
    return model.error();
  };
  const std::string limit = "take more than 1024 MiB (names, operands and constants); export";
  const auto long_name = [](proto::FunctionProto& f) {
    f.mutable_node(0)->set_name(std::string(1 << 20, 'n'));
  };
  EXPECT_EQ(model_of(3, long_name), "no error");
  EXPECT_THAT(model_of(2000, long_name), HasSubstr(limit));
  EXPECT_THAT(model_of(2000,
                       [](proto::FunctionProto& f) {
                         *f.add_node() = make_node(
                             "Constant", {}, {"c"},
                             {attr_tensor("value", f32_tensor("", {1 << 18},
                                                              std::vector<float>(1 << 18, 1)))});
                       }),
              HasSubstr(limit));
  const auto shared_tensor = [](proto::FunctionProto& f) {
    *f.add_attribute_proto() =
        attr_tensor("v", f32_tensor("", {1 << 18}, std::vector<float>(1 << 18, 1)));
    for (int i = 0; i < 2000; ++i) {
      *f.add_node() = make_node("Constant", {}, {"c" + std::to_string(i)},
                                {attr_ref("value", "v", Attribute::TENSOR)});
    }
  };
  EXPECT_THAT(model_of(1, shared_tensor), HasSubstr(limit));
}

TEST(Functions, DoublingCallsAreStoppedBeforeTheyFillMemory) {
  ModelBuilder model(13);
  model.input("x", kFloat, {1}).output("y");
  // f0 calls f1 twice, f1 calls f2 twice, ...: 2^40 nodes.
  for (int level = 0; level < 40; ++level) {
    proto::FunctionProto& f = model.function("f" + std::to_string(level), {"a"}, {"c"});
    const std::string next = "f" + std::to_string(level + 1);
    *f.add_node() = make_node(level == 39 ? "Neg" : next, {"a"}, {"b"});
    *f.add_node() = make_node(level == 39 ? "Neg" : next, {"b"}, {"c"});
    if (level == 39) continue;
    f.mutable_node(0)->set_domain("local");
    f.mutable_node(1)->set_domain("local");
  }
  call(model, "f0", {"x"}, {"y"});
  EXPECT_THAT(model.error(), HasSubstr("more than"));
}

// ---- If ---------------------------------------------------------------------------------------

proto::GraphProto branch(const std::string& op, const Names& inputs, const std::string& output) {
  proto::GraphProto graph;
  graph.set_name("branch");
  *graph.add_node() = make_node(op, inputs, {output});
  graph.add_output()->set_name(output);
  return graph;
}

// y = If(condition){Neg(x)} else {Abs(x)}
void add_if(ModelBuilder& model, const std::string& condition) {
  model.node("If", {condition}, {"y"},
             {attr_graph("then_branch", branch("Neg", {"x"}, "t")),
              attr_graph("else_branch", branch("Abs", {"x"}, "e"))});
}

proto::TensorProto bool_tensor(const std::string& name, int32_t value) {
  proto::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(kBool);
  tensor.add_int32_data(value);
  return tensor;
}

TEST(If, AConstantConditionTakesItsBranch) {
  for (int32_t value : {0, 1}) {
    ModelBuilder model(13);
    model.input("x", kFloat, {2}).output("y").initializer(bool_tensor("c", value));
    add_if(model, "c");
    const auto graph = model.import();
    EXPECT_EQ(run(*graph, {-1, 2}),
              value ? (std::vector<double>{1, -2}) : (std::vector<double>{1, 2}));
    ASSERT_EQ(graph->order().size(), 1U);
    EXPECT_EQ(graph->node(graph->order()[0]).origins[0].key,
              value ? "/then_branch/0#0" : "/else_branch/0#0");
    EXPECT_EQ(graph->value(graph->outputs[0]).name, "y");
    ASSERT_EQ(graph->retired.size(), 2U);
    EXPECT_EQ(graph->retired[0].state, LedgerState::kRemoved);
    EXPECT_THAT(graph->retired[0].why,
                HasSubstr(value ? "then_branch taken" : "else_branch taken"));
    EXPECT_EQ(graph->retired[1].state, LedgerState::kDead);
  }
}

TEST(If, AConditionOverShapesIsDecidedByTheRank) {
  // Exporters write: if len(x.shape) == 1. The size of x is free.
  ModelBuilder model(13);
  model.input("x", kFloat, {"n"}).output("y").initializer(i64_tensor("one", {1}, {1}));
  model.node("Shape", {"x"}, {"s"});
  model.node("Shape", {"s"}, {"r"});
  model.node("Equal", {"r", "one"}, {"same"});
  model.node("Squeeze", {"same"}, {"c"});
  add_if(model, "c");
  EXPECT_EQ(run(*model.import(), {-1, 2}), (std::vector<double>{1, -2}));
}

TEST(If, AConditionComputedFromConstantsIsFolded) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y").initializer(f32_tensor("w", {3}, {1, 2, 3}));
  model.initializer(f32_tensor("limit", {}, {7}));
  model.node("ReduceSum", {"w"}, {"sum"}, {attr_int("keepdims", 0)});
  model.node("Greater", {"sum", "limit"}, {"c"});
  add_if(model, "c");
  const auto graph = model.import();
  EXPECT_EQ(run(*graph, {-1, 2}), (std::vector<double>{1, 2}));
  EXPECT_EQ(graph->order().size(), 1U);  // the condition's nodes are folded
}

TEST(Order, NodesAreSortedBehindWhatTheyAndTheirBranchesUse) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y").initializer(bool_tensor("c", 1));
  model.node("Neg", {"b"}, {"y"});
  model.node("If", {"c"}, {"b"},
             {attr_graph("then_branch", branch("Neg", {"a"}, "t")),
              attr_graph("else_branch", branch("Abs", {"a"}, "e"))});
  model.node("Abs", {"x"}, {"a"});
  ImportReport report;
  const auto graph = model.import(&report);
  EXPECT_EQ(run(*graph, {-1, 2}), (std::vector<double>{1, 2}));
  EXPECT_EQ(graph->node(graph->order()[0]).origins[0].key, "#2");  // named as in the file
  EXPECT_EQ(graph->node(graph->order()[2]).origins[0].name, "Neg_0");
  EXPECT_THAT(report.notes, ::testing::ElementsAre(HasSubstr("they were sorted")));
}

TEST(Order, ALongChainInReverseNeedsNoDeepStack) {
  constexpr int kNodes = 100'000;
  ModelBuilder model(13);
  model.input("x", kFloat, {1}).output("y");
  for (int i = kNodes; i > 0; --i)
    model.node("Neg", {i == 1 ? "x" : std::to_string(i - 1)},
               {i == kNodes ? "y" : std::to_string(i)});
  EXPECT_EQ(model.import()->order().size(), static_cast<size_t>(kNodes));
}

// y = If(c){then}else{other} of x and the input c of this shape.
ModelBuilder open_if(const proto::GraphProto& then, const proto::GraphProto& other,
                     const std::vector<TestDim>& dims = {2},
                     const std::vector<TestDim>& condition = {}) {
  ModelBuilder model(13);
  model.input("x", kFloat, dims).input("c", kBool, condition).output("y");
  model.node("If", {"c"}, {"y"},
             {attr_graph("then_branch", then), attr_graph("else_branch", other)});
  return model;
}
std::vector<double> run_if(const ModelBuilder& model, bool condition,
                           const std::vector<double>& x) {
  const Shape shape{static_cast<int64_t>(x.size())};
  return ops::evaluate(*model.import(),
                       {{"x", Tensor::from(DType::kF32, shape, std::span<const double>(x))},
                        {"c", Tensor::scalar(DType::kBool, condition ? 1 : 0)}})
      .outputs.at("y")
      .f;
}

TEST(If, OfAConditionThatOnlyARunKnowsBothBranchesAreComputed) {
  const ModelBuilder model = open_if(branch("Neg", {"x"}, "t"), branch("Abs", {"x"}, "e"));
  EXPECT_EQ(run_if(model, true, {-1, 2}), (std::vector<double>{1, -2}));
  EXPECT_EQ(run_if(model, false, {-1, 2}), (std::vector<double>{1, 2}));
}

// A list of one, which results have not: x is a number.
TEST(If, AConditionMayBeAListOfOne) {
  const ModelBuilder model = open_if(branch("Neg", {"x"}, "t"), branch("Abs", {"x"}, "e"), {}, {1});
  const auto graph = model.import();
  EXPECT_TRUE(graph->value(graph->outputs[0]).shape.empty());
}

TEST(If, OfBothBranchesHasANoteAndKnowsItsNodes) {
  ImportReport report;
  const auto graph = open_if(branch("Neg", {"x"}, "t"), branch("Abs", {"x"}, "e")).import(&report);
  EXPECT_THAT(report.notes,
              ::testing::ElementsAre("both branches of 1 If node ('If_0') are computed in every "
                                     "run, since the condition is not known when the engine is "
                                     "built"));
  ASSERT_EQ(graph->order().size(), 3U);
  EXPECT_EQ(graph->node(graph->order()[0]).origins[0].key, "/then_branch/0#0");
  EXPECT_EQ(graph->node(graph->order()[1]).origins[0].key, "/else_branch/0#0");
  EXPECT_EQ(graph->node(graph->order()[2]).op, OpKind::kWhere);
  EXPECT_EQ(graph->node(graph->order()[2]).origins[0].key, "#0");
  EXPECT_EQ(graph->value(graph->outputs[0]).name, "y");
}

TEST(If, WhatTheOtherBranchMakesOfSuchNumbersDoesNotMatter) {
  const ModelBuilder model = open_if(branch("Sqrt", {"x"}, "t"), branch("Abs", {"x"}, "e"));
  EXPECT_EQ(run_if(model, false, {-4, 9}), (std::vector<double>{4, 9}));
  EXPECT_EQ(run_if(model, true, {4, 9}), (std::vector<double>{2, 3}));
}

TEST(If, OfTwoBranchesThatGiveOneValueNothingIsSelected) {
  proto::GraphProto same;
  same.set_name("same");
  same.add_output()->set_name("a");
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).input("c", kBool, {}).output("y");
  model.node("Neg", {"x"}, {"a"});
  model.node("If", {"c"}, {"y"},
             {attr_graph("then_branch", same), attr_graph("else_branch", same)});
  const auto graph = model.import();
  EXPECT_EQ(graph->order().size(), 1U);
  ASSERT_EQ(graph->retired.size(), 1U);
  EXPECT_EQ(graph->retired[0].why, "condition is not known: both branches computed");
}

proto::GraphProto branch_of_constants(const std::string& op, const proto::TensorProto& constant) {
  proto::GraphProto graph = branch(op, {"x", constant.name()}, "t");
  *graph.add_initializer() = constant;
  return graph;
}

TEST(If, BranchesThatARunMustNotComputeAreRefused) {
  const std::string start = "If x1, its condition is not known when the engine is built, and ";
  const std::string refuses = start + "a branch may refuse a run that does not take it: ";
  const proto::GraphProto abs = branch("Abs", {"x"}, "e");
  const proto::GraphProto sum = branch("ReduceSum", {"x"}, "t");
  EXPECT_THAT(open_if(sum, abs, {2}).error(),
              HasSubstr(start + "output 'y' is f32[1] in then_branch and f32[2] in else_branch; "
                                "equal types and shapes are supported: 'If_0' (#0)"));
  EXPECT_THAT(open_if(branch("Relu", {"x"}, "t"), branch("IsNaN", {"x"}, "e")).error(),
              HasSubstr("output 'y' is f32[2] in then_branch and bool[2] in else_branch"));
  EXPECT_THAT(open_if(branch_of_constants("Add", f32_tensor("w", {2}, {1, 1})), abs, {"n"}).error(),
              HasSubstr(refuses));  // n must be 2
  EXPECT_THAT(open_if(branch("NonZero", {"x"}, "t"), abs).error(),
              HasSubstr(refuses + "sizes of its nodes depend on data"));
  EXPECT_THAT(open_if(branch("Multinomial", {"x"}, "t"), abs).error(),
              AllOf(HasSubstr("Multinomial x1"),
                    HasSubstr(start + "its graph has nodes that are not supported")));
}

TEST(If, ValuesThatABranchMayForbidAreRefused) {
  const auto error_of = [](const std::string& op, const Names& inputs, int32_t type) {
    ModelBuilder model(13);
    model.input("x", type, {2}).input("ids", kInt64, {2}).input("c", kBool, {}).output("y");
    model.initializer(i64_tensor("two", {2}, {2, -2})).initializer(i64_tensor("in", {2}, {1, 0}));
    model.node("If", {"c"}, {"y"},
               {attr_graph("then_branch", branch(op, inputs, "t")),
                attr_graph("else_branch", branch("Abs", {"x"}, "e"))});
    return model.error();
  };
  EXPECT_THAT(error_of("Gather", {"x", "ids"}, kFloat),
              HasSubstr("a branch may refuse a run that does not take it: node '/then_branch/0/"
                        "Gather_0' (Gather) does not take every value of its input 1"));
  EXPECT_THAT(error_of("Div", {"x", "ids"}, kInt64),
              HasSubstr("(Div) does not take every value of its input 1"));
  EXPECT_EQ(error_of("Gather", {"x", "in"}, kFloat), "no error");
  EXPECT_EQ(error_of("Div", {"x", "two"}, kInt64), "no error");
  EXPECT_EQ(error_of("Div", {"x", "x"}, kFloat), "no error");
}

// A window of 5 does not fit into x of 4.
TEST(If, SizesThatABranchMayForbidAreRefused) {
  proto::GraphProto pool = branch("MaxPool", {"x"}, "t");
  *pool.mutable_node(0)->add_attribute() = attr_ints("kernel_shape", {5});
  EXPECT_THAT(open_if(pool, pool, {1, 1, "n"}).error(),
              HasSubstr("a branch may refuse a run that does not take it: node "));
}

TEST(If, AConditionOfSeveralElementsIsRefused) {
  EXPECT_THAT(open_if(branch("Neg", {"x"}, "t"), branch("Abs", {"x"}, "e"), {2}, {"n"}).error(),
              HasSubstr("node 'If_0' (If, #0): its condition is bool[n]; expected one bool"));
}

TEST(If, OnlyTheTakenBranchMustBeSupported) {
  for (int32_t value : {0, 1}) {
    ModelBuilder model(13);
    model.input("x", kFloat, {2}).output("y").initializer(bool_tensor("c", value));
    model.node("If", {"c"}, {"y"},
               {attr_graph("then_branch", branch("Multinomial", {"x"}, "t")),
                attr_graph("else_branch", branch("Abs", {"x"}, "e"))});
    EXPECT_THAT(model.error(), HasSubstr(value ? "an engine has one answer: '/then_branch/0/"
                                                 "Multinomial_0' (/then_branch/0#0)"
                                               : "no error"));
  }
}

TEST(If, MistakesAreNamed) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y").initializer(bool_tensor("c", 1));
  model.node("If", {"c"}, {"y"}, {attr_graph("then_branch", branch("Neg", {"x"}, "t"))});
  EXPECT_THAT(model.error(), HasSubstr("then_branch or else_branch is missing"));
  ModelBuilder outputs(13);
  outputs.input("x", kFloat, {2}).output("y").initializer(bool_tensor("c", 1));
  proto::GraphProto empty;
  outputs.node("If", {"c"}, {"y"},
               {attr_graph("then_branch", empty), attr_graph("else_branch", empty)});
  EXPECT_THAT(outputs.error(), HasSubstr("has 1 outputs, its branch 0"));
}

}  // namespace
}  // namespace vernier::onnx
