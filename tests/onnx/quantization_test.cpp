// Quantized products, losses and MeanVarianceNormalization, which import writes in other operators,
// against their meaning; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/meaning.h"
#include "ops/evaluate.h"

namespace vernier::onnx {
namespace {

class QuantizedMeaning : public ::testing::TestWithParam<MeaningCase> {};
TEST_P(QuantizedMeaning, IsThatOfThePlainOperators) { expect_same_meaning(GetParam()); }
class QuantizedRefused : public ::testing::TestWithParam<RefusedCase> {};
TEST_P(QuantizedRefused, WithTheReason) { expect_refused(GetParam()); }

constexpr int32_t kInt8 = 3;

proto::TensorProto u8_tensor(const std::string& name, const std::vector<int64_t>& dims,
                             const std::vector<int32_t>& values, int32_t type = kUint8) {
  proto::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  tensor.mutable_dims()->Assign(dims.begin(), dims.end());
  tensor.mutable_int32_data()->Assign(values.begin(), values.end());
  return tensor;
}
proto::TensorProto i8_tensor(const std::string& name, const std::vector<int64_t>& dims,
                             const std::vector<int32_t>& values) {
  return u8_tensor(name, dims, values, kInt8);
}

void cast(ModelBuilder& m, const std::string& from, const std::string& to, int32_t type) {
  m.node("Cast", {from}, {to}, {attr_int("to", type)});
}

// a [2, 3] u8 and b [3, 2] i8 of the integers behind the inputs, with zero points per row and
// column.
void matrices(ModelBuilder& m) {
  cast(m, "ia", "a", kUint8);
  cast(m, "ib", "b", kInt8);
  m.initializer(u8_tensor("za", {2}, {3, 100})).initializer(i8_tensor("zb", {2}, {-7, 5}));
  m.initializer(f32_tensor("sa", {2}, {0.5F, 0.03F}))
      .initializer(f32_tensor("sb", {2}, {0.1F, 0.7F}));
  m.initializer(f32_tensor("sy", {}, {3.3F})).initializer(u8_tensor("zy", {}, {90}));
}
void image(ModelBuilder& m) {
  cast(m, "ix", "x", kUint8);
  cast(m, "iw", "w", kInt8);
  m.initializer(u8_tensor("zx", {}, {9})).initializer(i8_tensor("zw", {2}, {-3, 0}));
  m.initializer(f32_tensor("sx", {}, {0.2F})).initializer(f32_tensor("sw", {2}, {0.3F, 1.1F}));
  m.initializer(f32_tensor("sy", {}, {1.7F})).initializer(u8_tensor("zy", {}, {20}));
}
// The numbers that quantized ones stand for.
void dequantize(ModelBuilder& m, const std::string& x, int64_t axis) {
  m.node("DequantizeLinear", {x, "s" + x, "z" + x}, {x + "_real"}, {attr_int("axis", axis)});
}

std::vector<MeaningCase> cases() {
  const TestInput a{"ia", {2, 3}, {0, 255, 7, 100, 99, 200}},
      b{"ib", {3, 2}, {-128, 127, 5, -7, 0, 66}};
  const TestInput x{"ix", {1, 1, 3, 3}, {1, 200, 30, 4, 50, 6, 77, 8, 255}};
  const TestInput w{"iw", {2, 1, 2, 2}, {1, -20, 3, 100, -128, 6, 7, 127}};
  const std::vector<Attribute> padded{attr_ints("pads", {1, 0, 0, 1})};
  const TestInput scores{"scores", {2, 3, 4}}, targets{"targets", {2, 4}, {0, 2, 1, 1, 2, 2, 0, 1}};
  return {
      {"MatMulInteger",
       {a, b},
       [](ModelBuilder& m) {
         matrices(m);
         m.node("MatMulInteger", {"a", "b", "za", "zb"}, {"y"});
       },
       [](ModelBuilder& m) {  // zero points [2, 1] and [2] broadcast to rows and columns
         matrices(m);
         m.initializer(f32_tensor("rows", {2, 1}, {3, 100}))
             .initializer(f32_tensor("cols", {2}, {-7, 5}));
         cast(m, "ia", "fa", kFloat);
         cast(m, "ib", "fb", kFloat);
         m.node("Sub", {"fa", "rows"}, {"ca"});
         m.node("Sub", {"fb", "cols"}, {"cb"});
         m.node("MatMul", {"ca", "cb"}, {"p"});
         cast(m, "p", "y", kInt32);
       }},
      {"MatMulInteger_without_zero_points",
       {a, b},
       [](ModelBuilder& m) {
         matrices(m);
         m.node("MatMulInteger", {"a", "b"}, {"y"});
       },
       [](ModelBuilder& m) {
         m.node("MatMul", {"ia", "ib"}, {"y"});
       }},
      {"QLinearMatMul",
       {a, b},
       [](ModelBuilder& m) {
         matrices(m);
         m.node("QLinearMatMul", {"a", "sa", "za", "b", "sb", "zb", "sy", "zy"}, {"y"});
       },
       [](ModelBuilder& m) {
         matrices(m);
         dequantize(m, "a", 0);
         dequantize(m, "b", 1);
         m.node("MatMul", {"a_real", "b_real"}, {"p"});
         m.node("QuantizeLinear", {"p", "sy", "zy"}, {"y"});
       }},
      {"ConvInteger",
       {x, w},
       [=](ModelBuilder& m) {
         image(m);
         m.node("ConvInteger", {"x", "w", "zx", "zw"}, {"y"}, padded);
       },
       [=](ModelBuilder& m) {
         m.initializer(f32_tensor("zx", {}, {9}))
             .initializer(f32_tensor("zw", {2, 1, 1, 1}, {-3, 0}));
         cast(m, "ix", "fx", kFloat);
         cast(m, "iw", "fw", kFloat);
         m.node("Sub", {"fx", "zx"}, {"cx"});
         m.node("Sub", {"fw", "zw"}, {"cw"});
         m.node("Conv", {"cx", "cw"}, {"p"}, padded);
         cast(m, "p", "y", kInt32);
       }},
      {"QLinearConv",
       {x, w, {"bias", {2}, {-500, 70}}},
       [=](ModelBuilder& m) {
         image(m);
         m.node("QLinearConv", {"x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "bias"}, {"y"},
                padded);
       },
       [=](ModelBuilder& m) {
         image(m);
         dequantize(m, "x", 1);
         dequantize(m, "w", 0);
         m.node("Mul", {"sx", "sw"}, {"sb"});
         m.node("DequantizeLinear", {"bias", "sb"}, {"bias_real"}, {attr_int("axis", 0)});
         m.node("Conv", {"x_real", "w_real", "bias_real"}, {"p"}, padded);
         m.node("QuantizeLinear", {"p", "sy", "zy"}, {"y"});
       }},
      {"SoftmaxCrossEntropyLoss",
       {scores, targets},
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("weights", {3}, {1, 0.5F, 2}));
         m.node("SoftmaxCrossEntropyLoss", {"scores", "targets", "weights"}, {"y"},
                {attr_text("reduction", "none"), attr_int("ignore_index", 1)});
       },
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("weights", {3}, {1, 0.5F, 2}));
         m.node("LogSoftmax", {"scores"}, {"logs"}, {attr_int("axis", 1)});
         m.node("NegativeLogLikelihoodLoss", {"logs", "targets", "weights"}, {"y"},
                {attr_text("reduction", "none"), attr_int("ignore_index", 1)});
       }},
      {"SoftmaxCrossEntropyLoss_gives_its_logs",
       {scores, targets},
       [](ModelBuilder& m) {
         m.node("SoftmaxCrossEntropyLoss", {"scores", "targets"}, {"unused", "y"});
       },
       [](ModelBuilder& m) { m.node("LogSoftmax", {"scores"}, {"y"}, {attr_int("axis", 1)}); }},
      {"MeanVarianceNormalization",
       {{"x", {2, 3, 4, 5}}},
       [](ModelBuilder& m) { m.node("MeanVarianceNormalization", {"x"}, {"y"}); },
       [](ModelBuilder& m) {  // by E[x²] − E[x]²
         const std::vector<Attribute> axes{attr_ints("axes", {0, 2, 3})};
         m.initializer(f32_tensor("tiny", {}, {1e-9F}));
         m.node("ReduceMean", {"x"}, {"mean"}, axes);
         m.node("Mul", {"x", "x"}, {"xx"});
         m.node("ReduceMean", {"xx"}, {"mean_xx"}, axes);
         m.node("Mul", {"mean", "mean"}, {"mm"});
         m.node("Sub", {"mean_xx", "mm"}, {"variance"});
         m.node("Sqrt", {"variance"}, {"deviation"});
         m.node("Add", {"deviation", "tiny"}, {"divisor"});
         m.node("Sub", {"x", "mean"}, {"centered"});
         m.node("Div", {"centered", "divisor"}, {"y"});
       }},
  };
}
INSTANTIATE_TEST_SUITE_P(Products, QuantizedMeaning, ::testing::ValuesIn(cases()),
                         [](const auto& row) { return row.param.name; });

// Example of the operator's specification, and a tensor that has no range.
TEST(DynamicQuantizeLinear, CoversZeroAndTheRange) {
  const auto run = [](std::vector<double> x) {
    ModelBuilder model(13);
    model.input("x", kFloat, {static_cast<int64_t>(x.size())});
    model.output("y").output("scale").output("zero");
    model.node("DynamicQuantizeLinear", {"x"}, {"y", "scale", "zero"});
    const Shape shape{static_cast<int64_t>(x.size())};
    return ops::evaluate(*model.import(),
                         {{"x", Tensor::from(DType::kF32, shape, std::span<const double>(x))}})
        .outputs;
  };
  // The specification's fourth number is −2.5, which lies between 25 and 26: there the scale is
  // rounded to f32.
  auto outputs = run({0, 2, -3, -2.49, 1.34, 0.5});
  EXPECT_EQ(outputs.at("y").i, (std::vector<int64_t>{153, 255, 0, 26, 221, 179}));
  EXPECT_NEAR(outputs.at("scale").f[0], 5.0 / 255, 1e-12);
  EXPECT_EQ(outputs.at("zero").i, (std::vector<int64_t>{153}));
  EXPECT_EQ(outputs.at("zero").dtype, DType::kU8);
  outputs = run({1, 2.1, 1.3, 2.5, 3.34, 4});  // all above zero: the range begins at zero
  EXPECT_EQ(outputs.at("y").i, (std::vector<int64_t>{64, 134, 83, 159, 213, 255}));
  outputs = run({0, 0});
  EXPECT_EQ(outputs.at("y").i, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(outputs.at("scale").f, (std::vector<double>{1}));
}

TEST(QuantizeLinear, TakesItsTypeFromZeroPointOrAttribute) {
  const auto type_of = [](const std::vector<Attribute>& attributes, const Names& inputs) {
    ModelBuilder model(21);
    model.input("x", kFloat, {2}).output("y");
    model.initializer(f32_tensor("s", {}, {1})).initializer(i8_tensor("z", {}, {1}));
    model.node("QuantizeLinear", inputs, {"y"}, attributes);
    const auto graph = model.import();
    return graph->value(graph->outputs[0]).dtype;
  };
  EXPECT_EQ(type_of({}, {"x", "s"}), DType::kU8);
  EXPECT_EQ(type_of({}, {"x", "s", "z"}), DType::kI8);
  EXPECT_EQ(type_of({attr_int("output_dtype", 4)}, {"x", "s"}), DType::kU16);
}

INSTANTIATE_TEST_SUITE_P(
    Quantized, QuantizedRefused,
    ::testing::Values(
        RefusedCase{
            "types_that_differ",
            [](ModelBuilder& m) {
              m.input("x", kFloat, {2}).initializer(f32_tensor("s", {}, {1}));
              m.initializer(i8_tensor("z", {}, {1}));
              m.node("QuantizeLinear", {"x", "s", "z"}, {"y"}, {attr_int("output_dtype", kUint8)});
            },
            "the zero point is i8, the output u8"},
        RefusedCase{
            "four_bits",
            [](ModelBuilder& m) {
              m.input("x", kFloat, {2}).initializer(f32_tensor("s", {}, {1}));
              m.node("QuantizeLinear", {"x", "s"}, {"y"}, {attr_int("output_dtype", kInt4)});
            },
            "attribute 'output_dtype': element type INT4 is not supported"},
        RefusedCase{"reduction",
                    [](ModelBuilder& m) {
                      m.input("x", kFloat, {2, 3}).input("t", kInt32, {2});
                      m.node("SoftmaxCrossEntropyLoss", {"x", "t"}, {"y"},
                             {attr_text("reduction", "most")});
                    },
                    "attribute 'reduction' is 'most'; expected none, sum or mean"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace vernier::onnx
