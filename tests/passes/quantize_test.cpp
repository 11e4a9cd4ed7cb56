// Products of 8-bit numbers: what becomes a QuantizedLinear, with the meaning that it had, and what
// stays.
#include "passes/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

PassOptions always() {
  return {.takes = [](const ir::Graph&, const ir::Node&) { return true; }};
}
int integers(ir::Graph& graph) { return multiply_as_integers(graph, always()); }
// On a device that takes no u8.
int signed_integers(ir::Graph& graph) {
  return multiply_as_integers(graph, {.takes = [](const ir::Graph& of, const ir::Node& node) {
                                return std::ranges::none_of(node.inputs, [&of](ir::ValueId in) {
                                  return in != ir::kNoValue && of.value(in).dtype == DType::kU8;
                                });
                              }});
}
int int8(ir::Graph& graph) {
  PassOptions options = always();
  options.exact_weights = true;
  return quantize_linear(graph, options);
}

constexpr const char* kX = "%x: f32[b, 4]";
const std::string kTaken =
    "%q = QuantizeLinear(%x, f32{0.05}, u8{120}) %d = DequantizeLinear(%q, f32{0.05}, u8{120}) ";
const std::string kWeight = "i8[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}";
const std::string kColumns = "%w = DequantizeLinear(" + kWeight + ", f32[2]{0.5, 2}) {axis=1} ";

struct Spelling {
  const char* name;
  std::string lines;
  const char* gone;  ///< the operator that is left nowhere
  const char* inputs = kX;
};
void PrintTo(const Spelling& row, std::ostream* out) { *out << row.name; }

class IntegerProducts : public ::testing::TestWithParam<Spelling> {};

TEST_P(IntegerProducts, KeepTheirMeaning) {
  expect_no(&integers, GetParam().gone, graph_text(GetParam().inputs, GetParam().lines));
}

TEST_P(IntegerProducts, KeepTheirMeaningAsSignedOnes) {
  expect_no(&signed_integers, GetParam().gone, graph_text(GetParam().inputs, GetParam().lines));
}

const Spelling kSpellings[] = {
    {"scales_by_column", kTaken + kColumns + "%y = Linear(%d, %w)", "Linear"},
    {"one_scale_and_a_zero_point",
     kTaken + "%w = DequantizeLinear(" + kWeight + ", f32{0.5}, i8{3}) %y = Linear(%d, %w)",
     "Linear"},
    {"transposed",
     kTaken + "%w = DequantizeLinear(i8[2, 4]{1, -2, 3, -4, 5, 6, -7, 8}, f32[2]{0.5, 2}) {axis=0} "
              "%t = Transpose(%w) {perm=[1, 0]} %y = Linear(%d, %t)",
     "Linear"},
    {"bias_and_activation", kTaken + kColumns + "%p = Linear(%d, %w, f32[2]{1, -1}) %y = Relu(%p)",
     "Relu"},
    {"under_a_transpose",
     kTaken + "%t = Transpose(%d) {perm=[0, 2, 1]} " + kColumns + "%y = Linear(%t, %w)", "Linear",
     "%x: f32[b, 4, 3]"},
    {"of_integers",
     kTaken + "%i = Cast(%q) {to=i32} %m = MatMul(%i, i32[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}) "
              "%f = Cast(%m) {to=f32} %y = Mul(%f, f32{0.25})",
     "MatMul"},
    {"of_centered_integers_with_a_bias",
     kTaken + "%i = Cast(%q) {to=i32} %z = Sub(%i, i32{120}) "
              "%m = MatMul(%z, i32[4, 2]{200, -2, 3, -4, 5, -250, 7, 0}) %f = Cast(%m) {to=f32} "
              "%s = Mul(f32{0.25}, f32[2]{0.5, 2}) %p = Mul(%f, %s) %y = Add(f32[2]{1, 2}, %p)",
     "MatMul"},
    {"unsigned_weights",
     kTaken + "%w = DequantizeLinear(u8[4, 2]{1, 2, 128, 4, 5, 200, 7, 255}, f32[2]{0.5, 2}, "
              "u8[2]{128, 128}) {axis=1} %y = Linear(%d, %w)",
     "Linear"},
    {"of_integers_with_a_zero_point_found_at_run_time",
     "%m = ReduceMax(%x) {keepdims=false} %z = Cast(%m) {to=u8} "
     "%q = QuantizeLinear(%x, f32{0.05}, %z) %i = Cast(%q) {to=i32} %j = Cast(%z) {to=i32} "
     "%c = Sub(%i, %j) %p = MatMul(%c, i32[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}) "
     "%f = Cast(%p) {to=f32} %y = Mul(%f, f32{0.25})",
     "MatMul"},
    {"of_eight_bit_floats",
     "%q = QuantizeLinear(%x, f32{0.05}) {dtype=f8e4m3} %d = DequantizeLinear(%q, f32{0.05}) "
     "%w = DequantizeLinear(f8e4m3[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}, f32[2]{0.5, 2}) {axis=1} "
     "%y = Linear(%d, %w)",
     "Linear"},
};
INSTANTIATE_TEST_SUITE_P(Spellings, IntegerProducts, ::testing::ValuesIn(kSpellings),
                         [](const auto& row) { return std::string(row.param.name); });

class NoIntegerProducts : public ::testing::TestWithParam<Spelling> {};

TEST_P(NoIntegerProducts, AreMade) {
  const auto graph = graph_of(graph_text(GetParam().inputs, GetParam().lines));
  const auto before = graph->clone();
  integers(*graph);
  graph->remove_dead();
  EXPECT_EQ(count(*graph, "QuantizedLinear"), 0);
  expect_same_results(*before, *graph, 1e-12);
}

const Spelling kNearMisses[] = {
    {"scales_along_the_sums",
     kTaken + "%w = DequantizeLinear(" + kWeight +
         ", f32[4]{0.5, 2, 1, 1}) {axis=0} %y = Linear(%d, %w)",
     ""},
    {"scales_of_x_by_column",
     "%q = QuantizeLinear(%x, f32[4]{1, 2, 1, 1}) {axis=1} "
     "%d = DequantizeLinear(%q, f32[4]{1, 2, 1, 1}) {axis=1} " +
         kColumns + "%y = Linear(%d, %w)",
     ""},
    {"floats_by_integers",
     "%q = QuantizeLinear(%x, f32{0.05}) {dtype=f8e4m3} %d = DequantizeLinear(%q, f32{0.05}) " +
         kColumns + "%y = Linear(%d, %w)",
     ""},
    {"integers_beyond_a_byte",
     kTaken + "%i = Cast(%q) {to=i32} %m = MatMul(%i, i32[4, 2]{200, -2, -100, -4, 5, 6, 7, 8}) "
              "%f = Cast(%m) {to=f32} %y = Mul(%f, f32{0.25})",
     ""},
};
INSTANTIATE_TEST_SUITE_P(NearMisses, NoIntegerProducts, ::testing::ValuesIn(kNearMisses),
                         [](const auto& row) { return std::string(row.param.name); });

// Without rounding the products of int8 mode are those of the model.
TEST(Quantize, KeepsTheMeaningAndSharesRows) {
  const std::string text = graph_text(
      kX,
      "%p = Linear(%x, f32[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}, f32[2]{1, 2}) "
      "%r = Linear(%x, f32[2, 4]{1, -2, 3, 0, 5, 0, -7, 8}) {trans_w=true} %y = Add(%p, %r)");
  const auto graph = graph_of(text);
  const auto before = graph->clone();
  for (ir::NodeId id : graph->order())
    graph->node(id).request = {
        .compute = {DType::kQ8, false}, .accumulate = {}, .store = {}, .by = "mode int8"};
  EXPECT_EQ(int8(*graph), 2);
  graph->sort();
  graph->remove_dead();
  EXPECT_EQ(count(*graph, "Linear"), 0);
  EXPECT_EQ(count(*graph, "QuantizeRows"), 1);
  EXPECT_EQ(count(*graph, "QuantizedLinear"), 2);
  expect_same_results(*before, *graph, 1e-5);  // scales are f32
}

// Two products of one x, asked for int8, whose ONNX nodes are called p and r.
std::shared_ptr<ir::Graph> two_products(
    const std::string& w_of_r = "f32[2, 4]{1, -2, 3, 0, 5, 0, -7, 8}) {trans_w=true}") {
  auto graph = graph_of(graph_text(
      kX, "%p = Linear(%x, f32[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}, f32[2]{1, 2}) %r = Linear(%x, " +
              w_of_r + " %y = Add(%p, %r)"));
  const char* names[] = {"p", "r"};
  size_t next = 0;
  for (ir::NodeId id : graph->order()) {
    ir::Node& node = graph->node(id);
    node.request = {.compute = {DType::kQ8, false}, .accumulate = {}, .store = {}, .by = "int8"};
    if (node.op != OpKind::kLinear) continue;
    const std::string name = names[next++];
    node.origins = {{.key = "#" + name, .name = name, .op_type = "MatMul", .part = ""}};
  }
  return graph;
}

SharedFactors shared(std::vector<float> factors) {
  return std::make_shared<const std::vector<float>>(std::move(factors));
}

struct FactorsCase {
  const char* name;
  ColumnFactors factors;
  int rows;    ///< QuantizeRows
  int scaled;  ///< of them, with factors
};
void PrintTo(const FactorsCase& row, std::ostream* out) { *out << row.name; }

class Factors : public ::testing::TestWithParam<FactorsCase> {};

// Rows are scaled and the weight's are divided, whatever the factors: the products are the same.
TEST_P(Factors, KeepTheMeaning) {
  const auto graph = two_products();
  const auto before = graph->clone();
  PassOptions options = always();
  options.exact_weights = true;
  options.factors = GetParam().factors;
  std::vector<std::string> asked;
  options.quantizes = [&](const ir::Graph&, const ir::Node& product, const Tensor& weight,
                          const std::optional<StaticRange>&) {
    asked.push_back(product_names(product)[0].name);
    EXPECT_EQ(weight.elems(), 8);
  };
  EXPECT_EQ(quantize_linear(*graph, options), 2);
  EXPECT_THAT(asked, ::testing::ElementsAre("p", "r"));
  graph->sort();
  graph->remove_dead();
  EXPECT_EQ(count(*graph, "QuantizeRows"), GetParam().rows);
  int scaled = 0;
  for (ir::NodeId id : graph->order())
    scaled += graph->node(id).op == OpKind::kQuantizeRows && graph->node(id).has_input(1);
  EXPECT_EQ(scaled, GetParam().scaled);
  expect_same_results(*before, *graph, 1e-5);  // scales are f32
}

const FactorsCase kFactors[] = {
    {"of_both", {{"p", shared({1, 0.5, 4, 1})}, {"r", shared({1, 0.5, 4, 1})}}, 1, 1},
    {"by_key", {{"#p", shared({1, 0.5, 4, 1})}, {"#r", shared({1, 0.5, 4, 1})}}, 1, 1},
    {"that_differ", {{"p", shared({1, 0.5, 4, 1})}, {"r", shared({1, 1, 1, 2})}}, 2, 2},
    {"of_one", {{"r", shared({1, 0.5, 4, 1})}}, 2, 1},
    {"of_one_alone", {{"p", shared({1, 1, 1, 1})}, {"r", shared({1, 1, 1, 1})}}, 1, 0},
    {"of_another_count", {{"p", shared({2, 2})}, {"r", shared({2, 2})}}, 1, 0},
    {"of_others", {{"q", shared({2, 2, 2, 2})}}, 1, 0},
};
INSTANTIATE_TEST_SUITE_P(Cases, Factors, ::testing::ValuesIn(kFactors),
                         [](const auto& row) { return std::string(row.param.name); });

// Weights that were whole numbers of scales get these scales and these numbers again, to the bit;
// 127·s / 127 is not always s.
TEST(QuantizedWeight, KeepsScalesInWhoseUnitsItIsWhole) {
  constexpr int64_t kLong = 8, kWide = 200;
  std::vector<float> scales, values(kLong * kWide);
  std::vector<int8_t> whole(values.size());
  for (int64_t c = 0; c < kWide; ++c)
    scales.push_back(0.01F * (1 + std::sin(static_cast<float>(c)) / 2));
  for (int64_t i = 0; i < kLong * kWide; ++i) {
    const auto at = static_cast<size_t>(i);
    // Column 0 has only 0 and ±127: its scale cannot be found in the numbers.
    whole[at] = static_cast<int8_t>(i % kWide == 0 ? 127 * (i % 3 - 1) : i * i % 255 - 127);
    values[at] = static_cast<float>(whole[at]) * scales[at % kWide];
  }
  const Tensor w =
      Tensor::from_bytes(DType::kF32, {kLong, kWide}, std::as_bytes(std::span(values)));
  const QuantizedWeight made = quantized_weight(w, {.scales = scales});
  EXPECT_EQ(std::memcmp(made.scales.data(), scales.data(), made.scales.bytes()), 0);
  EXPECT_EQ(std::memcmp(made.values.data(), whole.data(), made.values.bytes()), 0);
  // A column that is not whole in these units gets a scale of its own.
  std::vector<float> others = scales;
  others[7] *= 1.3F;
  const QuantizedWeight found = quantized_weight(w, {.scales = others});
  EXPECT_NE(found.scales.float_at(7), others[7]);
  EXPECT_EQ(found.scales.float_at(8), others[8]);
}

// The scales of a product that is made of two are those of both, side by side.
TEST(WeightScales, AreThoseOfAllNodes) {
  const auto graph = two_products();
  ir::Node product = graph->node(graph->order()[0]);
  product.origins = {{.key = "#p", .name = "p", .op_type = "MatMul", .part = ""},
                     {.key = "#b", .name = "b", .op_type = "Add", .part = ""},
                     {.key = "#r", .name = "r", .op_type = "MatMul", .part = ""}};
  EXPECT_THAT(weight_scales_of(product, {{"#r", shared({3})}, {"#p", shared({1, 2})}}),
              ::testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(weight_scales_of(product, {{"#r", shared({3})}}), ::testing::IsEmpty());
}

TEST(StaticScale, IsThatOfItsRange) {
  for (const float zero : {-127.0F, -3.0F, 0.0F, 88.0F, 127.0F}) {
    for (const float scale : {0.1F, 3e-7F, 1.2345678F, 1e20F}) {
      const StaticScale made = static_scale(range_of(StaticScale{scale, zero}));
      EXPECT_EQ(made.scale, scale);
      EXPECT_EQ(made.zero, zero);
    }
  }
}

struct RangesCase {
  const char* name;
  StaticRanges ranges;
  int rows;   ///< QuantizeRows
  int fixed;  ///< of them, with a scale for all rows
};
void PrintTo(const RangesCase& row, std::ostream* out) { *out << row.name; }

class Ranges : public ::testing::TestWithParam<RangesCase> {};

TEST_P(Ranges, KeepTheMeaning) {
  const auto graph = two_products();
  const auto before = graph->clone();
  PassOptions options = always();
  options.exact_weights = true;
  options.factors = {{"p", shared({1, 0.5, 4, 1})}, {"r", shared({1, 0.5, 4, 1})}};
  options.ranges = GetParam().ranges;
  EXPECT_EQ(quantize_linear(*graph, options), 2);
  graph->sort();
  graph->remove_dead();
  EXPECT_EQ(count(*graph, "QuantizeRows"), GetParam().rows);
  int fixed = 0;
  for (ir::NodeId id : graph->order()) {
    const ir::Node& node = graph->node(id);
    if (node.op != OpKind::kQuantizeRows || !node.has_input(2)) continue;
    ++fixed;
    EXPECT_EQ(node.outputs.size(), 1U);
    EXPECT_TRUE(node.has_input(1)) << "factors";
  }
  EXPECT_EQ(fixed, GetParam().fixed);
  expect_same_results(*before, *graph, 1e-5);  // scales are f32
}

const RangesCase kRanges[] = {
    {"of_both", {{"p", {-1, 3}}, {"r", {-1, 3}}}, 1, 1},
    {"by_key", {{"#p", {-1, 3}}, {"#r", {-1, 3}}}, 1, 1},
    {"that_differ", {{"p", {-1, 3}}, {"r", {-2, 3}}}, 2, 2},
    {"of_one", {{"r", {-1, 3}}}, 2, 1},
    {"of_others", {{"q", {-1, 3}}}, 1, 0},
};
INSTANTIATE_TEST_SUITE_P(Cases, Ranges, ::testing::ValuesIn(kRanges),
                         [](const auto& row) { return std::string(row.param.name); });

// One product of two ONNX nodes takes a range that both of them have.
TEST(Quantize, TakesNoRangeThatItsNodesDoNotShare) {
  const auto graph = two_products();
  ir::Node& product = *graph->producer(graph->node(graph->order().back()).inputs[0]);
  product.origins.push_back({.key = "#s", .name = "s", .op_type = "MatMul", .part = ""});
  EXPECT_EQ(range_of(product, {{"p", {-1, 3}}, {"s", {-1, 3}}}), (StaticRange{-1, 3}));
  EXPECT_EQ(range_of(product, {{"p", {-1, 3}}, {"s", {-1, 2}}}), std::nullopt);
  EXPECT_EQ(range_of(product, {{"p", {-1, 3}}}), std::nullopt);
}

TEST(Quantize, StaticZeroPointsAreWholeNumbers) {
  const StaticScale even = static_scale({-127, 127});
  EXPECT_EQ(even.scale, 1);
  EXPECT_EQ(even.zero, 0);
  const StaticScale positive = static_scale({0, 508});
  EXPECT_EQ(positive.scale, 2);
  EXPECT_EQ(positive.zero, -127) << "0 is -127";
  const StaticScale uneven = static_scale({-100, 154.5});
  EXPECT_FLOAT_EQ(uneven.scale, 254.5F / 254);
  EXPECT_EQ(uneven.zero, -27) << "of -27.2";
}

// A weight that its factors make infinite stays a product in 16 bits.
TEST(Quantize, LeavesWeightsThatFactorsCarryBeyondTheirType) {
  const auto graph = two_products("f32[4, 2]{1, -2, 3, 0, 5, 0, -7, 3e38})");
  PassOptions options = always();
  options.factors = {{"p", shared({1, 1, 1, 0.5})}, {"r", shared({1, 1, 1, 0.5})}};
  EXPECT_EQ(quantize_linear(*graph, options), 1);
}

// Each number is the nearest of f8e4m3 in units of its column's scale, of which nothing saturates.
TEST(Quantize, RoundsAWeightToF8) {
  constexpr int64_t kLong = 61, kWide = 5;
  std::vector<double> numbers;
  constexpr double kSizes[kWide] = {0.01, 0.1, 1, 10, 0};
  for (int64_t i = 0; i < kLong * kWide; ++i)
    numbers.push_back(kSizes[i % kWide] * std::sin(1.7 * static_cast<double>(i * i)));
  const Tensor w = Tensor::from(DType::kF32, {kLong, kWide}, std::span<const double>(numbers));
  for (const bool exact : {false, true}) {
    const QuantizedWeight made = quantized_weight(w, {.type = DType::kF8E4M3, .exact = exact});
    EXPECT_EQ(made.values.dtype(), exact ? DType::kF32 : DType::kF8E4M3);
    std::vector<double> largest(kWide, 0);
    for (int64_t i = 0; i < kLong * kWide; ++i) {
      const double want = w.float_at(i) / made.scales.float_at(i % kWide);
      EXPECT_NEAR(made.values.float_at(i), exact ? want : round_to(DType::kF8E4M3, want),
                  1e-5 * std::abs(want))
          << i;
      largest[i % kWide] = std::max(largest[i % kWide], std::abs(want));
    }
    for (int64_t c = 0; c < kWide - 1; ++c) {
      EXPECT_LE(largest[c], 448 * (1 + 1e-6)) << c;
      EXPECT_GT(largest[c], 448 / 2) << c;
    }
    EXPECT_EQ(made.scales.float_at(4), 1);
  }
}

TEST(Quantize, MakesProductsOfF8) {
  const auto graph = two_products();
  for (const ir::NodeId id : graph->order()) {
    if (graph->node(id).op == OpKind::kLinear)
      graph->node(id).request.compute = {DType::kF8E4M3, false};
  }
  const auto before = graph->clone();
  EXPECT_EQ(int8(*graph), 2);
  graph->sort();
  graph->remove_dead();
  EXPECT_EQ(count(*graph, "QuantizeRows"), 1);
  for (const ir::NodeId id : graph->order()) {
    const ir::Node& node = graph->node(id);
    if (node.op == OpKind::kQuantizeRows) {
      EXPECT_EQ(graph->value(node.outputs[0]).dtype, DType::kF8E4M3);
    }
    if (node.op == OpKind::kQuantizedLinear) {
      EXPECT_FALSE(node.has_input(4));
    }
  }
  expect_same_results(*before, *graph, 1e-5);  // scales are f32
}

// A norm's result, and what lies between two products with an activation that the norm in front of
// them bounds: one scale for all rows, of which nothing saturates; int8 keeps the scale of each
// row.
TEST(Quantize, BoundsOperandsOfF8) {
  for (const DType type : {DType::kF8E4M3, DType::kQ8}) {
    const auto graph = graph_of(
        graph_text(kX,
                   "%n = LayerNorm(%x, f32[4]{1, 2, 1, 0.5}, f32[4]{0, 0, 1, 0}) {axis=-1} "
                   "%h = Linear(%n, f32[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}) {activation=1} "
                   "%y = Linear(%h, f32[2, 2]{1, 2, 3, 4})"));
    for (const ir::NodeId id : graph->order()) {
      if (graph->node(id).op == OpKind::kLinear) graph->node(id).request.compute = {type, false};
    }
    const auto before = graph->clone();
    EXPECT_EQ(int8(*graph), 2);
    graph->sort();
    graph->remove_dead();
    std::vector<bool> given;
    for (const ir::NodeId id : graph->order()) {
      const ir::Node& node = graph->node(id);
      if (node.op == OpKind::kQuantizeRows) given.push_back(node.has_input(2));
    }
    const bool is_f8 = type == DType::kF8E4M3;
    EXPECT_THAT(given, ::testing::ElementsAre(is_f8, is_f8));
    expect_same_results(*before, *graph, 1e-5);
  }
}

// The scale of the rows of a norm's result, of f8e4m3; 0: each row has its own.
float scale_of_norm(const std::string& parameters) {
  const auto graph =
      graph_of(graph_text(kX, "%n = LayerNorm(%x, " + parameters +
                                  ") {axis=-1} %y = Linear(%n, f32[4, 1]{1, 2, 3, 4})"));
  for (const ir::NodeId id : graph->order()) {
    if (graph->node(id).op == OpKind::kLinear)
      graph->node(id).request.compute = {DType::kF8E4M3, false};
  }
  int8(*graph);
  for (const ir::NodeId id : graph->order()) {
    const ir::Node& node = graph->node(id);
    if (node.op == OpKind::kQuantizeRows && node.has_input(2))
      return static_cast<float>(graph->value(node.inputs[2]).constant.float_at(0));
  }
  return 0;
}

// The largest of √K·|γ| + |β|, and 1/64 for the rounding of the norm's result. A channel that is
// far larger than half of the others would leave these to subnormal numbers: there rows keep their
// scales.
TEST(Quantize, BoundsNormsOfF8) {
  constexpr float kRounded = 65.0F / 64;
  EXPECT_FLOAT_EQ(scale_of_norm("f32[4]{1, -2, 1, 0.5}, f32[4]{0, -0.5, 1, 0}"),
                  4.5F * kRounded / 448);
  EXPECT_FLOAT_EQ(scale_of_norm("f32[4]{1, 2, 1, 800}, f32[4]{0, 0, 1, 0}"), 1600 * kRounded / 448);
  EXPECT_EQ(scale_of_norm("f32[4]{1, 2, 1, 2000}, f32[4]{0, 0, 1, 0}"), 0);
  EXPECT_EQ(scale_of_norm("f32[4]{0, 0, 0, 0}, f32[4]{0, 0, 0, 0}"), 0) << "nothing to scale";
  EXPECT_EQ(scale_of_norm("f32[4]{1, nan, 1, 1}, f32[4]{0, 0, 0, 0}"), 0);
}

TEST(Quantize, RoundsAWeightDividedByItsFactors) {
  const Tensor w = Tensor::from(DType::kF32, {2, 2}, std::vector<double>{127, 2, 12.7, 254});
  const std::vector<float> factors{0.5, 2};
  const QuantizedWeight made = quantized_weight(w, {.factors = factors});
  EXPECT_EQ(made.scales.float_at(0), 2);
  EXPECT_EQ(made.values.float_at(0), 127) << "127 / 0.5 in units of 2";
  EXPECT_EQ(made.values.float_at(2), 3) << "12.7 / 2 in units of 2";
  const QuantizedWeight turned = quantized_weight(w, {.trans_w = true, .factors = factors});
  EXPECT_EQ(turned.values.float_at(0), 127) << "row 0 is a column: 127 / 0.5 and 2 / 2";
  EXPECT_EQ(turned.values.float_at(1), 0);
}

}  // namespace
}  // namespace vernier::passes::testing
