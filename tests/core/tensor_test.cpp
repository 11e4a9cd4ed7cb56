// Arrays: shapes, sharing, conversions (core/tensor.h).
#include "core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace vernier {
namespace {

std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(num_elems(Shape{}), 1);
  EXPECT_EQ(num_elems(Shape{2, 3, 5}), 30);
  EXPECT_EQ(num_elems(Shape{4, 0}), 0);
  EXPECT_EQ(row_major_strides(Shape{2, 3, 5}), (Shape{15, 5, 1}));
  EXPECT_EQ(row_major_strides(Shape{}), Shape{});
  EXPECT_EQ(str(Shape{2, 3}), "[2, 3]");
}

TEST(Shape, RefusesNegativeAndHugeCounts) {
  EXPECT_EQ(message([] {
              num_elems(Shape{2, -1});
            }),
            "shape [2, -1] has a negative size or too many elements");
  EXPECT_NE(message([] { num_elems(Shape{int64_t{1} << 40, int64_t{1} << 40}); }), "no error");
  EXPECT_EQ(num_elems(Shape{kMaxArrayElems / 2, 2}), kMaxArrayElems);
  EXPECT_NE(message([] { num_elems(Shape{kMaxArrayElems, 2}); }), "no error");
  EXPECT_NE(message([] { num_elems(Shape{int64_t{1} << 62, 0}); }), "no error") << "strides";
}

TEST(Tensor, BytesAreAlignedAndShared) {
  const Tensor t = Tensor::from(DType::kF32, {3}, std::vector<double>{1, 2, 3});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
  const Tensor copy = t;
  EXPECT_EQ(copy.data(), t.data());
  const Tensor column = t.reshaped({3, 1});
  EXPECT_EQ(column.data(), t.data());
  EXPECT_EQ(str(column.shape()), "[3, 1]");
  EXPECT_EQ(t.bytes(), 12u);
}

TEST(Tensor, KeepsItsOwnerAlive) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{4, 5});
  const std::weak_ptr<std::vector<float>> watch = owner;
  {
    const auto* data = reinterpret_cast<const std::byte*>(owner->data());
    const Tensor t(DType::kF32, {2}, std::move(owner), data);
    EXPECT_EQ(t.float_at(1), 5);
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, ConvertsEachElement) {
  const Tensor h = Tensor::from(DType::kF16, {2}, std::vector<double>{1 + 0x1p-11, 1e6});
  EXPECT_EQ(h.float_at(0), 1) << "to even";
  EXPECT_TRUE(std::isinf(h.float_at(1)));
  const Tensor i = Tensor::from(DType::kI8, {2}, std::vector<int64_t>{127, 128});
  EXPECT_EQ(i.integers(), (std::vector<int64_t>{127, -128}));
  const Tensor f = Tensor::from(DType::kF32, {1}, std::vector<int64_t>{3});
  EXPECT_EQ(f.float_at(0), 3);
  EXPECT_EQ(Tensor::scalar(DType::kF64, 0.1).float_at(0), 0.1);
  EXPECT_EQ(str(Tensor::i64({1, 2}).shape()), "[2]");
}

TEST(Tensor, UndefinedEmptyAndScalarDiffer) {
  EXPECT_FALSE(Tensor().defined());
  const Tensor empty = Tensor::i64({});
  EXPECT_TRUE(empty.defined());
  EXPECT_EQ(empty.elems(), 0);
  EXPECT_EQ(Tensor::scalar(DType::kF32, 1).rank(), 0u);
}

TEST(Tensor, BytesOfTheWrongSizeAreOurBug) {
  const std::byte bytes[3] = {};
  EXPECT_THROW(Tensor::from_bytes(DType::kF32, {1}, bytes), Error);
  EXPECT_THROW((void)Tensor::i64({1, 2}).reshaped({3}), Error);
}

TEST(EvalTensor, RoundTripsEveryType) {
  for (int number = 1; number <= static_cast<int>(DType::kBool); ++number) {
    const auto type = static_cast<DType>(number);
    if (size_bytes(type) == 0) continue;  // tf32 is never stored
    const Tensor t = Tensor::from(type, {2}, std::vector<int64_t>{1, 0});
    const EvalTensor e = EvalTensor::from(t);
    EXPECT_EQ(e.value(0), 1) << name(type);
    const Tensor back = e.to_tensor();
    EXPECT_EQ(back.dtype(), type);
    EXPECT_TRUE(std::equal(back.byte_span().begin(), back.byte_span().end(), t.byte_span().begin()))
        << name(type);
  }
}

TEST(EvalTensor, KeepsAllBitsOfU64) {
  const Tensor t = Tensor::from(DType::kU64, {1}, std::vector<int64_t>{-1});
  EXPECT_EQ(EvalTensor::from(t).i[0], -1);
  EXPECT_EQ(EvalTensor::from(t).to_tensor().integer_at(0), -1);
}

TEST(EvalTensor, TakesTheMemoryItIsGiven) {
  const std::vector<double> values{1, -2, 0.5, 3};
  for (const DType type : {DType::kF32, DType::kF16, DType::kF64}) {
    std::vector<double> memory(100, 7.0);
    const double* data = memory.data();
    const Tensor t = Tensor::from(type, {2, 2}, std::span<const double>(values));
    const EvalTensor in_it = EvalTensor::from(t, std::move(memory));
    EXPECT_EQ(in_it.f, values) << name(type);
    EXPECT_EQ(in_it.f.data(), data);
    EXPECT_EQ(EvalTensor::from(t).f, values);
  }
  const Tensor many = Tensor::filled(DType::kF32, {int64_t{1} << 20}, [](std::byte* bytes) {
    for (int i = 0; i < 1 << 20; ++i) reinterpret_cast<float*>(bytes)[i] = static_cast<float>(i);
  });
  const EvalTensor wide = EvalTensor::from(many);  // on several threads
  for (size_t i = 0; i < wide.f.size(); ++i) ASSERT_EQ(wide.f[i], static_cast<double>(i));
}

TEST(Position, IsOfARowMajorArray) {
  EXPECT_EQ(position_text(0, Shape{2, 3}), "[0, 0]");
  EXPECT_EQ(position_text(5, Shape{2, 3}), "[1, 2]");
  EXPECT_EQ(position_text(23, Shape{2, 3, 4}), "[1, 2, 3]");
  EXPECT_EQ(position_text(0, Shape{}), "[]");
}

}  // namespace
}  // namespace vernier
