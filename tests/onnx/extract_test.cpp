// Parts of models: a part computes what the whole computes there; what comes along and what does
// not; cuts that give no model.
#include "onnx/extract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/error.h"
#include "onnx/model_files.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Names ports_of(const std::vector<PartPort>& ports) {
  Names names;
  for (const PartPort& port : ports) names.push_back(port.name);
  return names;
}

template <class List>
Names names_of(const List& list) {
  Names names;
  for (const auto& each : list) names.push_back(each.name());
  return names;
}

// h = x·w, a = h + b, (t, u) = Split(a), r = Relu(t), s = 3·r, y = s + m
ModelBuilder example() {
  ModelBuilder model(17);
  model.input("x", kFloat, {"rows", int64_t{2}}).input("m", kFloat, {"rows", int64_t{1}});
  model.output("y");
  model.initializer(f32_tensor("w", {2, 2}, {1, -2, 3, 4}));
  model.initializer(f32_tensor("b", {2}, {0.5, -1}));
  model.initializer(i64_tensor("halves", {2}, {1, 1}));
  model.node("MatMul", {"x", "w"}, {"h"}).set_name("product");
  model.node("Add", {"h", "b"}, {"a"});
  model.node("Split", {"a", "halves"}, {"t", "u"}, {attr_int("axis", 1)}).set_name("split");
  model.node("Relu", {"t"}, {"r"}).set_name("relu");
  model.node("Constant", {}, {"scale"}, {attr_tensor("value", f32_tensor("", {1}, {3}))});
  model.node("Mul", {"r", "scale"}, {"s"}).set_name("scaled");
  model.node("Add", {"s", "m"}, {"y"}).set_name("last");
  model.model().set_producer_name("test");
  model.model().add_metadata_props("\n\x03key\x12\x05value");
  return model;
}

class Extract : public ::testing::Test {
 protected:
  using NamedValues = std::map<std::string, EvalTensor>;

  Extract()
      : folder_(fs::temp_directory_path() / ("vernier_extract_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_ / "parts");
    write_file(whole(), example().bytes());
  }
  ~Extract() override { fs::remove_all(folder_); }

  fs::path whole() const { return folder_ / "m.onnx"; }
  fs::path part() const { return folder_ / "parts" / "p.onnx"; }
  Part extract(const Names& from, const Names& to, uint64_t external_from = 1 << 30) const {
    const auto graph = import_model(whole(), {.missing_weights = MissingWeights::kSeeded});
    return write_part(whole(), graph.get(),
                      {.to_file = part(), .from = from, .to = to, .external_from = external_from});
  }
  std::string error(const Names& from, const Names& to) const {
    try {
      extract(from, to);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInput);
      return error.what();
    }
    return "no error";
  }

  static Tensor matrix(const Shape& shape, const std::vector<double>& values) {
    return Tensor::from(DType::kF32, shape, std::span(values));
  }
  // What the whole model computes at a value, by the graph that import gives.
  NamedValues at(const Names& names) const {
    const auto graph = import_model(whole());
    ops::EvaluateOptions options;
    std::map<std::string, ir::ValueId> ids;
    for (size_t v = 0; v < graph->num_values(); ++v) {
      const auto id = static_cast<ir::ValueId>(v);
      if (std::ranges::find(names, graph->value(id).name) == names.end()) continue;
      options.wanted.push_back(id);
      ids[graph->value(id).name] = id;
    }
    const ops::Evaluation r = ops::evaluate(
        *graph, {{"x", matrix({2, 2}, {1, 2, -3, 5})}, {"m", matrix({2, 1}, {10, 20})}}, options);
    NamedValues found;
    for (const std::string& name : names) found[name] = r.values.at(ids.at(name));
    return found;
  }
  // The part on the whole's own values gives the whole's.
  void expect_same(const Names& from, const Names& to) const {
    const NamedValues values = at(to);
    std::map<std::string, Tensor> inputs;
    for (const auto& [name, value] : at(from)) inputs.emplace(name, value.to_tensor());
    const auto results = ops::evaluate(*import_model(part()), inputs).outputs;
    ASSERT_EQ(results.size(), to.size());
    for (const std::string& name : to) {
      EXPECT_EQ(results.at(name).shape, values.at(name).shape);
      EXPECT_EQ(results.at(name).f, values.at(name).f) << name;
    }
  }

  fs::path folder_;
};

TEST_F(Extract, BetweenTwoValues) {
  const Part made = extract({"h"}, {"r"});
  EXPECT_EQ(made.nodes, 3);
  EXPECT_EQ(made.model_nodes, 7);
  EXPECT_EQ(made.weight_bytes, 2 * 4 + 2 * 8u);
  EXPECT_EQ(made.data_file, "");
  EXPECT_THAT(made.notes, IsEmpty());
  ASSERT_EQ(made.inputs.size(), 1u);
  EXPECT_EQ(made.inputs[0].name, "h");
  EXPECT_EQ(made.inputs[0].dtype, DType::kF32);
  EXPECT_EQ(str(made.inputs[0].shape), "[rows, 2]");
  ASSERT_EQ(made.outputs.size(), 1u);
  EXPECT_EQ(str(made.outputs[0].shape), "[rows, 1]");
  expect_same({"h"}, {"r"});
  const proto::ModelProto model = model_of(part());
  EXPECT_THAT(names_of(model.graph().initializer()), ElementsAre("b", "halves"));
  EXPECT_THAT(names_of(model.graph().node()), ElementsAre("Add_0", "split", "relu"));
  EXPECT_EQ(model.producer_name(), "test");
  EXPECT_EQ(model.metadata_props_size(), 1);
  EXPECT_EQ(model.opset_import(0).version(), 17);
}

TEST_F(Extract, BetweenTwoNodes) {
  const Part made = extract({"Add_0"}, {"scaled"});
  EXPECT_THAT(ports_of(made.inputs), ElementsAre("h"));
  EXPECT_THAT(ports_of(made.outputs), ElementsAre("s"));
  EXPECT_EQ(made.nodes, 5);  // the scale too, which is no input
  expect_same({"h"}, {"s"});
}

TEST_F(Extract, FromTheModelsInputs) {
  EXPECT_THAT(ports_of(extract({}, {"split"}).outputs), ElementsAre("t"));  // nobody reads u
  expect_same({"x"}, {"t"});
  EXPECT_THAT(ports_of(extract({}, {"a", "r"}).inputs), ElementsAre("x"));
  expect_same({"x"}, {"a", "r"});
}

TEST_F(Extract, ToTheModelsOutputs) {
  const Part made = extract({"r"}, {});
  EXPECT_THAT(ports_of(made.inputs), ElementsAre("r", "m"));
  EXPECT_THAT(made.notes, ElementsAre("1 input of the model is needed beside --from: 'm'"));
  expect_same({"r", "m"}, {"y"});
}

TEST_F(Extract, SeveralValuesInTheirOrder) {
  const Part made = extract({"m", "r"}, {"y", "s"});
  EXPECT_THAT(ports_of(made.inputs), ElementsAre("m", "r"));
  EXPECT_THAT(ports_of(made.outputs), ElementsAre("y", "s"));
  EXPECT_THAT(made.notes, IsEmpty());
  expect_same({"m", "r"}, {"y", "s"});
}

TEST_F(Extract, WeightsBesideTheFile) {
  ModelBuilder model = example();
  proto::TensorProto& tensor = *model.graph().mutable_initializer(1);
  ASSERT_EQ(tensor.name(), "b");
  tensor.clear_float_data();
  tensor.clear_raw_data();
  tensor.set_data_location(proto::TensorProto::EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("b.bin");
  const std::vector<float> values{0.5F, -1};
  write_file(folder_ / "b.bin", {reinterpret_cast<const char*>(values.data()), 8});
  write_file(whole(), model.bytes());
  EXPECT_EQ(extract({"h"}, {"r"}).data_file, "");  // small: inside
  expect_same({"h"}, {"r"});
  fs::rename(folder_ / "b.bin", folder_ / "away.bin");
  EXPECT_NO_THROW(import_model(part()));      // the part needs no other file …
  EXPECT_EQ(extract({"r"}, {"y"}).nodes, 3);  // … nor one that holds weights of the rest
  EXPECT_THAT(error({"h"}, {"a"}), AllOf(HasSubstr("b.bin"), HasSubstr("holds all weights")));
}

TEST_F(Extract, ADataFileOfItsOwn) {
  ModelBuilder model = example();
  proto::TensorProto large = f32_tensor("large", {512}, {});
  const std::vector<float> twos(512, 2);
  large.set_raw_data(twos.data(), 2048);
  model.initializer(large);
  model.node("Mul", {"y", "large"}, {"z"}).set_name("wide");
  model.output("z");
  write_file(whole(), model.bytes());
  const Part made = extract({"y"}, {"z"}, 0);
  EXPECT_EQ(made.data_file, "p.onnx.data");
  EXPECT_EQ(fs::file_size(folder_ / "parts" / "p.onnx.data"), 2048u);
  expect_same({"y"}, {"z"});
}

TEST_F(Extract, ValuesThatBranchesUse) {
  ModelBuilder model = example();
  proto::GraphProto yes, no;
  yes.set_name("yes");
  *yes.add_node() = make_node("Mul", {"r", "r"}, {"p"});
  yes.add_output()->set_name("p");
  no.set_name("no");
  *no.add_node() = make_node("Neg", {"r"}, {"n"});
  no.add_output()->set_name("n");
  proto::TensorProto truth;
  truth.set_name("truth");
  truth.set_data_type(kBool);
  truth.set_raw_data(std::string(1, '\1'));
  model.initializer(truth);
  model
      .node("If", {"truth"}, {"q"}, {attr_graph("then_branch", yes), attr_graph("else_branch", no)})
      .set_name("either");
  model.output("q");
  write_file(whole(), model.bytes());
  EXPECT_THAT(ports_of(extract({"relu"}, {"either"}).inputs), ElementsAre("t"));
  EXPECT_THAT(names_of(model_of(part()).graph().node()), ElementsAre("relu", "either"));
}

TEST_F(Extract, LocalFunctionsComeAlong) {
  ModelBuilder model = example();
  proto::FunctionProto& twice = model.function("twice", {"a"}, {"c"});
  *twice.add_node() = make_node("Add", {"a", "a"}, {"c"});
  model.node("twice", {"r"}, {"f"}).set_domain("local");
  model.output("f");
  write_file(whole(), model.bytes());
  extract({"r"}, {"f"});
  EXPECT_EQ(model_of(part()).functions_size(), 1);
  expect_same({"r"}, {"f"});
}

TEST_F(Extract, CutsThatGiveNoModel) {
  EXPECT_THAT(error({"hh"}, {}),
              AllOf(HasSubstr("--from 'hh': the model has no value and no node of that name"),
                    HasSubstr("'h'")));
  EXPECT_THAT(error({}, {"rellu"}), AllOf(HasSubstr("--to 'rellu'"), HasSubstr("'relu'")));
  EXPECT_THAT(error({"w"}, {"a"}), HasSubstr("--from 'w' is a weight: it comes along"));
  EXPECT_THAT(error({"h"}, {"x"}), HasSubstr("--to 'x' is an input of the model"));
  EXPECT_THAT(error({"h"}, {"b"}), HasSubstr("--to 'b' is a weight of the model"));
  EXPECT_THAT(error({"r"}, {"r"}), HasSubstr("is in --from and in --to: nothing lies between"));
  EXPECT_THAT(error({"r"}, {"a"}), HasSubstr("--from 'r': 'a' does not depend on it"));
  EXPECT_THAT(error({"r", "h"}, {"s"}), HasSubstr("beside the other values of --from"));
  EXPECT_THAT(error({"scaled"}, {"a"}), HasSubstr("do not depend on this node"));
  EXPECT_THAT(
      error({"t"}, {"r", "u"}),
      AllOf(HasSubstr("'t'"), HasSubstr("another result of the node"), HasSubstr("'split'")));
  EXPECT_THAT(error({}, {"scale"}), HasSubstr("would have no input"));
  EXPECT_FALSE(fs::exists(part()));
}

TEST_F(Extract, ThePartDoesNotReplaceTheModel) {
  const auto graph = import_model(whole());
  EXPECT_THROW(write_part(whole(), graph.get(), {.to_file = whole(), .from = {"h"}, .to = {}}),
               Error);
  EXPECT_EQ(model_of(whole()).graph().node_size(), 7);
}

// Types come from the file where the model cannot be imported.
TEST_F(Extract, OfAModelThatCannotBeImported) {
  ModelBuilder model = example();
  model.node("NoSuchOperator", {"y"}, {"z"});
  proto::ValueInfoProto info;
  info.set_name("h");
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(kFloat);
  type.mutable_shape()->add_dim()->set_dim_param("rows");
  type.mutable_shape()->add_dim()->set_dim_value(2);
  model.graph().add_value_info(info.SerializeAsString());
  info.set_name("r");
  model.graph().add_value_info(info.SerializeAsString());
  write_file(whole(), model.bytes());
  const PartOptions options{.to_file = part(), .from = {"h"}, .to = {"r"}, .external_from = 1000};
  const Part made = write_part(whole(), nullptr, options);
  EXPECT_EQ(str(made.inputs.at(0).shape), "[rows, 2]");
  EXPECT_EQ(import_model(part())->outputs.size(), 1u);
  try {
    write_part(whole(), nullptr, {.to_file = part(), .from = {"a"}, .to = {"r"}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the type of value 'a' is not known"));
  }
}

}  // namespace
}  // namespace vernier::onnx
