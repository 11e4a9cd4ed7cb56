// Products whose weight alone is quantized: what becomes a WeightOnlyLinear, with which scales, and
// what stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/attrs.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"
#include "passes/quantize.h"

namespace vernier::passes::testing {
namespace {

PassOptions always() {
  return {.takes = [](const ir::Graph&, const ir::Node&) { return true; }};
}
int as_they_are(ir::Graph& graph) { return quantize_weights(graph, always()); }

constexpr const char* kX = "%x: f32[b, 4]";

// Every node is asked for this type.
std::shared_ptr<ir::Graph> asked(const std::string& text, DType type) {
  auto graph = graph_of(text);
  for (ir::NodeId id : graph->order())
    graph->node(id).request = {
        .compute = {type, false}, .accumulate = {}, .store = {}, .by = "mode w8"};
  return graph;
}

const ir::Node& product_of(const ir::Graph& graph) {
  for (ir::NodeId id : graph.order())
    if (graph.node(id).op == OpKind::kWeightOnlyLinear) return graph.node(id);
  throw std::runtime_error("the graph has no WeightOnlyLinear");
}

const Tensor& constant_in(const ir::Graph& graph, size_t input) {
  return graph.value(product_of(graph).inputs[input]).constant;
}

// Without rounding the products are those of the model.
TEST(WeightOnly, KeepsTheMeaning) {
  const std::string text = graph_text(
      kX,
      "%p = Linear(%x, f32[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}, f32[2]{1, 2}) {activation=3} "
      "%r = Linear(%x, f32[2, 4]{1, -2, 3, 0, 5, 0, -7, 8}, f32[2]{0, 1}, %p) {trans_w=true} "
      "%y = Add(%p, %r)");
  for (const DType type : {DType::kW8, DType::kW4}) {
    const auto graph = asked(text, type);
    const auto before = graph->clone();
    PassOptions options = always();
    options.exact_weights = true;
    quantize_weights(*graph, options);
    graph->sort();
    graph->remove_dead();
    EXPECT_EQ(count(*graph, "Linear"), 0) << name(type);
    EXPECT_EQ(count(*graph, "WeightOnlyLinear"), 2) << name(type);
    expect_same_results(*before, *graph, 1e-5);  // scales are f32
  }
}

TEST(WeightOnly, OfEightBitsHasAScaleForEachColumn) {
  const auto graph =
      asked(graph_text(kX, "%y = Linear(%x, f32[4, 2]{1, -2, 3, -4, 5, 6, -127, 8})"), DType::kW8);
  quantize_weights(*graph, always());
  EXPECT_EQ(constant_in(*graph, 1).dtype(), DType::kQ8);
  EXPECT_EQ(constant_in(*graph, 2).shape(), (Shape{2}));
  EXPECT_EQ(constant_in(*graph, 1).float_at(6), -127);
  EXPECT_EQ(product_of(*graph).attrs_as<WeightOnlyLinearAttrs>().bits, 8);
}

TEST(WeightOnly, OfFourBitsHasAScaleForEachColumnAnd32Rows) {
  // 40 rows of 2 columns, the rows from 32 on a hundred times as large.
  std::string numbers;
  std::vector<double> values;
  for (int i = 0; i < 80; ++i) {
    values.push_back((i * 37 % 29 - 14) * (i < 64 ? 0.01 : 1));
    numbers += (i == 0 ? "" : ", ") + std::to_string(values.back());
  }
  const auto graph = asked(
      graph_text("%x: f32[b, 40]", "%y = Linear(%x, f32[40, 2]{" + numbers + "})"), DType::kW4);
  quantize_weights(*graph, always());
  const Tensor &q = constant_in(*graph, 1), &scales = constant_in(*graph, 2);
  EXPECT_EQ(q.dtype(), DType::kQ4);
  ASSERT_EQ(scales.shape(), (Shape{2, 2}));
  for (int64_t i = 0; i < q.elems(); ++i) {
    const double scale = scales.float_at(i / 64 * 2 + i % 2);
    const double want = std::clamp(values[static_cast<size_t>(i)] / scale, -7.0, 7.0);
    EXPECT_LE(std::abs(q.float_at(i) - want), 0.5 + 1e-5) << i;
  }
  EXPECT_GT(scales.float_at(2), 50 * scales.float_at(0));
}

struct Kept {
  const char* name;
  std::string lines;
  DType asked = DType::kW4;
  const char* inputs = kX;
};
void PrintTo(const Kept& row, std::ostream* out) { *out << row.name; }

class NoWeightOnly : public ::testing::TestWithParam<Kept> {};
TEST_P(NoWeightOnly, IsMade) {
  const auto graph = asked(graph_text(GetParam().inputs, GetParam().lines), GetParam().asked);
  EXPECT_EQ(quantize_weights(*graph, always()), 0);
  EXPECT_EQ(count(*graph, "WeightOnlyLinear"), 0);
}
const Kept kKept[] = {
    {"asked_for_bf16", "%y = Linear(%x, f32[4, 1]{1, 2, 3, 4})", DType::kBF16},
    {"asked_for_int8", "%y = Linear(%x, f32[4, 1]{1, 2, 3, 4})", DType::kQ8},
    {"not_finite", "%y = Linear(%x, f32[4, 1]{1, 2, inf, 4})"},
    {"nan", "%y = Linear(%x, f32[4, 1]{1, 2, nan, 4})", DType::kW8},
    {"a_weight_of_data", "%y = Linear(%x, %w)", DType::kW8, "%x: f32[b, 4], %w: f32[4, 2]"},
    {"another_operator", "%y = MatMul(%x, f32[4, 1]{1, 2, 3, 4})"},
};
INSTANTIATE_TEST_SUITE_P(NearMisses, NoWeightOnly, ::testing::ValuesIn(kKept),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(WeightOnly, IsAskedOfTheDevice) {
  const auto graph = asked(graph_text(kX, "%y = Linear(%x, f32[4, 1]{1, 2, 3, 4})"), DType::kW8);
  EXPECT_EQ(
      quantize_weights(*graph, {.takes = [](const ir::Graph&, const ir::Node&) { return false; }}),
      0);
  EXPECT_EQ(count(*graph, "Linear"), 1);
}

// ---- weights that the model holds in 4 bits

const std::string kWeight = "i8[4, 2]{1, -2, 3, -4, 5, 6, -7, -8}";

class HeldIn4Bits : public ::testing::TestWithParam<Kept> {};
TEST_P(HeldIn4Bits, IsTakenAsItIs) {
  const std::string text = graph_text(GetParam().inputs, GetParam().lines);
  expect_no(&as_they_are, "DequantizeLinear", text);
  const auto graph = graph_of(text);
  as_they_are(*graph);
  EXPECT_EQ(count(*graph, "WeightOnlyLinear"), 1);
  EXPECT_EQ(product_of(*graph).attrs_as<WeightOnlyLinearAttrs>().bits, 4);
}
const Kept kHeld[] = {
    {"one_scale", "%w = DequantizeLinear(" + kWeight + ", f32{0.5}) %y = Linear(%x, %w)"},
    {"columns_and_zero_points",
     "%w = DequantizeLinear(" + kWeight +
         ", f32[2]{0.5, 2}, i8[2]{3, -1}) {axis=1} %y = Linear(%x, %w, f32[2]{1, 2})"},
    {"blocks", "%w = DequantizeLinear(" + kWeight +
                   ", f32[2, 2]{0.5, 2, 3, 4}) {axis=0, block_size=2} %y = Linear(%x, %w)"},
    {"unsigned_blocks_of_a_transposed_weight",
     "%w = DequantizeLinear(u8[2, 4]{1, 2, 3, 4, 5, 6, 15, 0}, f32[2, 2]{0.5, 2, 3, 4}, "
     "u8[2, 2]{8, 7, 6, 5}) {axis=1, block_size=2} %y = Linear(%x, %w) {trans_w=true}"},
    {"behind_a_transpose",
     "%w = DequantizeLinear(u8[2, 4]{1, 2, 3, 4, 5, 6, 15, 0}, f32[2, 2]{0.5, 2, 3, 4}) "
     "{axis=1, block_size=2} %t = Transpose(%w) {perm=[1, 0]} %y = Linear(%x, %t)"},
    {"columns_behind_a_transpose",
     "%w = DequantizeLinear(i8[2, 4]{1, 2, 3, 4, 5, 6, 7, 0}, f32[2]{0.5, 2}) {axis=0} "
     "%t = Transpose(%w) {perm=[1, 0]} %y = Linear(%x, %t)"},
};
INSTANTIATE_TEST_SUITE_P(Spellings, HeldIn4Bits, ::testing::ValuesIn(kHeld),
                         [](const auto& row) { return std::string(row.param.name); });

class NotHeldIn4Bits : public ::testing::TestWithParam<Kept> {};
TEST_P(NotHeldIn4Bits, BecomesAConstant) {
  const std::string text = graph_text(GetParam().inputs, GetParam().lines);
  const auto graph = graph_of(text);
  const auto before = graph->clone();
  as_they_are(*graph);
  graph->remove_dead();
  EXPECT_EQ(count(*graph, "WeightOnlyLinear"), 0);
  expect_same_results(*before, *graph, 1e-12);
}
const Kept kNotHeld[] = {
    {"numbers_of_8_bits",
     "%w = DequantizeLinear(i8[4, 2]{1, -2, 3, -4, 5, 6, -7, 8}, f32{0.5}) %y = Linear(%x, %w)"},
    {"a_zero_point_of_8_bits",
     "%w = DequantizeLinear(" + kWeight + ", f32{0.5}, i8{9}) %y = Linear(%x, %w)"},
    {"scales_along_the_sums",
     "%w = DequantizeLinear(" + kWeight + ", f32[4]{0.5, 2, 1, 1}) {axis=0} %y = Linear(%x, %w)"},
    {"blocks_of_columns",
     "%w = DequantizeLinear(" + kWeight +
         ", f32[4, 1]{0.5, 2, 1, 1}) {axis=1, block_size=2} %y = Linear(%x, %w)"},
    {"both_operands",
     "%q = QuantizeLinear(%x, f32{0.05}, u8{120}) %d = DequantizeLinear(%q, f32{0.05}, u8{120}) "
     "%w = DequantizeLinear(" +
         kWeight + ", f32{0.5}) %y = Linear(%d, %w)"},
};
INSTANTIATE_TEST_SUITE_P(NearMisses, NotHeldIn4Bits, ::testing::ValuesIn(kNotHeld),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(HeldWeights, StayBehindForTheProductWhereTheDeviceTakesIt) {
  const std::string text =
      graph_text(kX, "%w = DequantizeLinear(" + kWeight + ", f32{0.5}) %y = Linear(%x, %w)");
  const auto graph = graph_of(text);
  EXPECT_EQ(held_weights(*graph, always()).size(), 1u);
  EXPECT_EQ(fold_weights(*graph, always()), 0);
  graph->typed = true;  // before, quantized weights stay as the model has them
  PassOptions off = always();
  off.off = {"weight_only"};
  EXPECT_TRUE(held_weights(*graph, off).empty());
  EXPECT_TRUE(held_weights(*graph, {}).empty());
  EXPECT_EQ(fold_weights(*graph, off), 1);
}

}  // namespace
}  // namespace vernier::passes::testing
