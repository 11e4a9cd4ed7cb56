// Quantized products, losses and MeanVarianceNormalization, which import writes in other operators,
// against their meaning; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/element_types.h"
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

// ---- what ONNX Runtime's quantizer writes in its QOperator format

// a and b, both [2, 3] u8, with a scale and a zero point each, and those of y.
void two_operands(ModelBuilder& m) {
  cast(m, "ia", "a", kUint8);
  cast(m, "ib", "b", kUint8);
  m.initializer(f32_tensor("sa", {}, {0.02F})).initializer(u8_tensor("za", {}, {100}));
  m.initializer(f32_tensor("sb", {}, {0.01F})).initializer(u8_tensor("zb", {}, {128}));
  m.initializer(f32_tensor("sy", {}, {0.03F})).initializer(u8_tensor("zy", {}, {90}));
}
void real_operands(ModelBuilder& m) {
  two_operands(m);
  for (const std::string x : {"a", "b"})
    m.node("DequantizeLinear", {x, "s" + x, "z" + x}, {x + "_real"});
}
void quantize(ModelBuilder& m, const std::string& real) {
  m.node("QuantizeLinear", {real, "sy", "zy"}, {"y"});
}

std::vector<MeaningCase> qoperator_cases() {
  const TestInput a{"ia", {2, 3}, {0, 255, 7, 100, 99, 200}},
      b{"ib", {2, 3}, {128, 127, 5, 77, 0, 66}};
  const auto binary = [&](const std::string& op) {
    return MeaningCase{
        "QLinear" + op,
        {a, b},
        [=](ModelBuilder& m) {
          two_operands(m);
          fused(m, "QLinear" + op, {"a", "sa", "za", "b", "sb", "zb", "sy", "zy"}, {"y"});
        },
        [=](ModelBuilder& m) {
          real_operands(m);
          m.node(op, {"a_real", "b_real"}, {"real"});
          quantize(m, "real");
        }};
  };
  const auto unary = [&](const std::string& op, const std::vector<Attribute>& attributes,
                         const std::vector<Attribute>& plain) {
    return MeaningCase{"QLinear" + op,
                       {a, b},
                       [=](ModelBuilder& m) {
                         two_operands(m);
                         fused(m, "QLinear" + op, {"a", "sa", "za", "sy", "zy"}, {"y"}, attributes);
                       },
                       [=](ModelBuilder& m) {
                         real_operands(m);
                         m.node(op, {"a_real"}, {"real"}, plain);
                         quantize(m, "real");
                       }};
  };
  const TestInput w{"iw", {4, 3}, {-128, 127, 5, -7, 0, 66, 1, 2, 3, -50, 99, 100}};
  const auto gemm_operands = [](ModelBuilder& m) {
    two_operands(m);
    cast(m, "iw", "w", kInt8);
    m.initializer(f32_tensor("sw", {4}, {0.1F, 0.2F, 0.3F, 0.4F}))
        .initializer(i8_tensor("zw", {4}, {0, 1, 0, -3}));
    m.initializer(f32_tensor("alpha", {}, {0.5F}));
  };
  return {binary("Add"),
          binary("Mul"),
          unary("Sigmoid", {}, {}),
          unary("LeakyRelu", {attr_float("alpha", 0.1F)}, {attr_float("alpha", 0.1F)}),
          unary("Softmax", {attr_int("axis", -1), attr_int("opset", 13)}, {attr_int("axis", -1)}),
          {"QLinearConcat",
           {a, b},
           [](ModelBuilder& m) {
             two_operands(m);
             fused(m, "QLinearConcat", {"sy", "zy", "a", "sa", "za", "b", "sb", "zb"}, {"y"},
                   {attr_int("axis", 1)});
           },
           [](ModelBuilder& m) {
             real_operands(m);
             m.node("Concat", {"a_real", "b_real"}, {"real"}, {attr_int("axis", 1)});
             quantize(m, "real");
           }},
          {"QGemm",
           {a, b, w, {"c", {4}, {-500, 70, 3, 1000}}},
           [=](ModelBuilder& m) {
             gemm_operands(m);
             fused(m, "QGemm", {"a", "sa", "za", "w", "sw", "zw", "c", "sy", "zy"}, {"y"},
                   {attr_int("transB", 1), attr_float("alpha", 0.5F)});
           },
           [=](ModelBuilder& m) {
             gemm_operands(m);
             dequantize(m, "a", 1);
             dequantize(m, "w", 0);
             m.node("Mul", {"sa", "sw"}, {"scales"});
             m.node("Mul", {"scales", "alpha"}, {"sc"});
             m.node("DequantizeLinear", {"c", "sc"}, {"c_real"}, {attr_int("axis", 0)});
             m.node("Gemm", {"a_real", "w_real", "c_real"}, {"real"},
                    {attr_int("transB", 1), attr_float("alpha", 0.5F)});
             quantize(m, "real");
           }},
          {"QGemm_gives_floats_without_a_scale",
           {a, b, w},
           [=](ModelBuilder& m) {
             gemm_operands(m);
             fused(m, "QGemm", {"a", "sa", "za", "w", "sw", "zw"}, {"y"}, {attr_int("transB", 1)});
           },
           [=](ModelBuilder& m) {
             gemm_operands(m);
             dequantize(m, "a", 1);
             dequantize(m, "w", 0);
             m.node("Gemm", {"a_real", "w_real"}, {"y"}, {attr_int("transB", 1)});
           }},
          {"QAttention",
           {{"ix", {1, 2, 2}, {1, 200, 30, 4}},
            {"iw", {2, 6}, {1, -20, 3, 100, -128, 6, 7, 127, -9, 40, 5, 6}},
            {"bias", {6}}},
           [](ModelBuilder& m) {
             cast(m, "ix", "x", kUint8);
             cast(m, "iw", "w", kInt8);
             m.initializer(f32_tensor("sx", {}, {0.02F})).initializer(u8_tensor("zx", {}, {60}));
             m.initializer(f32_tensor("sw", {}, {0.01F})).initializer(i8_tensor("zw", {}, {2}));
             fused(m, "QAttention", {"x", "w", "bias", "sx", "sw", "", "zx", "zw"}, {"y"},
                   {attr_int("num_heads", 1)});
           },
           [](ModelBuilder& m) {
             cast(m, "ix", "x", kUint8);
             cast(m, "iw", "w", kInt8);
             m.initializer(f32_tensor("sx", {}, {0.02F})).initializer(u8_tensor("zx", {}, {60}));
             m.initializer(f32_tensor("sw", {}, {0.01F})).initializer(i8_tensor("zw", {}, {2}));
             m.node("DequantizeLinear", {"x", "sx", "zx"}, {"x_real"});
             m.node("DequantizeLinear", {"w", "sw", "zw"}, {"w_real"});
             fused(m, "Attention", {"x_real", "w_real", "bias"}, {"y"}, {attr_int("num_heads", 1)});
           }}};
}
INSTANTIATE_TEST_SUITE_P(QOperator, QuantizedMeaning, ::testing::ValuesIn(qoperator_cases()),
                         [](const auto& row) { return row.param.name; });

// ---- weights of 4 bits

proto::TensorProto four_bits(const std::string& name, const std::vector<int64_t>& dims,
                             const std::string& raw, int32_t type = kInt4) {
  proto::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  tensor.mutable_dims()->Assign(dims.begin(), dims.end());
  tensor.set_raw_data(raw);
  return tensor;
}
constexpr int32_t kUint4 = 21;

TEST(FourBits, AreReadTwoFromAByteTheLowerHalfFirst) {
  for (const auto& [type, numbers] : std::initializer_list<std::pair<int32_t, std::vector<double>>>{
           {kInt4, {1, -1, 7, -8, 5}}, {kUint4, {1, 15, 7, 8, 5}}}) {
    for (const bool raw : {true, false}) {
      ModelBuilder model(21);
      model.output("y").initializer(f32_tensor("s", {}, {2}));
      proto::TensorProto w = four_bits("w", {5}, "\xf1\x87\x35", type);  // the last half is unused
      if (!raw) {
        w.clear_raw_data();
        for (const int32_t byte : {0xf1, 0x87, 0x35}) w.add_int32_data(byte);
      }
      model.initializer(w);
      model.node("DequantizeLinear", {"w", "s"}, {"y"});
      const EvalTensor y = ops::evaluate(*model.import(), {}).outputs.at("y");
      ASSERT_EQ(y.shape, (Shape{5}));
      for (size_t i = 0; i < 5; ++i) EXPECT_EQ(y.f[i], 2 * numbers[i]) << i;
    }
  }
}

TEST(FourBits, InBlocksWithZeroPoints) {
  ModelBuilder model(21);
  model.output("y").initializer(f32_tensor("s", {2, 1}, {1, 10}));
  model.initializer(four_bits("w", {4, 1}, "\x21\x43", kUint4))
      .initializer(four_bits("z", {2, 1}, "\x31", kUint4));
  model.node("DequantizeLinear", {"w", "s", "z"}, {"y"},
             {attr_int("axis", 0), attr_int("block_size", 2)});
  EXPECT_EQ(ops::evaluate(*model.import(), {}).outputs.at("y").f,
            (std::vector<double>{0, 1, 0, 10}));
}

// Elements of ONNX's packed types as raw data, an odd number of them.
TEST(PackedTypes, AreReadInTheirOwnType) {
  struct Row {
    int32_t type;
    DType dtype;
    std::string raw;
    std::vector<double> values;
  };
  for (const Row& row : {Row{22, DType::kI4, "\xf1\x87\x35", {1, -1, 7, -8, 5}},
                         Row{21, DType::kU4, "\xf1\x87\x35", {1, 15, 7, 8, 5}},
                         Row{26, DType::kI2, "\xe4\x02", {0, 1, -2, -1, -2}},
                         Row{25, DType::kU2, "\xe4\x02", {0, 1, 2, 3, 2}},
                         Row{23, DType::kF4E2M1, "\xf1\x87\x03", {0.5, -6, 6, 0, 1.5}},
                         Row{18, DType::kF8E4M3FNUZ, "\x7f\xff\x43", {240, -240, 1.375}},
                         Row{20, DType::kF8E5M2FNUZ, "\x7f\x41", {57344, 1.25}},
                         Row{24, DType::kF8E8M0, "\x7f\x80", {1, 2}}}) {
    SCOPED_TRACE(name(row.dtype));
    for (const bool raw : {true, false}) {
      ModelBuilder model(25);
      const auto count = static_cast<int64_t>(row.values.size());
      model.output("y").output("z");
      proto::TensorProto w = four_bits("w", {count}, row.raw, row.type);
      if (!raw) {
        w.clear_raw_data();
        for (const char byte : row.raw) w.add_int32_data(static_cast<uint8_t>(byte));
      }
      model.initializer(w);
      model.node("Identity", {"w"}, {"y"});
      model.node("Cast", {"w"}, {"z"}, {attr_int("to", kFloat)});
      const auto graph = model.import();
      EXPECT_EQ(graph->value(graph->outputs[0]).dtype, row.dtype);
      const auto outputs = ops::evaluate(*graph, {}).outputs;
      ASSERT_EQ(outputs.at("z").shape, (Shape{count}));
      for (size_t i = 0; i < row.values.size(); ++i) {
        EXPECT_EQ(outputs.at("z").f[i], row.values[i]) << i;
        EXPECT_EQ(outputs.at("y").value(static_cast<int64_t>(i)), row.values[i]) << i;
      }
    }
  }
}

TEST(PackedTypes, ArePackedAgain) {
  for (const auto& [dtype, raw, count] :
       std::initializer_list<std::tuple<DType, std::string, int64_t>>{
           {DType::kI4, "\xf1\x87\x05", 5},
           {DType::kU2, "\xe4\x02", 5},
           {DType::kI2, "\xe4", 4},
           {DType::kF4E2M1, "\xf1\x07", 3},
           {DType::kU4, "", 0},
           {DType::kI8, "\xf1\x87", 2}}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(raw.data());
    const Tensor read = is_packed(dtype) ? unpacked(dtype, {count}, bytes)
                                         : Tensor::from_bytes(dtype, {count}, {bytes, raw.size()});
    EXPECT_EQ(packed(read), raw) << name(dtype);
  }
}

// The type of an initializer of 4 bits counts for all operators but DequantizeLinear.
TEST(FourBits, OfAnInitializerAreATypeForOthers) {
  ModelBuilder model(21);
  model.input("x", kFloat, {2}).input("q", kInt4, {2});
  model.output("y").output("z").output("w").output("v");
  model.initializer(f32_tensor("s", {}, {1})).initializer(four_bits("z0", {}, "\x01"));
  model.initializer(four_bits("w", {2}, "\xf1"));
  model.node("QuantizeLinear", {"x", "s", "z0"}, {"y"});
  model.node("DequantizeLinear", {"q", "s", "z0"}, {"z"});
  model.node("DequantizeLinear", {"w", "s", "z0"}, {"v"});
  const auto graph = model.import();
  EXPECT_EQ(graph->value(graph->outputs[0]).dtype, DType::kI4);
  EXPECT_EQ(graph->value(graph->outputs[2]).dtype, DType::kI4);
  const auto made =
      ops::evaluate(*graph,
                    {{"x", Tensor::from(DType::kF32, {2}, std::span<const double>({{20., -3.}}))},
                     {"q", Tensor::from(DType::kI4, {2}, std::span<const double>({{-8., 7.}}))}})
          .outputs;
  EXPECT_EQ(made.at("y").i, (std::vector<int64_t>{7, -2}));
  EXPECT_EQ(made.at("z").f, (std::vector<double>{-9, 6}));
  EXPECT_EQ(made.at("w").i, (std::vector<int64_t>{1, -1}));
  EXPECT_EQ(made.at("v").f, (std::vector<double>{0, -2}));
}

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
        RefusedCase{"four_bits_of_another_length",
                    [](ModelBuilder& m) {
                      m.initializer(four_bits("w", {5}, "\x21\x43"));
                      m.initializer(f32_tensor("s", {}, {1}));
                      m.node("DequantizeLinear", {"w", "s"}, {"y"});
                    },
                    "initializer 'w': raw_data has 2 bytes; shape [3] of u8 needs 3"},
        RefusedCase{
            "scales_that_are_rounded_down",
            [](ModelBuilder& m) {
              m.input("x", kFloat, {2});
              m.node("Cast", {"x"}, {"y"}, {attr_int("to", 24), attr_text("round_mode", "down")});
            },
            "round_mode is 'down'; expected 'up'"},
        RefusedCase{
            "parts_without_scales",
            [](ModelBuilder& m) {
              two_operands(m.input("ia", kInt32, {2}).input("ib", kInt32, {2}));
              fused(m, "QLinearConcat", {"sy", "zy", "a", "sa"}, {"y"}, {attr_int("axis", 0)});
            },
            "has 4 inputs; expected a scale and a zero point"},
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
