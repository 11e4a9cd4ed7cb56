// ModelSlicer: a part keeps its nodes, weights, functions and operator sets, gets fixed sizes, and
// imports; what it lacks is an error.
#include "onnx/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "onnx/model_builder.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Sliced : public testing::Test {
 protected:
  Sliced() : folder_(testing::TempDir() + "vernier_slice_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Sliced() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::filesystem::path save(const ModelBuilder& model) const {
    write("model.onnx", model.bytes());
    return folder_ / "model.onnx";
  }
  std::filesystem::path folder_;
};

// y = relu(x·w) + c in three nodes, w outside the file where `external`.
ModelBuilder three_nodes(bool external = false) {
  ModelBuilder model(17);
  model.input("x", kFloat, {"n", int64_t{2}});
  proto::TensorProto w = f32_tensor("w", {2, 2}, {1, 2, 3, 4});
  if (external) {
    w.clear_float_data();
    w.clear_raw_data();
    w.set_data_location(proto::TensorProto::EXTERNAL);
    auto& entry = *w.add_external_data();
    entry.set_key("location");
    entry.set_value("w.bin");
  }
  model.initializer(w);
  model.initializer(f32_tensor("c", {2}, {10, 20}));
  model.node("MatMul", {"x", "w"}, {"product"}).set_name("first");
  model.node("Relu", {"product"}, {"positive"});
  model.node("Add", {"positive", "c"}, {"y"});
  model.output("y");
  return model;
}

std::vector<double> answer(const std::vector<std::byte>& bytes, const std::string& input,
                           const Tensor& value, const std::string& output) {
  const auto graph = import_model_bytes(bytes, {});
  return ops::evaluate(*graph, {{input, value}}).outputs.at(output).f;
}

TEST_F(Sliced, KnowsTheNodesOfAModel) {
  const ModelSlicer slicer(save(three_nodes()));
  ASSERT_EQ(slicer.nodes().size(), 3U);
  EXPECT_EQ(slicer.nodes()[0].name, "first");
  EXPECT_EQ(slicer.nodes()[1].name, "Relu_0");  // as import calls it
  EXPECT_THAT(slicer.nodes()[2].inputs, ElementsAre("positive", "c"));
  EXPECT_TRUE(slicer.is_initializer("c"));
  EXPECT_FALSE(slicer.is_initializer("x"));
  EXPECT_THAT(slicer.inputs(), ElementsAre("x"));
  EXPECT_THAT(slicer.outputs(), ElementsAre("y"));
}

TEST_F(Sliced, APartMeansWhatItMeantInTheModel) {
  const ModelSlicer slicer(save(three_nodes()));
  const Tensor product = Tensor::from(DType::kF32, {1, 2}, std::vector<double>{-1, 5});
  const auto bytes = slicer.model_of({.nodes = {1, 2},
                                      .inputs = {{"product", product}},
                                      .constants = {},
                                      .outputs = {{"y", DType::kF32, {1, 2}}}});
  EXPECT_THAT(answer(bytes, "product", product, "y"), ElementsAre(10, 25));
  const auto graph = import_model_bytes(bytes, {});
  EXPECT_EQ(graph->value(graph->inputs[0]).shape[0].as_constant(), 1);
  EXPECT_EQ(graph->node(graph->order()[0]).origins[0].name, "Relu_0");
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text.find("first"), text.npos);  // nor the weight that only it used
}

TEST_F(Sliced, AValueThatIsComputedElsewhereCanBeAConstant) {
  const ModelSlicer slicer(save(three_nodes()));
  const Tensor product = Tensor::from(DType::kF32, {1, 2}, std::vector<double>{3, 4});
  const Tensor positive = Tensor::from(DType::kF32, {1, 2}, std::vector<double>{1, 1});
  const auto bytes = slicer.model_of({.nodes = {2},
                                      .inputs = {},
                                      .constants = {{"positive", positive}},
                                      .outputs = {{"y", DType::kF32, {1, 2}}}});
  const auto graph = import_model_bytes(bytes, {});
  EXPECT_TRUE(graph->inputs.empty());
  EXPECT_THAT(ops::evaluate(*graph, {}).outputs.at("y").f, ElementsAre(11, 21));
}

TEST_F(Sliced, WeightsBesideTheModelComeInside) {
  const std::vector<float> values{1, 2, 3, 4};
  write("w.bin", {reinterpret_cast<const char*>(values.data()), 16});
  const ModelSlicer slicer(save(three_nodes(true)));
  const Tensor x = Tensor::from(DType::kF32, {1, 2}, std::vector<double>{1, 1});
  const auto bytes = slicer.model_of({.nodes = {0},
                                      .inputs = {{"x", x}},
                                      .constants = {},
                                      .outputs = {{"product", DType::kF32, {1, 2}}}});
  EXPECT_THAT(answer(bytes, "x", x, "product"), ElementsAre(4, 6));
}

TEST_F(Sliced, FunctionsAreKept) {
  ModelBuilder model(17);
  model.input("x", kFloat, {int64_t{2}});
  auto& twice = model.function("Twice", {"a"}, {"b"});
  *twice.add_node() = make_node("Add", {"a", "a"}, {"b"});
  model.node("Relu", {"x"}, {"h"});
  model.node("Twice", {"h"}, {"y"}).set_domain("local");
  model.output("y");
  const ModelSlicer slicer(save(model));
  const Tensor h = Tensor::from(DType::kF32, {2}, std::vector<double>{3, 4});
  const auto bytes = slicer.model_of(
      {.nodes = {1}, .inputs = {{"h", h}}, .constants = {}, .outputs = {{"y", DType::kF32, {2}}}});
  EXPECT_THAT(answer(bytes, "h", h, "y"), ElementsAre(6, 8));
}

TEST_F(Sliced, AMissingValueIsNamed) {
  const ModelSlicer slicer(save(three_nodes()));
  try {
    slicer.model_of(
        {.nodes = {2}, .inputs = {}, .constants = {}, .outputs = {{"y", DType::kF32, {1, 2}}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(),
                HasSubstr("uses value 'positive', which it neither computes nor gets"));
  }
}

TEST(MainNodeOf, ReadsKeys) {
  EXPECT_EQ(main_node_of("#172"), 172U);
  EXPECT_EQ(main_node_of("/function/3#17"), 3U);
  EXPECT_EQ(main_node_of("/function/3/inner/2#0"), 3U);
}

}  // namespace
}  // namespace vernier::onnx
