// ONNX Attention (opset 23) in terms of the graph's Attention: masks, causality, cached keys, and
// the variants that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_THAT(refusal(attr_float("softcap", 2), {"y"}), ::testing::HasSubstr("it has a softcap"));
  EXPECT_THAT(refusal(attr_int("softmax_precision", 11), {"y"}),
              ::testing::HasSubstr("softmax_precision 11 is wider than FLOAT"));
  EXPECT_THAT(refusal(attr_int("qk_matmul_output_mode", 1), {"y", "", "", "scores"}),
              ::testing::HasSubstr("output 'scores' is not computed by Vernier"));
}

}  // namespace
}  // namespace vernier::onnx
