// Import of RNN, GRU, LSTM, LinearAttention, CausalConvWithState and Scan: layouts, functions and
// their parameters, update rules, states, and what is refused. Values are worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/model_builder.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

using ::testing::HasSubstr;
using Dims = std::vector<int64_t>;

constexpr int64_t kOpset = 27;

proto::TensorProto f32(const std::string& name, const Dims& dims,
                       const std::vector<float>& values) {
  return f32_tensor(name, dims, values);
}

// A model of one node of input x, initializers and the output y among `outputs`.
struct Node {
  std::string op;
  Dims dims;  // of x
  Names inputs, outputs{"y"};
  std::vector<Attribute> attributes = {};
  std::vector<proto::TensorProto> weights = {};
  int64_t opset = kOpset;
};
ModelBuilder model_of(const Node& node) {
  ModelBuilder model(node.opset);
  model.input("x", kFloat, {node.dims.begin(), node.dims.end()}).output("y");
  for (const proto::TensorProto& weight : node.weights) model.initializer(weight);
  model.node(node.op, node.inputs, node.outputs, node.attributes);
  return model;
}

struct Case {
  std::string name;
  Node node;
  std::vector<double> x, y;
  Shape shape;
};
void PrintTo(const Case& row, std::ostream* out) { *out << row.name; }

class Recurrent : public ::testing::TestWithParam<Case> {};

TEST_P(Recurrent, ComputesWhatOnnxSays) {
  const Case& row = GetParam();
  const auto graph = model_of(row.node).import();
  const auto result = ops::evaluate(
      *graph, {{"x", Tensor::from(DType::kF32, row.node.dims, std::span<const double>(row.x))}});
  const EvalTensor& y = result.outputs.at("y");
  EXPECT_EQ(y.shape, row.shape);
  ASSERT_EQ(y.f.size(), row.y.size());
  for (size_t i = 0; i < y.f.size(); ++i) EXPECT_NEAR(y.f[i], row.y[i], 1e-6) << "element " << i;
}

const auto kOnes = std::vector{f32("w", {1, 1, 1}, {1}), f32("r", {1, 1, 1}, {1})};
const auto kGru = std::vector{f32("w", {1, 3, 1}, {0, 0, 1}), f32("r", {1, 3, 1}, {0, 0, 0})};
const auto kLstm =
    std::vector{f32("w", {1, 4, 1}, {0, 0, 0, 1}), f32("r", {1, 4, 1}, {0, 0, 0, 0})};

// Update gates of 1/2 (HardSigmoid of 0), candidates of x.
std::vector<Case> recurrent_cases() {
  return {
      {"RNN_with_the_batch_first",
       {"RNN",
        {2, 2, 1},
        {"x", "w", "r"},
        {"y"},
        {attr_int("layout", 1), attr_int("hidden_size", 1), attr_texts("activations", {"Relu"})},
        kOnes},
       {1, 2, 3, 4},
       {1, 3, 3, 7},
       {2, 2, 1, 1}},
      {"RNN_with_parameters_for_those_that_take_them",
       {"RNN",
        {1, 1, 1},
        {"x", "w", "r"},
        {"y"},
        {attr_text("direction", "bidirectional"),
         attr_texts("activations", {"Affine", "LeakyRelu"}),
         attr_floats("activation_alpha", {2, 0.5F}), attr_floats("activation_beta", {1})},
        {f32("w", {2, 1, 1}, {1, 1}), f32("r", {2, 1, 1}, {1, 1})}},
       {-2},
       {-3, -1},
       {1, 2, 1, 1}},
      {"RNN_with_clip",
       {"RNN",
        {1, 1, 1},
        {"x", "w", "r"},
        {"y"},
        {attr_float("clip", 1.5F), attr_texts("activations", {"Relu"})},
        kOnes,
        7},
       {2},
       {1.5},
       {1, 1, 1, 1}},
      {"RNN_with_defaults",
       {"RNN", {1, 1, 1}, {"x", "w", "r"}, {"y"}, {}, kOnes},
       {0.5},
       {std::tanh(0.5)},
       {1, 1, 1, 1}},
      {"GRU_last_state",
       {"GRU",
        {2, 1, 1},
        {"x", "w", "r"},
        {"", "y"},
        {attr_texts("activations", {"HardSigmoid", "Relu"}), attr_int("linear_before_reset", 1)},
        kGru},
       {4, 4},
       {3},
       {1, 1, 1}},
      {"LSTM_last_cell",
       {"LSTM",
        {1, 1, 1},
        {"x", "w", "r"},
        {"", "", "y"},
        {attr_texts("activations", {"HardSigmoid", "Relu", "Relu"})},
        kLstm},
       {4},
       {2},
       {1, 1, 1}},
      {"LSTM_last_state_with_the_batch_first",
       {"LSTM",
        {2, 1, 1},
        {"x", "w", "r", "", "", "h", "c"},
        {"", "y"},
        {attr_int("layout", 1), attr_texts("activations", {"HardSigmoid", "Relu", "Relu"})},
        {kLstm[0], kLstm[1], f32("h", {2, 1, 1}, {7, 7}), f32("c", {2, 1, 1}, {0, 2})}},
       {4, 4},
       {1, 1.5},
       {2, 1, 1}},
  };
}

Node conv(int64_t length, const std::vector<float>& kernel, const Names& outputs,
          const std::vector<Attribute>& attributes = {}) {
  const auto size = static_cast<int64_t>(kernel.size());
  return {"CausalConvWithState",           {1, 1, length}, {"x", "w"}, outputs, attributes,
          {f32("w", {1, 1, size}, kernel)}};
}

std::vector<Case> causal_conv_cases() {
  Node after_past = conv(3, {10, 1}, {"y"});
  after_past.inputs = {"x", "w", "b", "past"};
  after_past.weights.push_back(f32("b", {1}, {0.5F}));
  after_past.weights.push_back(f32("past", {1, 1, 1}, {5}));
  const double silu = 1 / (1 + std::exp(-1.0));
  return {
      {"CausalConv", conv(3, {10, 1}, {"y"}), {1, 2, 3}, {1, 12, 23}, {1, 1, 3}},
      {"CausalConv_after_a_past", after_past, {1, 2, 3}, {51.5, 12.5, 23.5}, {1, 1, 3}},
      {"CausalConv_silu",
       conv(1, {1}, {"y"}, {attr_text("activation", "silu")}),
       {1},
       {silu},
       {1, 1, 1}},
      {"CausalConv_state", conv(3, {1, 1, 1}, {"", "y"}), {1, 2, 3}, {2, 3}, {1, 1, 2}},
      {"CausalConv_state_of_few_columns",
       conv(2, {1, 1, 1, 1, 1}, {"", "y"}),
       {1, 2},
       {0, 0, 1, 2},
       {1, 1, 4}},
      {"CausalConv_state_of_a_kernel_of_1", conv(2, {1}, {"", "y"}), {1, 2}, {}, {1, 1, 0}},
  };
}

Node attention(const std::string& rule, const std::vector<Attribute>& attributes = {}) {
  Node node{"LinearAttention", {1, 2, 1}, {"x", "x", "x"}};
  node.attributes = attributes;
  for (const Attribute& attribute :
       {attr_text("update_rule", rule), attr_int("q_num_heads", 1), attr_int("kv_num_heads", 1)})
    node.attributes.push_back(attribute);
  return node;
}
Node gated(const std::string& rule, const Names& inputs) {
  Node node = attention(rule);
  node.inputs = inputs;
  node.weights = {f32("half", {1, 2, 1}, {std::log(0.5F), std::log(0.5F)}),
                  f32("beta", {1, 2, 1}, {0.5F, 0.5F}), f32("past", {1, 1, 1, 1}, {2})};
  return node;
}

// S += x·x, answers S·x; where gated S is halved before, with delta half of x − S·x is added.
std::vector<Case> linear_attention_cases() {
  const std::vector<double> x{1, 2};
  return {
      {"LinearAttention", attention("linear", {attr_int("chunk_size", 8)}), x, {1, 10}, {1, 2, 1}},
      {"LinearAttention_scaled",
       attention("linear", {attr_float("scale", 0.5F)}),
       x,
       {0.5, 5},
       {1, 2, 1}},
      {"LinearAttention_gated",
       gated("gated", {"x", "x", "x", "past", "half"}),
       x,
       {2, 10},
       {1, 2, 1}},
      {"LinearAttention_delta",
       gated("delta", {"x", "x", "x", "", "", "beta"}),
       x,
       {0.5, 3},
       {1, 2, 1}},
      {"LinearAttention_gated_delta",
       gated("gated_delta", {"x", "x", "x", "past", "half", "beta"}),
       x,
       {1, 3},
       {1, 2, 1}},
  };
}

// sum += x[t], and the sums.
proto::GraphProto sums() {
  proto::GraphProto graph;
  for (const char* name : {"sum", "next"}) graph.add_input()->set_name(name);
  *graph.add_node() = make_node("Add", {"sum", "next"}, {"sum_out"});
  *graph.add_node() = make_node("Identity", {"sum_out"}, {"copy"});
  for (const char* name : {"sum_out", "copy"}) graph.add_output()->set_name(name);
  return graph;
}
Node scan(const Names& outputs, const std::vector<Attribute>& attributes = {}) {
  Node node{"Scan", {3, 2}, {"zero", "x"}, outputs, attributes, {f32("zero", {2}, {0, 0})}};
  node.attributes.push_back(attr_int("num_scan_inputs", 1));
  node.attributes.push_back(attr_graph("body", sums()));
  return node;
}

// Of two rows; at opset 8.
Node scan_of_rows(const Names& outputs, const std::vector<Attribute>& attributes = {}) {
  Node node = scan(outputs, attributes);
  node.opset = 8;
  node.dims = {2, 3, 1};
  node.inputs = {"", "zero", "x"};
  node.weights = {f32("zero", {2, 1}, {0, 10})};
  return node;
}

std::vector<Case> scan_cases() {
  const std::vector<double> x{1, 2, 3, 4, 5, 6};
  Node columns =
      scan({"last", "y"}, {attr_ints("scan_input_axes", {-1}), attr_ints("scan_output_axes", {1})});
  columns.weights = {f32("zero", {3}, {0, 0, 0})};
  return {
      {"Scan_state", scan({"y", "all"}), x, {9, 12}, {2}},
      {"Scan_results", scan({"last", "y"}), x, {1, 2, 4, 6, 9, 12}, {3, 2}},
      {"Scan_from_the_end",
       scan({"last", "y"}, {attr_ints("scan_input_directions", {1})}),
       x,
       {5, 6, 8, 10, 9, 12},
       {3, 2}},
      {"Scan_to_the_front",
       scan({"last", "y"}, {attr_ints("scan_output_directions", {1})}),
       x,
       {9, 12, 4, 6, 1, 2},
       {3, 2}},
      {"Scan_of_columns", columns, x, {1, 3, 3, 7, 5, 11}, {3, 2}},
      {"Scan_8_states_of_rows", scan_of_rows({"y", "all"}), x, {6, 25}, {2, 1}},
      {"Scan_8_results_of_rows", scan_of_rows({"last", "y"}), x, {1, 3, 6, 14, 19, 25}, {2, 3, 1}},
      {"Scan_8_from_the_end",
       scan_of_rows({"last", "y"}, {attr_ints("directions", {1})}),
       x,
       {3, 5, 6, 16, 21, 25},
       {2, 3, 1}},
  };
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Cells, Recurrent, ::testing::ValuesIn(recurrent_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Conv, Recurrent, ::testing::ValuesIn(causal_conv_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Linear, Recurrent, ::testing::ValuesIn(linear_attention_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Bodies, Recurrent, ::testing::ValuesIn(scan_cases()), case_name);

// ---- refusals ---------------------------------------------------------------------------------

struct Refused {
  Node node;
  const char* message;
};

Node rnn(const std::vector<Attribute>& attributes) {
  return {"RNN", {1, 1, 1}, {"x", "w", "r"}, {"y"}, attributes, kOnes};
}

TEST(RecurrentRefusals, NameWhatIsWrong) {
  Node coupled = rnn({attr_int("input_forget", 1)}), old = rnn({});
  coupled.op = "LSTM";
  old.opset = 6;
  for (const Refused& row : {
           Refused{rnn({attr_text("direction", "up")}),
                   "expected forward, reverse or bidirectional"},
           Refused{rnn({attr_texts("activations", {"Sine"})}),
                   "activation 'Sine' is unknown; expected one of Sigmoid, Tanh"},
           Refused{rnn({attr_texts("activations", {"Tanh", "Tanh"})}),
                   "attribute 'activations' has 2 names; expected 1"},
           Refused{rnn({attr_floats("activation_alpha", {1})}),
                   "attribute 'activation_alpha' has 1 numbers; its functions take 0"},
           Refused{
               rnn({attr_texts("activations", {"Affine"}), attr_floats("activation_alpha", {1})}),
               "activation 'Affine' needs a number in attribute 'activation_beta'"},
           Refused{rnn({attr_int("hidden_size", 3)}),
                   "hidden_size is 3, but input 2 has shape [1, 1, 1]"},
           Refused{coupled, "its input and forget gates are coupled (input_forget)"},
           Refused{old, "RNN x1, at opset 6 (supported since opset 7)"},
       })
    EXPECT_THAT(model_of(row.node).error(), HasSubstr(row.message));
}

TEST(CausalConvRefusals, NameWhatIsWrong) {
  Node past = conv(3, {10, 1}, {"y"}), matrix = conv(3, {1}, {"y"}), kernels = matrix;
  past.inputs = {"x", "w", "", "past"};
  past.weights.push_back(f32("past", {1, 1, 2}, {5, 5}));
  matrix.weights = {f32("w", {1, 1}, {1})};
  kernels.weights = {f32("w", {2, 1, 1}, {1, 1})};
  for (const Refused& row : {
           Refused{conv(3, {1}, {"y"}, {attr_text("activation", "relu")}),
                   "attribute 'activation' is 'relu'; expected none, silu or swish"},
           Refused{past, "past_state has shape [1, 1, 2]; expected [1, 1, 1]"},
           Refused{matrix, "have shapes [1, 1, 3] and [1, 1]; expected rank 3"},
           Refused{kernels,
                   "weight has shape [2, 1, 1]; expected one kernel for each of 1 channels"},
       })
    EXPECT_THAT(model_of(row.node).error(), HasSubstr(row.message));
}

TEST(LinearAttentionRefusals, NameWhatIsWrong) {
  Node matrix = attention("linear"), heads = matrix;
  matrix.dims = {2, 1};
  heads.attributes = {attr_text("update_rule", "linear"), attr_int("q_num_heads", 1),
                      attr_int("kv_num_heads", 0)};
  for (const Refused& row : {
           Refused{attention("quadratic"), "expected linear, gated, delta or gated_delta"},
           Refused{attention("gated"), "its update_rule needs decay (input 4)"},
           Refused{gated("linear", {"x", "x", "x", "", "", "beta"}),
                   "its update_rule does not take beta (input 5)"},
           Refused{matrix, "query (input 0) has shape [2, 1]; expected rank 3"},
           Refused{heads, "q_num_heads and kv_num_heads must be at least 1, one is 0"},
       })
    EXPECT_THAT(model_of(row.node).error(), HasSubstr(row.message));
}

TEST(ScanRefusals, NameWhatIsWrong) {
  Node many = scan({"y", "all"}), none = many, three = scan({"y", "all", "more"}), old = many;
  many.dims = {4097, 2};
  none.inputs = {"x"};
  none.outputs = {"y"};
  none.attributes = {attr_int("num_scan_inputs", 2), attr_graph("body", sums())};
  old.opset = 7;
  for (const Refused& row : {
           Refused{many, "it has 4097 steps; 1 to 4096 are supported"},
           Refused{none, "num_scan_inputs is 2; expected 1 to 1"},
           Refused{three, "its body has 2 outputs; expected 3"},
           Refused{scan({"y", "all"}, {attr_ints("scan_input_axes", {2})}),
                   "input 1 of shape [3, 2] has no axis 2 to scan"},
           Refused{scan({"y", "all"}, {attr_ints("scan_output_axes", {0, 0})}),
                   "attribute 'scan_output_axes' has 2 numbers; expected 1"},
           Refused{old, "Scan x1, at opset 7 (supported since opset 8)"},
       })
    EXPECT_THAT(model_of(row.node).error(), HasSubstr(row.message));
}

TEST(ScanRefusals, OfABatchNameWhatIsWrong) {
  Node lengths = scan_of_rows({"y", "all"}), batches = lengths, many = lengths;
  lengths.inputs[0] = "lengths";
  lengths.weights.push_back(i64_tensor("lengths", {2}, {3, 2}));
  batches.weights = {f32("zero", {3, 1}, {0, 0, 0})};
  many.dims = {2, 2049, 1};
  for (const Refused& row : {
           Refused{lengths, "it has sequence_lens (input 0)"},
           Refused{batches, "its batch is 3 of one input and 2 of another"},
           Refused{many, "it has 4098 steps; 1 to 4096 are supported"},
       })
    EXPECT_THAT(model_of(row.node).error(), HasSubstr(row.message));
}

TEST(ScanRefusals, StepsMustBeKnown) {
  ModelBuilder model(kOpset);
  model.input("x", kFloat, {"steps", 2}).output("y").initializer(f32("zero", {2}, {0, 0}));
  model.node("Scan", {"zero", "x"}, {"y", "all"},
             {attr_int("num_scan_inputs", 1), attr_graph("body", sums())});
  EXPECT_THAT(model.error(),
              HasSubstr("its number of steps is not known when the engine is built"));
}

}  // namespace
}  // namespace vernier::onnx
