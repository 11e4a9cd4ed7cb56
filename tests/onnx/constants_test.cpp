// Constants in every form and initializers in every field, and what is refused about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "onnx/model_builder.h"
#include "onnx/tensor_reader.h"

namespace vernier::onnx {
namespace {

using ::testing::HasSubstr;

// The constant that a Constant node with these attributes defines.
Tensor constant_of(const std::vector<Attribute>& attributes) {
  ModelBuilder model(13);
  model.output("y").node("Constant", {}, {"y"}, attributes);
  const auto graph = model.import();
  EXPECT_EQ(graph->order().size(), 0U);
  EXPECT_EQ(graph->retired.size(), 1U);
  EXPECT_EQ(graph->retired[0].state, LedgerState::kFolded);
  return graph->value(graph->outputs[0]).constant;
}

std::string constant_error(const std::vector<Attribute>& attributes) {
  ModelBuilder model(13);
  model.output("y").node("Constant", {}, {"y"}, attributes);
  return model.error();
}

TEST(Constant, EveryForm) {
  const Tensor tensor = constant_of({attr_tensor("value", i64_tensor("", {2, 1}, {7, 8}))});
  EXPECT_EQ(tensor.shape(), (Shape{2, 1}));
  EXPECT_EQ(tensor.integers(), (std::vector<int64_t>{7, 8}));
  const Tensor one_float = constant_of({attr_float("value_float", 0.5F)});
  EXPECT_EQ(one_float.dtype(), DType::kF32);
  EXPECT_EQ(one_float.rank(), 0U);
  EXPECT_EQ(one_float.float_at(0), 0.5);
  const Tensor floats = constant_of({attr_floats("value_floats", {1, 2})});
  EXPECT_EQ(floats.shape(), (Shape{2}));
  EXPECT_EQ(floats.float_at(1), 2);
  const Tensor one_int = constant_of({attr_int("value_int", -3)});
  EXPECT_EQ(one_int.dtype(), DType::kI64);
  EXPECT_EQ(one_int.rank(), 0U);
  EXPECT_EQ(one_int.integer_at(0), -3);
  EXPECT_EQ(constant_of({attr_ints("value_ints", {4, 5})}).integers(),
            (std::vector<int64_t>{4, 5}));
}

TEST(Constant, StringsSparseAndNothingAreRefused) {
  EXPECT_THAT(constant_error({attr_text("value_string", "hi")}), HasSubstr("it holds strings"));
  Attribute sparse;
  sparse.set_name("sparse_value");
  sparse.set_type(Attribute::SPARSE_TENSOR);
  sparse.set_sparse_tensor("");
  EXPECT_THAT(constant_error({sparse}), HasSubstr("it is sparse"));
  EXPECT_THAT(constant_error({}), HasSubstr("has 0 value attributes; expected one"));
  EXPECT_THAT(constant_error({attr_int("value_int", 1), attr_float("value_float", 1)}),
              HasSubstr("has 2 value attributes; expected one"));
}

proto::TensorProto typed(int32_t type, const std::vector<int64_t>& dims) {
  proto::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(type);
  tensor.mutable_dims()->Assign(dims.begin(), dims.end());
  return tensor;
}

Tensor read(proto::TensorProto tensor) {
  return TensorReader("", MissingWeights::kError).read(tensor, "initializer 'w'");
}
std::string read_error(const proto::TensorProto& tensor) {
  ModelBuilder model(13);
  model.initializer(tensor).output("w");
  return model.error();
}

TEST(Initializer, TypedFieldsHoldEachTypeAsTheFormatSays) {
  proto::TensorProto half = typed(kFloat16, {2});
  half.add_int32_data(0x3c00);
  half.add_int32_data(0xc000);
  EXPECT_EQ(read(half).float_at(0), 1);
  EXPECT_EQ(read(half).float_at(1), -2);
  proto::TensorProto bfloat = typed(kBfloat16, {1});
  bfloat.add_int32_data(0x4040);
  EXPECT_EQ(read(bfloat).float_at(0), 3);
  proto::TensorProto bits = typed(kBool, {2});
  bits.add_int32_data(1);
  bits.add_int32_data(0);
  EXPECT_EQ(read(bits).integers(), (std::vector<int64_t>{1, 0}));
  proto::TensorProto bytes = typed(kUint8, {1});
  bytes.add_int32_data(200);
  EXPECT_EQ(read(bytes).integer_at(0), 200);
  proto::TensorProto big = typed(kUint64, {1});
  big.add_uint64_data(~uint64_t{0});
  EXPECT_EQ(read(big).integer_at(0), -1);  // u64 keeps its bits
  proto::TensorProto doubles = typed(kDouble, {1});
  doubles.add_double_data(1e-300);
  EXPECT_EQ(read(doubles).float_at(0), 1e-300);
}

TEST(Initializer, RawBytesAreReadSmallAndLarge) {
  for (int64_t count : {3, 5000}) {  // the large one is moved, not copied
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    proto::TensorProto tensor = typed(kFloat, {count});
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
    const Tensor read_back = read(tensor);
    EXPECT_EQ(read_back.elems(), count);
    EXPECT_EQ(read_back.float_at(count - 1), static_cast<double>(count - 1));
  }
}

TEST(Initializer, DataThatDoNotFitTheShapeAreRefused) {
  proto::TensorProto raw = typed(kFloat, {3});
  raw.set_raw_data("12345678");
  EXPECT_THAT(read_error(raw),
              HasSubstr("initializer 'w': raw_data has 8 bytes; shape [3] of f32 needs 12"));
  proto::TensorProto few = typed(kFloat, {3});
  few.add_float_data(1);
  EXPECT_THAT(read_error(few), HasSubstr("float_data holds 1 values; shape [3] needs 3"));
  proto::TensorProto wrong_field = typed(kInt64, {1});
  wrong_field.add_float_data(1);
  EXPECT_THAT(read_error(wrong_field), HasSubstr("int64_data holds 0 values"));
  proto::TensorProto both = typed(kFloat, {1});
  both.add_float_data(1);
  both.set_raw_data("1234");
  EXPECT_THAT(read_error(both), HasSubstr("both raw_data and typed data"));
  EXPECT_THAT(read_error(typed(kFloat, {-1})), HasSubstr("invalid shape [-1]"));
  EXPECT_THAT(read_error(typed(kFloat, {int64_t{1} << 40, int64_t{1} << 40})),
              HasSubstr("invalid shape"));
  EXPECT_THAT(read_error(typed(kFloat, {int64_t{1} << 40})),
              HasSubstr("float_data holds 0 values"));
  EXPECT_THAT(read_error(typed(kFloat, std::vector<int64_t>(65, 1))),
              HasSubstr("has 65 dimensions"));
}

TEST(Initializer, TypesWithoutCounterpartAreRefusedByName) {
  EXPECT_THAT(read_error(typed(kString, {0})), HasSubstr("element type STRING is not supported"));
  EXPECT_THAT(read_error(typed(14, {2})), HasSubstr("COMPLEX64"));
  EXPECT_THAT(read_error(typed(99, {2})), HasSubstr("element type number 99"));
  EXPECT_THAT(read_error(typed(0, {2})), HasSubstr("element type UNDEFINED"));
}

TEST(SeededWeights, AreAFunctionOfNameShapeAndRole) {
  const Tensor a = seeded_weight("w", DType::kF32, {64, 64}, WeightRole::kPlain);
  const Tensor again = seeded_weight("w", DType::kF32, {64, 64}, WeightRole::kPlain);
  const Tensor other = seeded_weight("v", DType::kF32, {64, 64}, WeightRole::kPlain);
  EXPECT_TRUE(std::ranges::equal(a.byte_span(), again.byte_span()));
  EXPECT_FALSE(std::ranges::equal(a.byte_span(), other.byte_span()));
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < a.elems(); ++i) {
    sum += a.float_at(i);
    squares += a.float_at(i) * a.float_at(i);
  }
  // 4096 draws: the mean of a normal with deviation s is within 5 s / 64 of 0.
  const double deviation = std::sqrt(squares / 4096);
  EXPECT_GT(deviation, 0.019);
  EXPECT_LT(deviation, 0.053);
  EXPECT_LT(std::abs(sum / 4096), 5 * deviation / 64);
  const Tensor scale = seeded_weight("n", DType::kF32, {256}, WeightRole::kScale);
  const Tensor variance = seeded_weight("n", DType::kF32, {256}, WeightRole::kVariance);
  for (int64_t i = 0; i < 256; ++i) {
    EXPECT_NEAR(scale.float_at(i), 1, 0.4);
    EXPECT_GT(variance.float_at(i), 0);
  }
  const Tensor ids = seeded_weight("position_ids", DType::kI64, {1, 4}, WeightRole::kPlain);
  EXPECT_EQ(ids.integers(), (std::vector<int64_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace vernier::onnx
