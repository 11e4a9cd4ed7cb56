// What import refuses, message by message: damaged files, unknown content, names, attributes,
// inputs, and the one list of all unsupported nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "onnx/model_builder.h"

namespace vernier::onnx {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ModelBuilder relu_model() {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y").node("Relu", {"x"}, {"y"});
  return model;
}
std::string error_of(const std::function<void(ModelBuilder&)>& change) {
  ModelBuilder model = relu_model();
  change(model);
  return model.error();
}

// ---- files ------------------------------------------------------------------------------------

TEST(DamagedFile, EmptyForeignAndTruncatedFilesAreNamedAsSuch) {
  EXPECT_EQ(relu_model().error(), "no error");
  EXPECT_THAT(import_error(""), HasSubstr("the model file is empty"));
  EXPECT_THAT(import_error("this is a text file, not a model"),
              HasSubstr("do not parse as protobuf"));
  EXPECT_THAT(import_error(std::string("\x08\x07", 2)), HasSubstr("the file holds no graph"));
  EXPECT_THAT(import_error(relu_model().bytes().substr(0, 40)), HasSubstr("do not parse"));
}

TEST(DamagedFile, EveryTruncationAndFlippedBitIsAnErrorOrAModel) {
  const std::string good = relu_model().bytes();
  int errors = 0;
  for (size_t length = 0; length < good.size(); ++length) {
    errors += import_error(good.substr(0, length)) != "no error";
  }
  EXPECT_GT(errors, static_cast<int>(good.size() / 2));
  errors = 0;
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const std::string error = import_error(flipped);  // throws nothing but Error(kInput)
    EXPECT_THAT(error, ::testing::Not(HasSubstr("wrong code"))) << "bit " << bit;
    errors += error != "no error";
  }
  EXPECT_GT(errors, static_cast<int>(good.size()));
}

TEST(DamagedFile, RandomDamageOfALargerModelIsAnErrorOrAModel) {
  ModelBuilder model(11);
  model.input("x", kFloat, {"batch", "seq", 4}).output("y");
  model.initializer(f32_tensor("w", {4, 4}, std::vector<float>(16, 0.5F)));
  model.initializer(i64_tensor("shape", {3}, {0, -1, 4}));
  model.node("MatMul", {"x", "w"}, {"a"});
  model.node("Softmax", {"a"}, {"b"}, {attr_int("axis", 1)});
  model.node("Reshape", {"b", "shape"}, {"c"});
  model.node("Transpose", {"c"}, {"y"}, {attr_ints("perm", {0, 2, 1})});
  const std::string good = model.bytes();
  ASSERT_EQ(import_error(good), "no error");
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = good;
    for (int k = 0; k < 1 + round % 4; ++k) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    EXPECT_THAT(import_error(damaged), ::testing::Not(HasSubstr("wrong code"))) << round;
  }
}

TEST(UnknownContent, IsRefusedWithItsFieldNumber) {
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.graph().mutable_node(0)->mutable_unknown_fields()->append("\xfa\x01\x00", 3);
              }),
              AllOf(HasSubstr("node #0"), HasSubstr("field 31 of NodeProto is unknown")));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.model().mutable_unknown_fields()->append("\xf8\x06\x01", 3);
              }),
              HasSubstr("field 111 of ModelProto is unknown"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.graph().add_sparse_initializer(); }),
              HasSubstr("1 sparse initializers"));
}

TEST(Opsets, UnknownDoubledAndMissingOnesAreRefused) {
  EXPECT_THAT(ModelBuilder(0).error(), HasSubstr("opset 0; Vernier supports opsets 1 to 28"));
  EXPECT_THAT(ModelBuilder(29).error(), HasSubstr("opset 29"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                auto* id = m.model().add_opset_import();
                id->set_domain("ai.onnx");
                id->set_version(12);
              }),
              HasSubstr("imports two versions"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.model().clear_opset_import(); }),
              HasSubstr("no operator set is imported for domain ''"));
}

// What changed since is refused by operator; consumed_inputs was about memory.
TEST(Opsets, OperatorsThatChangedSinceTheirFirstVersionsAreRefused) {
  const auto old = [](const std::string& op, const std::vector<Attribute>& attributes) {
    ModelBuilder model(1);
    model.input("x", kFloat, {2}).output("y").node(op, {"x"}, {"y"}, attributes);
    return model.error();
  };
  EXPECT_EQ(old("Relu", {attr_ints("consumed_inputs", {0})}), "no error");
  EXPECT_THAT(old("Cast", {attr_text("to", "INT64")}),
              HasSubstr("Cast x1, at opset 1 (supported since opset 6)"));
  EXPECT_THAT(old("Reshape", {attr_ints("shape", {2})}),
              HasSubstr("Reshape x1, at opset 1 (supported since opset 5)"));
  ModelBuilder later(6);
  later.input("x", kFloat, {2}).output("y");
  later.node("Relu", {"x"}, {"y"}, {attr_ints("consumed_inputs", {0})});
  EXPECT_THAT(later.error(), HasSubstr("attribute 'consumed_inputs' is unknown"));
}

// ---- names ------------------------------------------------------------------------------------

TEST(Names, EveryViolationNamesNodeAndValue) {
  EXPECT_THAT(
      error_of([](ModelBuilder& m) { m.node("Neg", {"nowhere"}, {"z"}); }),
      HasSubstr("node 'Neg_0' (Neg, #1) uses 'nowhere', which no node, input or initializer"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.node("Neg", {"x"}, {"y"}); }),
              HasSubstr("node 'Neg_0' (Neg, #1) defines 'y', which is defined already"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.node("Neg", {"x"}, {"x"}); }),
              HasSubstr("defines 'x', which is defined already"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.node("Neg", {"late"}, {"early"});
                m.node("Neg", {"early"}, {"late"});
              }),
              HasSubstr("uses 'early', which node #1 (Neg) defines, but that node depends on it: "
                        "the nodes form a cycle"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.node("Neg", {"own"}, {"own"}); }),
              HasSubstr("uses 'own', which node #1 (Neg) defines, but that node depends on it"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.input("x", kFloat, {2}); }),
              HasSubstr("graph input 'x' is declared twice"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.output("y"); }),
              HasSubstr("graph output 'y' is declared twice"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.output("z"); }),
              HasSubstr("graph output 'z' is defined by no node"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.graph().clear_output(); }),
              HasSubstr("the graph has no outputs"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.initializer(f32_tensor("w", {1}, {1})).initializer(f32_tensor("w", {1}, {1}));
              }),
              HasSubstr("initializer 'w' defines 'w', which is defined already"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.initializer(f32_tensor("", {1}, {1})); }),
              HasSubstr("an initializer has no name"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.input("", kFloat, {2}); }),
              HasSubstr("a graph input has no name"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.graph().clear_name(); }),
              HasSubstr("the graph has no name"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.graph().mutable_node(0)->set_name("n");
                m.node("Neg", {"x"}, {"z"}).set_name("n");
              }),
              HasSubstr("nodes #0 and #1 are both called 'n'"));
}

TEST(Names, ControlCharactersAndLongNamesDoNotReachTheTerminal) {
  const std::string error = error_of(
      [](ModelBuilder& m) { m.node("Neg", {"a\x1b[31m" + std::string(5000, 'b')}, {"z"}); });
  EXPECT_THAT(error, HasSubstr("'a?[31mbbb"));
  EXPECT_LT(error.size(), 400U);
}

TEST(Names, ThatAreNotUtf8AreRefused) {
  for (const char* bad :
       {"\xff", "a\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80"}) {
    EXPECT_THAT(error_of([&](ModelBuilder& m) { m.node("Neg", {"x"}, {bad}); }),
                HasSubstr("node #1 has a name that is not UTF-8"));
  }
  for (const char* good : {"caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    EXPECT_EQ(error_of([&](ModelBuilder& m) { m.node("Neg", {"x"}, {good}); }), "no error");
  }
}

// ---- inputs -----------------------------------------------------------------------------------

TEST(Inputs, OnlyTensorsOfKnownRankAndTypeAreTaken) {
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                auto* info = m.graph().add_input();
                info->set_name("s");
                info->mutable_type()->set_sequence_type("");
              }),
              HasSubstr("graph input 's' is not a tensor"));
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
              }),
              HasSubstr("graph input 'x' has no shape; its rank must be known"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.input("t", kString, {1}); }),
              HasSubstr("graph input 't': element type STRING"));
  EXPECT_THAT(error_of([](ModelBuilder& m) { m.input("t", kFloat, {int64_t{1} << 50}); }),
              HasSubstr("graph input 't' has a size of"));
  static constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_THAT(error_of([](ModelBuilder& m) {
                m.input("t", kFloat, {kHuge, "n", kHuge});
              }),
              AllOf(HasSubstr("graph input 't' has shape [1099511627776, n, 1099511627776] with "
                              "more than 281474976710656 elements"),
                    HasSubstr("smaller or symbolic sizes")));
  EXPECT_EQ(error_of([](ModelBuilder& m) { m.input("t", kFloat, {kHuge, "n", 256}); }), "no error");
}

TEST(Inputs, NamedUnnamedAndComputedSizesBecomeDims) {
  ModelBuilder model(13);
  model.input("a", kFloat, {"batch", "s0", "s0 + 1", "2*s0", "", -1, "sequence length", "7"});
  model.input("b", kFloat, {"sequence length", "unbound*2"});
  model.output("y").node("Identity", {"a"}, {"y"});
  ImportReport report;
  const auto graph = model.import(&report);
  const SymShape& a = graph->value(graph->inputs[0]).shape;
  EXPECT_EQ(str(a), "[batch, s0, s0 + 1, 2*s0, a_d4, a_d5, sequence_length, 7]");
  const SymShape& b = graph->value(graph->inputs[1]).shape;
  EXPECT_EQ(b[0], a[6]);
  EXPECT_EQ(b[1].str(), "unbound_2");
  EXPECT_THAT(report.notes, ::testing::Contains(HasSubstr(
                                "'sequence length' is not an identifier; the engine calls it")));
}

TEST(Inputs, WithAnInitializerAreConstants) {
  ModelBuilder model = relu_model();
  model.input("w", kFloat, {1}).initializer(f32_tensor("w", {1}, {3}));
  ImportReport report;
  EXPECT_EQ(model.import(&report)->inputs.size(), 1U);
  EXPECT_THAT(report.notes, ::testing::Contains(HasSubstr("'w' has a default")));
}

TEST(Inputs, CanBeFixedToConstantsOfTheirTypeAndShape) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2, 3}).input("axes", kInt64, {"n"}).output("y");
  model.node("ReduceSum", {"x", "axes"}, {"y"});
  EXPECT_THAT(model.error(), HasSubstr("axes in input 1 are not constant"));
  const std::string bytes = model.bytes();
  const auto fix = [&](const std::string& name, Tensor tensor) -> std::string {
    ImportOptions options;
    options.fixed_inputs[name] = std::move(tensor);
    try {
      const auto graph = import_model_bytes(std::as_bytes(std::span(bytes)), "", options);
      return str(graph->value(graph->outputs[0]).shape);
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(fix("axes", Tensor::i64({1})), "[2, 1]");
  EXPECT_THAT(fix("axis", Tensor::i64({1})), HasSubstr("the model has no input 'axis' to fix"));
  EXPECT_THAT(fix("axes", Tensor::scalar(DType::kF32, 1)), HasSubstr("cannot be fixed to f32[]"));
}

TEST(Outputs, ADeclaredShapeThatIsNotComputedIsNoted) {
  ModelBuilder model = relu_model();
  auto* type = model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type();
  type->set_elem_type(kFloat);
  type->mutable_shape()->add_dim()->set_dim_value(3);
  ImportReport report;
  model.import(&report);
  EXPECT_THAT(report.notes,
              ::testing::ElementsAre(
                  "output 'y' is declared with shape [3], but its inferred shape is [2]"));
}

TEST(Report, TellsProducerOpsetAndNodes) {
  ImportReport report;
  relu_model().import(&report);
  EXPECT_EQ(report.producer, "test");
  EXPECT_EQ(report.opset, 13);
  EXPECT_EQ(report.nodes, 1);
}

// ---- nodes ------------------------------------------------------------------------------------

TEST(Attributes, UnknownWrongAndDoubledOnesAreRefused) {
  const auto softmax = [](const std::vector<Attribute>& attributes) {
    ModelBuilder model(13);
    model.input("x", kFloat, {2}).output("y").node("Softmax", {"x"}, {"y"}, attributes);
    return model.error();
  };
  EXPECT_EQ(softmax({attr_int("axis", 0)}), "no error");
  EXPECT_THAT(softmax({attr_int("axes", 0)}),
              HasSubstr("node 'Softmax_0' (Softmax, #0): attribute 'axes' is unknown for this "
                        "operator at opset 13"));
  EXPECT_THAT(softmax({attr_float("axis", 0)}),
              HasSubstr("attribute 'axis' is a float; expected an integer"));
  EXPECT_THAT(softmax({attr_int("axis", 0), attr_int("axis", 0)}), HasSubstr("given twice"));
  ModelBuilder flag(13);
  flag.input("x", kFloat, {2}).output("y");
  flag.node("ReduceMax", {"x"}, {"y"}, {attr_int("keepdims", 2)});
  EXPECT_THAT(flag.error(), HasSubstr("attribute 'keepdims' is 2; expected 0 or 1"));
}

struct BadAttribute {
  const char* op;
  Attribute attribute;
  const char* message;
};
TEST(Attributes, SpellingsOutsideAnOperatorsListAreRefused) {
  for (const BadAttribute& row : {
           BadAttribute{"Gelu", attr_text("approximate", "sigmoid"), "expected none or tanh"},
           BadAttribute{"BitShift", attr_text("direction", "UP"), "expected LEFT or RIGHT"},
           BadAttribute{"MaxPool", attr_text("auto_pad", "HALF"), "kernel_shape"},
           BadAttribute{"DepthToSpace", attr_text("mode", "XYZ"), "'blocksize' is missing"},
           BadAttribute{"Resize", attr_text("mode", "magic"), "expected nearest, linear or cubic"},
           BadAttribute{"GridSample", attr_text("padding_mode", "x"), "expected zeros, border"},
           BadAttribute{"RoiAlign", attr_text("mode", "min"), "expected avg or max"},
           BadAttribute{"RoiAlign", attr_text("coordinate_transformation_mode", "none"),
                        "expected half_pixel or output_half_pixel"},
           BadAttribute{"Pad", attr_text("mode", "mirror"), "expected constant, reflect"},
           BadAttribute{"Conv", attr_text("auto_pad", "HALF"), "expected NOTSET, SAME_UPPER"},
           BadAttribute{"ScatterND", attr_text("reduction", "avg"), "expected none, add"},
           BadAttribute{"Cast", attr_int("to", kString), "element type STRING"},
           BadAttribute{"Concat", attr_text("axis", "0"), "'axis' is a string"},
           BadAttribute{"LayerNormalization", attr_int("stash_type", 10), "stash_type is 10"},
           BadAttribute{"RMSNormalization", attr_int("stash_type", 16), "stash_type is 16"},
           BadAttribute{"BatchNormalization", attr_int("training_mode", 1),
                        "input 1 has shape [1, 1, 2, 2]; expected one number for each channel"},
       }) {
    ModelBuilder model(23);
    model.input("x", kFloat, {1, 1, 2, 2}).output("y");
    model.node(row.op, {"x", "x", "x"}, {"y"}, {row.attribute});
    EXPECT_THAT(model.error(), HasSubstr(row.message)) << row.op;
  }
}

TEST(Dropout, ThatDropsIsRefused) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y");
  model.initializer(f32_tensor("ratio", {}, {0.5F}));
  model.initializer(i64_tensor("training", {}, {1}));
  model.node("Dropout", {"x", "ratio", "training"}, {"y"});
  EXPECT_THAT(model.error(), HasSubstr("it is in training mode, which draws random numbers"));
}

TEST(Dropout, WithoutARatioInItsConstantIsRefused) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y");
  model.initializer(f32_tensor("ratio", {0}, {}));
  model.node("Dropout", {"x", "ratio"}, {"y"});
  EXPECT_THAT(model.error(), HasSubstr("the ratio in input 1 has shape [0]; expected one number"));
}

TEST(Inputs, TooManyAndMissingOnesOfANodeAreRefused) {
  ModelBuilder extra(13);
  extra.input("x", kFloat, {2}).output("y").node("Expand", {"x", "x", "x"}, {"y"});
  EXPECT_THAT(extra.error(), HasSubstr("Expand"));
  ModelBuilder missing(13);
  missing.input("x", kFloat, {2}).output("y").node("Expand", {"x"}, {"y"});
  EXPECT_THAT(missing.error(), HasSubstr("input 1 is missing"));
  ModelBuilder many(13);
  many.input("x", kFloat, {2}).output("y").node("Relu", {"x", "x"}, {"y"});
  EXPECT_THAT(many.error(), HasSubstr("has 2 inputs, expected 1 to 1"));
}

TEST(Unsupported, AllNodesStandInOneErrorWithDomainNameAndCount) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y");
  model.node("Multinomial", {"x"}, {"a"}).set_name("draw_1");
  model.node("Relu", {"x"}, {"r"});
  model.node("Multinomial", {"x"}, {"b"});
  auto& attention = model.node("PackedAttention", {"x"}, {"c"});
  attention.set_domain("com.microsoft");
  attention.set_name("attn");
  model.node("Gelu", {"x"}, {"d"});
  model.node("Relu", {"x"}, {"y"});
  *model.function("f", {"p"}, {"q"}).add_node() = make_node("Bernoulli", {"p"}, {"q"});
  for (const char* name : {"e", "g"}) model.node("f", {"x"}, {name}).set_domain("local");
  EXPECT_THAT(
      model.error(),
      AllOf(HasSubstr("5 nodes are not supported:"),
            HasSubstr("\n  Multinomial x2, it draws random numbers; an engine has one answer: "
                      "'draw_1' (#0), 'Multinomial_1' (#2)"),
            HasSubstr("\n  com.microsoft.PackedAttention x1: 'attn' (#3)"),
            HasSubstr("\n  Gelu x1, at opset 13 (supported since opset 20): 'Gelu_0' (#4)"),
            HasSubstr("\n  Bernoulli x1, it draws random numbers; an engine has one answer: "
                      "'/f/Bernoulli_0' (/f#0)"),
            HasSubstr("docs/operators.md"), HasSubstr("as it was before that optimization")));
}

TEST(Unsupported, OutputsThatAreNotComputedMatterOnlyWhereTheyAreUsed) {
  ModelBuilder model(13);
  model.input("x", kFloat, {1, 1, 4}).output("y").initializer(f32_tensor("one", {1}, {1}));
  model.node("BatchNormalization", {"x", "one", "one", "one", "one"}, {"y", "mean"});
  EXPECT_EQ(model.error(), "no error");
  model.node("Identity", {"mean"}, {"i"});
  EXPECT_THAT(model.error(), HasSubstr("BatchNormalization x1, its output 'mean' is used"));
  model.graph().mutable_node()->RemoveLast();
  model.output("mean");
  EXPECT_THAT(model.error(), HasSubstr("output 'mean' is not computed by Vernier"));
}

TEST(Bounds, InputsOfTooManySizesAreRefused) {
  const auto model_of = [](int inputs) {
    ModelBuilder model(13);
    Names names;
    for (int i = 0; i < inputs; ++i) {
      names.push_back("x" + std::to_string(i));
      model.input(names.back(), kFloat, {"n" + std::to_string(i), 2});
    }
    model.node("Concat", names, {"y"}, {attr_int("axis", 1)}).clear_name();
    return model.output("y");
  };
  EXPECT_EQ(model_of(2048).error(), "no error") << "all are found to be one size";
  EXPECT_THAT(model_of(2049).error(),
              AllOf(HasSubstr("the inputs have 2049 different symbolic sizes, at most 2048"),
                    HasSubstr("or use one name for equal sizes")));
}

TEST(Bounds, ManyUnnamedSizesOfLongInputNamesAreCountedAtOnce) {
  // What tells the names apart lies behind the part that names of sizes keep.
  ModelBuilder model(13);
  for (int i = 0; i < 2000; ++i)
    model.input(std::string(250, 'x') + std::to_string(i), kFloat, std::vector<TestDim>(32, ""));
  model.node("Relu", {std::string(250, 'x') + "0"}, {"y"});
  EXPECT_THAT(model.output("y").error(),
              HasSubstr("the inputs have 64000 different symbolic sizes"));
}

TEST(Bounds, SizesThatGrowWithoutEndAreRefused) {
  ModelBuilder model(13);
  model.input("x", kFloat, {"n", "m"}).output("y");
  model.node("Shape", {"x"}, {"s0"});
  for (int i = 0; i < 64; ++i) {
    const std::string s = "s" + std::to_string(i);
    model.node("Mul", {s, s}, {"s" + std::to_string(i + 1)});
  }
  model.node("ConstantOfShape", {"s64"}, {"y"});
  EXPECT_THAT(model.error(), HasSubstr("a term of 512 factors, at most 256 are supported"));
}

// A run computes it, and both branches.
TEST(Bounds, AConditionThatTakesForeverToComputeIsNotKnown) {
  ModelBuilder model(13);
  model.input("x", kFloat, {2}).output("y");
  model.initializer(f32_tensor("c", {64, 64}, std::vector<float>(64 * 64, 1)));
  model.node("Einsum", Names(8, "c"), {"e"}, {attr_text("equation", "ab,cd,ef,gh,ij,kl,mn,op->")});
  model.node("Cast", {"e"}, {"yes"}, {attr_int("to", kBool)});
  proto::GraphProto branch;
  branch.set_name("b");
  *branch.add_node() = make_node("Neg", {"x"}, {"z"});
  branch.add_output()->set_name("z");
  model.node("If", {"yes"}, {"y"},
             {attr_graph("then_branch", branch), attr_graph("else_branch", branch)});
  ImportReport report;
  model.import(&report);
  EXPECT_THAT(report.notes, ::testing::Contains(HasSubstr("both branches of 1 If node ('If_0')")));
}

}  // namespace
}  // namespace vernier::onnx
