// BatchNormalization folded into the convolution before it: values, conditions, precision, books.
#include <gtest/gtest.h>

#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

constexpr const char* kInputs = "%x: f32[b, 2, n], %v: f32[3], %u: f32[3, 2, 1]";

// A convolution to three channels, and a normalization of them whose factors a are 2, −0.5 and 1.
constexpr const char* kConv =
    "%c = Conv(%x, f32[3, 2, 1]{1, 2, 3, 4, 5, 6}, f32[3]{1, 2, 3}) {pads=[1, 0]} ";
constexpr const char* kNorm =
    "%y = BatchNormalization(%c, f32[3]{4, -1, 1.5}, f32[3]{1, 2, 3}, f32[3]{0.5, 4, 3}, "
    "f32[3]{3.75, 3.75, 2}) {epsilon=0.25}";

std::string text(const std::string& conv, const std::string& norm) {
  return graph_text(kInputs, conv + norm);
}

TEST(ConvBatchNorm, ScalesEveryOutputChannel) {
  expect_rewrite({&fuse_conv_batch_norm, text(kConv, kNorm),
                  graph_text(kInputs,
                             "%y = Conv(%x, f32[3, 2, 1]{2, 4, -1.5, -2, 5, 6}, f32[3]{2, 3, 3}) "
                             "{pads=[1, 0]}")});
}

TEST(ConvBatchNorm, MakesABiasWhereThereIsNone) {
  expect_rewrite(
      {&fuse_conv_batch_norm, text("%c = Conv(%x, f32[3, 2, 1]{1, 2, 3, 4, 5, 6}) ", kNorm),
       graph_text(kInputs, "%y = Conv(%x, f32[3, 2, 1]{2, 4, -1.5, -2, 5, 6}, f32[3]{0, 4, 0})")});
}

TEST(ConvBatchNorm, KeepsGroupsStridesAndDilations) {
  const char* inputs = "%x: f32[b, 2, 7, 6]";
  const char* attrs = "{strides=[2, 1], dilations=[1, 2], pads=[1, 0, 0, 1], group=2}";
  expect_rewrite(
      {&fuse_conv_batch_norm,
       graph_text(inputs,
                  "%c = Conv(%x, f32[2, 1, 1, 2]{1, 2, 3, 4}) " + std::string(attrs) +
                      " %y = BatchNormalization(%c, f32[2]{3, 4}, f32[2]{1, 0}, f32[2]{0, 2}, "
                      "f32[2]{1, 4}) {epsilon=0}"),
       graph_text(inputs, "%y = Conv(%x, f32[2, 1, 1, 2]{3, 6, 6, 8}, f32[2]{1, -4}) " +
                              std::string(attrs))});
}

TEST(ConvBatchNorm, RoundsOnce) {
  // a = 1/3: 5·a is 1.6666666 in f32, but 1.6666667 where a is rounded to f32 first. Half an ulp of
  // weight and bias, 2⁻²⁵ of each, is all that the result may differ by.
  expect_rewrite({.pass = &fuse_conv_batch_norm,
                  .before = graph_text("%x: f32[b, 1, n]",
                                       "%c = Conv(%x, f32[1, 1, 1]{5}, f32[1]{5}) "
                                       "%y = BatchNormalization(%c, f32[1]{1}, f32[1]{0}, "
                                       "f32[1]{0}, f32[1]{9}) {epsilon=0}"),
                  .after = graph_text("%x: f32[b, 1, n]",
                                      "%y = Conv(%x, f32[1, 1, 1]{1.6666666}, f32[1]{1.6666666})"),
                  .tolerance = 3 * 0x1p-25});
}

struct NearMiss {
  const char* name;
  std::string before;
};
void PrintTo(const NearMiss& row, std::ostream* out) { *out << row.name; }

class ConvBatchNormStays : public ::testing::TestWithParam<NearMiss> {};

TEST_P(ConvBatchNormStays, AsItIs) {
  expect_rewrite({&fuse_conv_batch_norm, GetParam().before, GetParam().before});
}

std::string norm_of(const std::string& scale, const std::string& bias, const std::string& mean,
                    const std::string& var) {
  return "%y = BatchNormalization(%c, " + scale + ", " + bias + ", " + mean + ", " + var + ")";
}
std::string three(const std::string& value) { return "f32[3] fill(" + value + ")"; }

const NearMiss kNearMisses[] = {
    {"weights_of_an_input", text("%c = Conv(%x, %u) ", kNorm)},
    {"bias_of_an_input", text("%c = Conv(%x, f32[3, 2, 1]{1, 2, 3, 4, 5, 6}, %v) ", kNorm)},
    {"scale_of_an_input", text(kConv, norm_of("%v", three("1"), three("1"), three("1")))},
    {"norm_bias_of_an_input", text(kConv, norm_of(three("1"), "%v", three("1"), three("1")))},
    {"mean_of_an_input", text(kConv, norm_of(three("1"), three("1"), "%v", three("1")))},
    {"variance_of_an_input",
     graph_text(kInputs, std::string(kConv) + "%w = Abs(%v) " +
                             norm_of(three("1"), three("1"), three("1"), "%w"))},
    {"convolution_used_twice",
     graph_text(kInputs, std::string(kConv) +
                             "%z = BatchNormalization(%c, f32[3] fill(4), f32[3] fill(1), f32[3] "
                             "fill(0), f32[3] fill(3)) %y = Add(%z, %c)")},
    {"convolution_is_an_output", "graph g(" + std::string(kInputs) + ") {\n" + kConv + kNorm +
                                     "\nreturn %y as \"y\", %c as \"c\" }"},
    {"another_operator_before",
     graph_text(kInputs, std::string(kConv) +
                             "%r = Relu(%c) %y = BatchNormalization(%r, f32[3] fill(4), f32[3] "
                             "fill(1), f32[3] fill(0), f32[3] fill(3))")},
    // f32 weights would take away half of the digits, f16 weights would not hold the product.
    {"f64", graph_text("%x: f64[b, 1, n]",
                       "%c = Conv(%x, f64[1, 1, 1]{3}) %y = BatchNormalization(%c, f64[1]{4}, "
                       "f64[1]{1}, f64[1]{0}, f64[1]{3})")},
    {"f16", graph_text("%x: f16[b, 1, n]",
                       "%c = Conv(%x, f16[1, 1, 1]{3}) %y = BatchNormalization(%c, f16[1]{4}, "
                       "f16[1]{1}, f16[1]{0}, f16[1]{3})")},
    {"weights_beyond_f32",
     text(kConv, norm_of(three("1e38"), three("1"), three("0"), three("0.5")))},
    {"variance_below_zero",
     text(kConv,
          "%z = BatchNormalization(%c, f32[3] fill(1), f32[3] fill(1), f32[3] fill(0), "
          "f32[3]{1, -2, 1}) %n = IsNaN(%z) %y = Where(%n, %c, %z)")},
    // 1 + 33 − (33 of the mean) leaves 1: the weights' rounding would count 33 times.
    {"shift_that_cancels",
     graph_text("%x: f32[b, 1, n]",
                "%c = Conv(%x, f32[1, 1, 1]{1}, f32[1]{0}) %y = BatchNormalization(%c, f32[1]{1}, "
                "f32[1]{1}, f32[1]{33}, f32[1]{1}) {epsilon=0}")},
};

INSTANTIATE_TEST_SUITE_P(Rows, ConvBatchNormStays, ::testing::ValuesIn(kNearMisses),
                         [](const auto& row) { return row.param.name; });

TEST(ConvBatchNorm, AShiftAtTheLimitIsFolded) {
  // 32 = 16 · (|scale| + |bias|)
  expect_rewrite(
      {&fuse_conv_batch_norm,
       graph_text("%x: f32[b, 1, n]",
                  "%c = Conv(%x, f32[1, 1, 1]{1}, f32[1]{0}) %y = BatchNormalization(%c, "
                  "f32[1]{1}, f32[1]{1}, f32[1]{32}, f32[1]{1}) {epsilon=0}"),
       graph_text("%x: f32[b, 1, n]", "%y = Conv(%x, f32[1, 1, 1]{1}, f32[1]{-31})")});
}

// ---- precision and books

// The graph of kConv and kNorm with what is asked of each.
std::shared_ptr<ir::Graph> asked(const Request& conv, const Request& norm) {
  auto graph = graph_of(graph_text(kInputs, std::string(kConv) + "from \"#3|/conv|Conv|\" " +
                                                kNorm + "from \"#8|/norm|BatchNormalization|\""));
  graph->node(graph->order()[0]).request = conv;
  graph->node(graph->order()[1]).request = norm;
  fuse_conv_batch_norm(*graph);
  graph->remove_dead();
  return graph;
}
Request compute(DType type, bool exact, const std::string& by) {
  return {.compute = {type, exact}, .accumulate = {}, .store = {}, .by = by};
}

TEST(ConvBatchNorm, CarriesTheStrongerRequestAndBothOrigins) {
  const auto graph =
      asked(compute(DType::kF16, false, "mode fp16"), {.compute = {DType::kF32, false},
                                                       .accumulate = {},
                                                       .store = {DType::kF32, false},
                                                       .by = "rule 2"});
  ASSERT_EQ(graph->order().size(), 1u);
  const ir::Node& conv = graph->node(graph->order()[0]);
  EXPECT_EQ(conv.op, OpKind::kConv);
  EXPECT_EQ(conv.request.compute.type, DType::kF16);  // of the product
  EXPECT_EQ(conv.request.inner.type, DType::kF32);    // of what was the norm
  EXPECT_EQ(conv.request.store.type, DType::kF32);
  EXPECT_EQ(conv.request.by, "rule 2");
  ASSERT_EQ(conv.origins.size(), 2u);
  EXPECT_EQ(conv.origins[0].key, "#3");
  EXPECT_EQ(conv.origins[1].key, "#8");
}

TEST(ConvBatchNorm, LeavesRequestsApartThatF32WeightsDoNotSatisfy) {
  const Request f32 = compute(DType::kF32, false, "mode fp32");
  for (const Request& other :
       {compute(DType::kF64, false, "rule 1"), compute(DType::kBF16, true, "rule 1")}) {
    EXPECT_EQ(asked(f32, other)->order().size(), 2u);
    EXPECT_EQ(asked(other, f32)->order().size(), 2u);
  }
}

}  // namespace
}  // namespace vernier::passes::testing
