// ONNX Attention (opset 23) in terms of the graph's Attention: masks, causality, cached keys, and
// the variants that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "onnx/model_builder.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

struct AttentionCase {
  std::string name;
  std::vector<Attribute> attributes;
  Names inputs;
  std::vector<double> expected;
};
void PrintTo(const AttentionCase& row, std::ostream* out) { *out << row.name; }
class AttentionTest : public ::testing::TestWithParam<AttentionCase> {};

// q = k = 0, so probabilities are uniform over the keys that are seen, and the result is the mean
// of their values 1, 2, 4 (one head of size 1).
TEST_P(AttentionTest, AveragesTheValuesThatAreSeen) {
  ModelBuilder model(23);
  model.input("q", kFloat, {1, 2, 1}).input("k", kFloat, {1, 3, 1}).input("v", kFloat, {1, 3, 1});
  proto::TensorProto mask;
  mask.set_name("mask");
  mask.set_data_type(kBool);
  for (int64_t size : {2, 3}) mask.add_dims(size);
  for (int32_t bit : {0, 1, 1, 0, 0, 0}) mask.add_int32_data(bit);
  model.initializer(mask);
  model.initializer(f32_tensor("bias", {2, 3}, {-INFINITY, 0, -INFINITY, 0, 0, 0}));
  model.output("y").node("Attention", GetParam().inputs, {"y"}, GetParam().attributes);
  const auto zeros = [](int64_t count) {
    return EvalTensor(DType::kF32, {1, count, 1}).to_tensor();
  };
  const std::vector<double> values{1, 2, 4};
  const auto result =
      ops::evaluate(*model.import(),
                    {{"q", zeros(2)},
                     {"k", zeros(3)},
                     {"v", Tensor::from(DType::kF32, {1, 3, 1}, std::span<const double>(values))}});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(result.outputs.at("y").f[i], GetParam().expected[i], 1e-12) << "query " << i;
  }
}
const std::vector<Attribute> kOneHead{attr_int("q_num_heads", 1), attr_int("kv_num_heads", 1)};
std::vector<Attribute> causal_one_head() {
  std::vector<Attribute> attributes = kOneHead;
  attributes.push_back(attr_int("is_causal", 1));
  return attributes;
}
INSTANTIATE_TEST_SUITE_P(
    Masks, AttentionTest,
    ::testing::Values(
        AttentionCase{"none", kOneHead, {"q", "k", "v"}, {7.0 / 3, 7.0 / 3}},
        AttentionCase{
            "bool_and_an_empty_row_gives_zero", kOneHead, {"q", "k", "v", "mask"}, {3, 0}},
        AttentionCase{"additive", kOneHead, {"q", "k", "v", "bias"}, {2, 7.0 / 3}},
        AttentionCase{
            "causal_counts_from_the_first_query", causal_one_head(), {"q", "k", "v"}, {1, 1.5}},
        AttentionCase{"causal_and_bool", causal_one_head(), {"q", "k", "v", "mask"}, {0, 0}}),
    [](const auto& row) { return row.param.name; });

struct NanCase {
  std::string name;
  std::string mask;  // "bool", "float" or none; query 0 sees keys 1 and 2, query 1 sees none
  std::vector<double> q{0, 0}, k{0, 0, 0}, v{1, 2, 4};
  std::vector<double> expected;
  int64_t causal = 0;
};
void PrintTo(const NanCase& row, std::ostream* out) { *out << row.name; }
class AttentionNan : public ::testing::TestWithParam<NanCase> {};

// Expected: the operator's function body, and its reference in the onnx package, which agree here.
TEST_P(AttentionNan, ComesOutUnlessEveryKeyIsMasked) {
  const NanCase& row = GetParam();
  ModelBuilder model(23);
  Names names{"q", "k", "v"};
  model.input("q", kFloat, {1, 1, 2, 1})
      .input("k", kFloat, {1, 1, 3, 1})
      .input("v", kFloat, {1, 1, 3, 1});
  if (!row.mask.empty()) names.push_back("mask");
  std::map<std::string, Tensor> inputs;
  if (row.mask == "bool") {
    model.input("mask", kBool, {2, 3});
    inputs["mask"] = Tensor::from(DType::kBool, {2, 3},
                                  std::span<const double>(std::vector<double>{0, 1, 1, 0, 0, 0}));
  } else if (row.mask == "float") {
    model.input("mask", kFloat, {2, 3});
    inputs["mask"] = Tensor::from(DType::kF32, {2, 3},
                                  std::span<const double>(std::vector<double>{
                                      -INFINITY, 0, 0, -INFINITY, -INFINITY, -INFINITY}));
  }
  for (const auto& [name, values] : {std::pair{"q", &row.q}, {"k", &row.k}, {"v", &row.v}}) {
    const auto count = static_cast<int64_t>(values->size());
    inputs[name] = Tensor::from(DType::kF32, {1, 1, count, 1}, std::span<const double>(*values));
  }
  model.output("y").node("Attention", names, {"y"}, {attr_int("is_causal", row.causal)});
  const std::vector<double> y = ops::evaluate(*model.import(), inputs).outputs.at("y").f;
  ASSERT_EQ(y.size(), row.expected.size());
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(row.expected[i]))
      EXPECT_TRUE(std::isnan(y[i])) << "query " << i << " gives " << y[i];
    else
      EXPECT_NEAR(y[i], row.expected[i], 1e-12) << "query " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Masks, AttentionNan,
    ::testing::Values(
        NanCase{.name = "query", .mask = "bool", .q = {NAN, 0}, .expected = {NAN, 0}},
        NanCase{.name = "query_without_keys", .mask = "bool", .q = {0, NAN}, .expected = {3, 0}},
        NanCase{.name = "seen_key", .mask = "bool", .k = {0, NAN, 0}, .expected = {NAN, 0}},
        // The mask adds −inf to its score, and NaN − inf is NaN.
        NanCase{.name = "masked_key", .mask = "bool", .k = {NAN, 0, 0}, .expected = {NAN, 0}},
        NanCase{.name = "infinite_masked_key",
                .mask = "bool",
                .q = {1, 1},
                .k = {INFINITY, 0, 0},
                .expected = {NAN, 0}},
        // 0 · NaN is NaN.
        NanCase{.name = "masked_value", .mask = "bool", .v = {NAN, 2, 4}, .expected = {NAN, NAN}},
        NanCase{.name = "float_mask", .mask = "float", .expected = {3, 0}},
        NanCase{.name = "float_mask_query_without_keys",
                .mask = "float",
                .q = {0, NAN},
                .expected = {3, 0}},
        NanCase{
            .name = "float_masked_key", .mask = "float", .k = {NAN, 0, 0}, .expected = {NAN, 0}},
        NanCase{.name = "later_key", .k = {0, 0, NAN}, .expected = {NAN, NAN}, .causal = 1},
        NanCase{.name = "later_value", .v = {1, 2, NAN}, .expected = {NAN, NAN}, .causal = 1},
        NanCase{.name = "later_key_and_no_keys",
                .mask = "bool",
                .k = {0, 0, NAN},
                .expected = {0, 0},
                .causal = 1}),
    [](const auto& row) { return row.param.name; });

// From opset 24 on a mask for fewer keys hides the rest; a mask for one key was for all before.
TEST(AttentionMask, OfFewerKeysHidesTheRestFromOpset24On) {
  struct Row {
    int64_t opset, keys;
    std::vector<double> keep, expected;
  };
  for (const Row& row : std::vector<Row>{{24, 2, {0, 1, 1, 1}, {2, 1.5}},
                                         {24, 1, {1, 0}, {1, 0}},
                                         {23, 1, {1, 0}, {7.0 / 3, 0}}}) {
    for (DType type : {DType::kBool, DType::kF32}) {
      ModelBuilder model(row.opset);
      const bool is_bool = type == DType::kBool;
      model.input("q", kFloat, {1, 1, 2, 1})
          .input("k", kFloat, {1, 1, 3, 1})
          .input("v", kFloat, {1, 1, 3, 1})
          .input("mask", is_bool ? kBool : kFloat, {2, row.keys});
      model.output("y").node("Attention", {"q", "k", "v", "mask"}, {"y"});
      std::vector<double> mask = row.keep;
      for (double& value : mask) value = is_bool ? value : value != 0 ? 0 : -INFINITY;
      const std::vector<double> zeros(3, 0.0), values{1, 2, 4};
      const auto floats = [](Shape shape, const std::vector<double>& numbers) {
        const auto count = static_cast<size_t>(num_elems(shape));
        return Tensor::from(DType::kF32, std::move(shape), std::span(numbers).first(count));
      };
      const auto result = ops::evaluate(
          *model.import(),
          {{"q", floats({1, 1, 2, 1}, zeros)},
           {"k", floats({1, 1, 3, 1}, zeros)},
           {"v", floats({1, 1, 3, 1}, values)},
           {"mask", Tensor::from(type, {2, row.keys}, std::span<const double>(mask))}});
      for (size_t i = 0; i < 2; ++i)
        EXPECT_NEAR(result.outputs.at("y").f[i], row.expected[i], 1e-12) << row.opset;
    }
  }
}

TEST(AttentionPresent, JoinsThePastAndGivesItBack) {
  ModelBuilder model(23);
  for (const char* name : {"q", "k", "v", "past_k", "past_v"}) {
    model.input(name, kFloat, {1, 1, 1, 1});
  }
  model.output("y").output("present_v");
  model.node("Attention", {"q", "k", "v", "", "past_k", "past_v"}, {"y", "", "present_v"});
  std::map<std::string, Tensor> inputs;
  for (const char* name : {"q", "k", "v", "past_k", "past_v"}) {
    const double value = std::string(name) == "v" ? 5 : std::string(name) == "past_v" ? 3 : 0;
    inputs[name] = Tensor::from(DType::kF32, {1, 1, 1, 1}, std::span(&value, 1));
  }
  const auto result = ops::evaluate(*model.import(), inputs);
  EXPECT_EQ(result.outputs.at("y").f, (std::vector<double>{4}));
  EXPECT_EQ(result.outputs.at("present_v").f, (std::vector<double>{3, 5}));
  EXPECT_EQ(result.outputs.at("present_v").shape, (Shape{1, 1, 2, 1}));
}

TEST(AttentionVariant, WhatIsNotExpressibleIsRefusedByName) {
  const auto refusal = [](const Attribute& attribute, const Names& outputs) {
    ModelBuilder model(23);
    for (const char* name : {"q", "k", "v"}) model.input(name, kFloat, {1, 1, 1, 4});
    model.output("y").node("Attention", {"q", "k", "v"}, outputs, {attribute});
    if (outputs.size() > 1) model.output(outputs.back());
    return model.error();
  };
  EXPECT_THAT(refusal(attr_int("softmax_precision", kInt64), {"y"}),
              ::testing::HasSubstr("softmax_precision is i64; expected a float type"));
  EXPECT_THAT(refusal(attr_int("qk_matmul_output_mode", 4), {"y", "", "", "scores"}),
              ::testing::HasSubstr("qk_matmul_output_mode is 4; expected 0 to 3"));
}

// What is known of places is a mask of the composite; what is done with scores is not.
TEST(AttentionVariant, WindowsStayFusedAndCapsDoNot) {
  const auto operators = [](const Names& outputs, const std::vector<Attribute>& attributes) {
    ModelBuilder model(25);
    for (const char* name : {"q", "k", "v"}) model.input(name, kFloat, {1, 2, 3, 4});
    model.output("y").node("Attention", {"q", "k", "v"}, outputs, attributes);
    if (outputs.size() > 1) model.output(outputs.back());
    const auto graph = model.import();
    std::multiset<std::string> names;
    for (const ir::NodeId id : graph->order()) names.insert(std::string(name(graph->node(id).op)));
    return names;
  };
  EXPECT_EQ(operators({"y"}, {attr_int("left_window_size", 1)}).count("Attention"), 1);
  EXPECT_EQ(operators({"y"}, {attr_int("right_window_size", 0)}).count("Attention"), 1);
  EXPECT_EQ(operators({"y"}, {attr_int("softmax_precision", kFloat16)}).count("Attention"), 1);
  const auto wide = operators({"y"}, {attr_int("softmax_precision", kDouble)});
  for (const auto& names : {operators({"y"}, {attr_float("softcap", 2)}),
                            operators({"y", "", "", "scores"}, {}), wide}) {
    EXPECT_EQ(names.count("Attention"), 0);
    EXPECT_EQ(names.count("MatMul"), 2);
    EXPECT_EQ(names.count("Softmax"), 1);
  }
  EXPECT_EQ(wide.count("Cast"), 2) << "to f64 and back";
}

}  // namespace
}  // namespace vernier::onnx
