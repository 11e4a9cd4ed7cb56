// Q/DQ models: what is written is read back as int8 operands, with the weights in the file or
// beside it; what has been changed since is read as Q/DQ operators; damaged metadata is an error.
#include "onnx/qdq_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>

#include "onnx/int8_operands.h"
#include "onnx/model_files.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QdqModel : public ::testing::Test {
 protected:
  QdqModel() : folder_(fs::temp_directory_path() / ("vernier_qdq_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_ / "other");
  }
  ~QdqModel() override { fs::remove_all(folder_); }

  fs::path folder_;
};

// y = Gemm(x, w [3, 2], b), z = MatMul(x, w of it too)
ModelBuilder example() {
  ModelBuilder model(17);
  model.input("x", kFloat, {TestDim("rows"), int64_t{2}}).output("y").output("z");
  model.initializer(f32_tensor("w", {3, 2}, {1, 2, 3, 4, 5, 6}));
  model.initializer(f32_tensor("v", {2, 1}, {1, -2}));
  model.initializer(f32_tensor("b", {3}, {1, 2, 3}));
  model.node("Gemm", {"x", "w", "b"}, {"y"}, {attr_int("transB", 1)}).set_name("gemm");
  model.node("MatMul", {"x", "v"}, {"z"});
  return model;
}

Tensor bytes(const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::from(DType::kI8, shape, std::span(values));
}
Tensor numbers(const std::vector<double>& values) {
  return Tensor::from(DType::kF32, {std::ssize(values)}, std::span(values));
}

// w as [K, N], which Gemm wants turned.
std::vector<QdqProduct> products() {
  return {{.node = 0,
           .name = "gemm",
           .w = bytes({2, 3}, {10, -20, 30, 40, 50, -127}),
           .trans_w = false,
           .w_scales = numbers({0.5, 0.25, 2}),
           .x_scale = 0.1F,
           .x_zero = -7,
           .factors = {}},
          {.node = 1,
           .name = "MatMul_0",
           .w = bytes({1, 2}, {3, -4}),
           .trans_w = true,
           .w_scales = numbers({0.125}),
           .x_scale = 0.2F,
           .x_zero = 5,
           .factors = {2, 0.5}}};
}

void expect_operands(const ir::Graph& graph) {
  ASSERT_EQ(graph.int8_operands.size(), 2u);
  std::map<std::string, ir::Int8Operands> by_name;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    EXPECT_NE(node.op, OpKind::kQuantizeLinear);
    EXPECT_NE(node.op, OpKind::kDequantizeLinear);
    EXPECT_NE(node.op, OpKind::kMul);
    const auto found = graph.int8_operands.find(node.origins[0].key);
    if (found != graph.int8_operands.end()) by_name[node.name] = found->second;
  }
  const ir::Int8Operands &gemm = by_name["gemm"], &matmul = by_name["MatMul_0"];
  EXPECT_EQ(gemm.x_scale, 0.1F);
  EXPECT_EQ(gemm.x_zero, -7);
  EXPECT_THAT(gemm.w_scales, ElementsAre(0.5F, 0.25F, 2.0F));
  EXPECT_TRUE(gemm.factors.empty());
  EXPECT_EQ(matmul.x_scale, 0.2F);
  EXPECT_THAT(matmul.factors, ElementsAre(2, 0.5F));
  EXPECT_THAT(matmul.w_scales, ElementsAre(0.125F));
}

// Weights are real numbers again: w = (…)·scale, times the factors of x's columns.
void expect_weights(const ir::Graph& graph) {
  const Tensor x = Tensor::from(DType::kF32, {1, 2}, std::span<const double>({1.0, 10.0}));
  const auto outputs = ops::evaluate(graph, {{"x", x}}).outputs;
  EXPECT_THAT(outputs.at("y").f,
              ElementsAre(1 + 5 + 10 * 20, 2 - 5 + 10 * 12.5, 3 + 60 - 10 * 254));
  EXPECT_THAT(outputs.at("z").f, ElementsAre(3 * 0.125 * 2 - 10 * 4 * 0.125 * 0.5));
}

TEST_F(QdqModel, IsReadBack) {
  write_file(folder_ / "m.onnx", example().bytes());
  write_qdq_model(folder_ / "m.onnx", folder_ / "q.onnx", products(), {.policy = "a policy"});
  ImportReport report;
  const auto graph = import_model(folder_ / "q.onnx", {}, &report);
  EXPECT_EQ(report.policy, "a policy");
  EXPECT_THAT(report.notes, Contains(HasSubstr("2 of 2 products")));
  expect_operands(*graph);
  expect_weights(*graph);
  std::vector<std::string> removed;
  for (const ir::Retired& row : graph->retired) {
    EXPECT_EQ(row.state, LedgerState::kRemoved);
    removed.push_back(row.origin.op_type);
  }
  EXPECT_THAT(removed, ::testing::UnorderedElementsAre("Mul", "QuantizeLinear", "QuantizeLinear",
                                                       "DequantizeLinear", "DequantizeLinear",
                                                       "DequantizeLinear", "DequantizeLinear"));
}

TEST_F(QdqModel, IsAModelWithRoundedOperands) {
  write_file(folder_ / "m.onnx", example().bytes());
  write_qdq_model(folder_ / "m.onnx", folder_ / "q.onnx", products(), {.policy = "p"});
  proto::ModelProto model = model_of(folder_ / "q.onnx");
  ASSERT_EQ(model.metadata_props_size(), 1);
  model.clear_metadata_props();  // read as any other Q/DQ model
  const auto graph = import_bytes(model.SerializeAsString());
  EXPECT_TRUE(graph->int8_operands.empty());
  const Tensor x = Tensor::from(DType::kF32, {1, 2}, std::span<const double>({1.04, 100.0}));
  const auto outputs = ops::evaluate(*graph, {{"x", x}}).outputs;
  // x: 1.04 / 0.1 rounds to 10, 100 saturates at (127 + 7)·0.1
  const double first = 10 * double{0.1F}, second = 134 * double{0.1F};
  EXPECT_NEAR(outputs.at("y").f[0], 1 + 5 * first + 20 * second, 1e-9);
  // x·factors: 2.08 / 0.2 rounds to 10, 50 saturates at (127 - 5)·0.2
  EXPECT_NEAR(outputs.at("z").f[0], 0.375 * 10 * double{0.2F} - 0.5 * 122 * double{0.2F}, 1e-9);
  for (const auto& tensor : model.graph().initializer())
    EXPECT_THAT(tensor.name(), ::testing::AllOf(::testing::Ne("w"), ::testing::Ne("v")));
}

TEST_F(QdqModel, PutsLargeWeightsBesideIt) {
  ModelBuilder model = example();
  std::vector<float> table(500);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  proto::TensorProto tensor = f32_tensor("table", {250, 2}, {});
  tensor.set_raw_data(table.data(), table.size() * sizeof(float));
  model.initializer(tensor).output("t");
  model.node("Add", {"table", "x"}, {"t"});
  write_file(folder_ / "m.onnx", model.bytes());
  // The table lies beside the model already, and is copied from there.
  write_qdq_model(folder_ / "m.onnx", folder_ / "q.onnx", products(),
                  {.policy = "p", .external_from = 0});
  EXPECT_EQ(fs::file_size(folder_ / "q.onnx.data"), 2000u);
  QdqProduct again = products()[1];
  again.node = 8;  // behind what was put in front of it
  write_qdq_model(folder_ / "q.onnx", folder_ / "other/q.onnx", {again}, {.policy = "p"});
  EXPECT_FALSE(fs::exists(folder_ / "other/q.onnx.data"));
  for (const fs::path& path : {folder_ / "q.onnx", folder_ / "other/q.onnx"}) {
    const auto graph = import_model(path);
    bool found = false;
    for (size_t v = 0; v < graph->num_values(); ++v) {
      const ir::Value& value = graph->value(static_cast<ir::ValueId>(v));
      if (value.name != "table") continue;
      found = true;
      EXPECT_EQ(std::memcmp(value.constant.data(), table.data(), value.constant.bytes()), 0);
    }
    EXPECT_TRUE(found) << path;
  }
  expect_operands(*import_model(folder_ / "q.onnx"));
}

struct WrongModel {
  const char* name;
  std::function<void(ModelBuilder&, const fs::path&)> change;
  const char* message;
  const char* to = "q.onnx";
};
void PrintTo(const WrongModel& row, std::ostream* out) { *out << row.name; }

void beside(ModelBuilder& model, const fs::path& folder, const std::string& file) {
  if (file != "gone") write_file(folder / file, std::string(12, '\0'));
  proto::TensorProto& tensor = *model.graph().mutable_initializer(2);
  tensor.clear_float_data();
  tensor.clear_raw_data();
  tensor.set_data_location(proto::TensorProto::EXTERNAL);
  auto* entry = tensor.add_external_data();
  entry->set_key("location");
  entry->set_value(file);
}

class QdqRefused : public QdqModel, public ::testing::WithParamInterface<WrongModel> {};
TEST_P(QdqRefused, WithTheReason) {
  ModelBuilder model = example();
  GetParam().change(model, folder_);
  write_file(folder_ / "m.onnx", model.bytes());
  try {
    write_qdq_model(folder_ / "m.onnx", folder_ / GetParam().to, products(),
                    {.policy = "p", .external_from = 0});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  }
  EXPECT_FALSE(fs::exists(folder_ / "q.onnx"));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, QdqRefused,
    ::testing::Values(WrongModel{"old_opset",
                                 [](ModelBuilder& model, const fs::path&) {
                                   model.model().mutable_opset_import(0)->set_version(12);
                                 },
                                 "the model has opset 12"},
                      WrongModel{"another_operator",
                                 [](ModelBuilder& model, const fs::path&) {
                                   model.graph().mutable_node(1)->set_op_type("Add");
                                 },
                                 "product 'MatMul_0' is a Add, expected a MatMul or a Gemm"},
                      WrongModel{"over_itself", [](ModelBuilder&, const fs::path&) {},
                                 "would destroy", "m.onnx"},
                      WrongModel{"over_its_weights",
                                 [](ModelBuilder& model, const fs::path& folder) {
                                   beside(model, folder, "w.bin");
                                 },
                                 "would destroy", "w.bin"},
                      WrongModel{"weights_that_are_missing",
                                 [](ModelBuilder& model, const fs::path& folder) {
                                   beside(model, folder, "gone");
                                 },
                                 "its file 'gone' is missing"}),
    [](const auto& row) { return std::string(row.param.name); });

// ---- what was changed since

struct Change {
  const char* name;
  std::function<void(proto::ModelProto&)> change;
};
void PrintTo(const Change& row, std::ostream* out) { *out << row.name; }

proto::TensorProto& tensor_of(proto::ModelProto& model, const std::string& name) {
  for (auto& tensor : *model.mutable_graph()->mutable_initializer())
    if (tensor.name() == name) return tensor;
  throw std::runtime_error("no tensor " + name);
}
proto::NodeProto& node_of(proto::ModelProto& model, const std::string& output) {
  for (auto& node : *model.mutable_graph()->mutable_node())
    if (node.output(0) == output) return node;
  throw std::runtime_error("no node " + output);
}
std::string as_bytes(float value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }

class ChangedSince : public QdqModel, public ::testing::WithParamInterface<Change> {};
TEST_P(ChangedSince, IsReadAsOperators) {
  write_file(folder_ / "m.onnx", example().bytes());
  write_qdq_model(folder_ / "m.onnx", folder_ / "q.onnx", products(), {.policy = "p"});
  proto::ModelProto model = model_of(folder_ / "q.onnx");
  GetParam().change(model);
  ImportReport report;
  const auto graph = import_bytes(model.SerializeAsString(), &report);
  EXPECT_EQ(graph->int8_operands.size(), 1u) << "the Gemm is as it was";
  EXPECT_THAT(report.notes, Contains(HasSubstr("1 of 2 products")));
  EXPECT_THAT(report.notes, Contains(HasSubstr("are read as such")));
}
const Change kChanges[] = {
    {"zero_points_that_differ",
     [](proto::ModelProto& model) {
       proto::TensorProto& other = *model.mutable_graph()->add_initializer();
       other = tensor_of(model, "x_zero_point_1");
       other.set_name("other");
       other.set_raw_data(std::string(1, 9));
       node_of(model, "x_dequantized_1").set_input(2, "other");
     }},
    {"zero_point_beyond_q8",
     [](proto::ModelProto& model) {
       tensor_of(model, "x_zero_point_1").set_raw_data(std::string(1, -128));
     }},
    {"scale_that_is_negative",
     [](proto::ModelProto& model) { tensor_of(model, "x_scale_1").set_raw_data(as_bytes(-1)); }},
    {"scale_that_is_infinite",
     [](proto::ModelProto& model) {
       tensor_of(model, "v_scale").set_raw_data(as_bytes(INFINITY));
     }},
    {"factors_of_zero",
     [](proto::ModelProto& model) {
       tensor_of(model, "x_factors").set_raw_data(as_bytes(0) + as_bytes(0));
     }},
    {"weights_beyond_f32",
     [](proto::ModelProto& model) { tensor_of(model, "v_scale").set_raw_data(as_bytes(3e38F)); }},
    {"weight_with_a_zero_point",
     [](proto::ModelProto& model) {
       tensor_of(model, "v_zero_point").set_raw_data(std::string(1, 1));
     }},
    {"another_axis",
     [](proto::ModelProto& model) {
       node_of(model, "v_dequantized").mutable_attribute(0)->set_i(0);
       tensor_of(model, "v_scale").set_raw_data(as_bytes(1) + as_bytes(2));
       tensor_of(model, "v_scale").set_dims(0, 2);
       tensor_of(model, "v_zero_point").set_raw_data(std::string(2, 0));
       tensor_of(model, "v_zero_point").set_dims(0, 2);
     }},
    {"no_quantizelinear", [](proto::ModelProto& model) { node_of(model, "z").set_input(0, "x"); }},
};
INSTANTIATE_TEST_SUITE_P(Rows, ChangedSince, ::testing::ValuesIn(kChanges),
                         [](const auto& row) { return std::string(row.param.name); });

// ---- metadata

struct Damage {
  const char* name;
  const char* text;
  const char* message;
};
void PrintTo(const Damage& row, std::ostream* out) { *out << row.name; }

class DamagedMetadata : public ::testing::TestWithParam<Damage> {};
TEST_P(DamagedMetadata, IsAnError) {
  ModelBuilder model = example();
  proto::StringStringEntryProto entry;
  entry.set_key(kInt8Key);
  entry.set_value(GetParam().text);
  model.model().add_metadata_props(entry.SerializeAsString());
  EXPECT_THAT(model.error(), HasSubstr(GetParam().message));
  EXPECT_THAT(model.error(), HasSubstr("or remove the entry"));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, DamagedMetadata,
    ::testing::Values(
        Damage{"no_json", "vernier", "is not JSON"},
        Damage{"a_list", "[]", "has not what it should"},
        Damage{"a_later_version", R"({"version": 2})", "has version 2, expected 1"},
        Damage{"no_products", R"({"version": 1, "policy": ""})", "has not what it should"},
        Damage{"products_of_numbers", R"({"version": 1, "policy": "", "products": [1]})",
               "has not what it should"},
        Damage{"too_deep", R"({"version": 1, "policy": [[[[1]]]]})", "nested too deeply"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Metadata, OfOthersIsNotRead) {
  ModelBuilder model = example();
  model.model().add_metadata_props("no entry at all");
  EXPECT_EQ(model.error(), "no error");
}

}  // namespace
}  // namespace vernier::onnx
