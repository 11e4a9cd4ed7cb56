// Indices outside their table on the CPU, and numbers that disagree with the sizes of the outputs.
// The cases: tests/backend/cases/movement.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/harness.h"
#include "core/op_attrs.h"

namespace vernier::backend::test {
namespace {

Tensor i64(Shape shape, std::vector<int64_t> values) {
  return Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values));
}
AttrBytes axis(int64_t value) { return encode(AxisAttrs{.axis = value}); }

TEST(CpuMovement, AnIndexOutsideItsTableIsAnErrorThatSaysWhere) {
  Maker make(34);
  struct Bad {
    OpKind op;
    AttrBytes attrs;
    const char* message;
  };
  for (const Bad& bad : std::vector<Bad>{
           {OpKind::kGather, axis(0), "Gather: index 9 at position 1 is outside its table of 9"},
           {OpKind::kGatherElements, axis(0), "GatherElements: index 9 at position 1"},
           {OpKind::kGatherND, encode(GatherNDAttrs{}), "GatherND: index 9 of tuple 1"}}) {
    OpCase c{.op = bad.op, .attrs = bad.attrs};
    c.inputs = {{.value = make.normal({9})}, {.value = i64({2, 1}, {0, 9})}};
    if (bad.op != OpKind::kGatherND) c.inputs[1].value = i64({2}, {0, 9});
    c.outputs = {{.shape = {2}}};
    for (const KernelDef* kernel : rows_of(c)) {
      try {
        run_kernel(*kernel, c, {});
        FAIL() << "no error from " << kernel->name;
      } catch (const Error& e) {
        EXPECT_THAT(e.what(), ::testing::HasSubstr(bad.message));
      }
    }
  }
}

// As an engine might have it whose sizes were inferred from other numbers.
TEST(CpuMovement, NumbersThatDoNotGiveTheOutputsSizesAreAnError) {
  Maker make(35);
  struct Bad {
    OpKind op;
    std::vector<Tensor> numbers;  // inputs 1, …
    Shape out;
    const char* message;
  };
  const Tensor one = i64({1}, {1}), none;
  const Tensor far_axis = Tensor::from(DType::kU32, {1}, std::vector<int64_t>{4294967295});
  for (const Bad& bad : std::vector<Bad>{
           {OpKind::kSlice, {i64({1}, {-2}), i64({1}, {4}), one}, {2, 3}, "Slice: axis 1 of 4"},
           {OpKind::kSlice, {i64({1}, {3}), i64({1}, {-9}), one, i64({1}, {-2})}, {2, 3}, "-2"},
           {OpKind::kSlice, {one, i64({1}, {4}), one, i64({1}, {INT64_MAX})}, {2, 3}, "and step"},
           {OpKind::kSlice, {one, i64({1}, {4}), one}, {3, 3}, "Slice: axis 0 of 2"},
           {OpKind::kSlice, {one, i64({1}, {4}), far_axis}, {2, 3}, "xis 4294967295 is outside"},
           {OpKind::kSplit, {i64({1}, {2})}, {5, 4}, "Split: axis 0 of 2"},
           {OpKind::kSplit, {i64({1}, {5})}, {5, 4}, "Split: axis 0 of 2"},
           {OpKind::kSplit, {i64({1}, {-1})}, {2, 4}, "got -1 from 0"},
           {OpKind::kPad, {i64({4}, {0, -1, 0, 0})}, {2, 4}, "Pad: axis 1 of 4"},
           {OpKind::kPad, {i64({4}, {INT64_MIN, 0, INT64_MAX, 0})}, {1, 4}, "Pad: axis 0 of 2"},
           {OpKind::kPad, {i64({2}, {1, 0}), none, far_axis}, {2, 5}, "xis 4294967295 is outside"},
           {OpKind::kReduceSum, {far_axis}, {2, 1}, "xis 4294967295 is outside"},
           {OpKind::kReduceSum, {i64({1}, {0})}, {2, 1}, "its axes leave 4 elements"}}) {
    OpCase c{.name = bad.message, .op = bad.op, .attrs = default_attrs(bad.op)};
    c.inputs.push_back({.value = make.normal({2, 4})});
    for (const Tensor& numbers : bad.numbers) c.inputs.push_back({.value = numbers});
    c.outputs = {{.shape = bad.out}};
    SCOPED_TRACE(std::string(name(bad.op)) + " " + bad.message);
    const std::vector<const KernelDef*> rows = rows_of(c);
    EXPECT_FALSE(rows.empty());
    for (const KernelDef* kernel : rows) {
      try {
        run_kernel(*kernel, c, {});
        ADD_FAILURE() << "no error from " << kernel->name;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kInput);
        EXPECT_THAT(e.what(), ::testing::HasSubstr(bad.message));
      }
    }
    EXPECT_THROW(run_reference(c), Error);
  }
}

}  // namespace
}  // namespace vernier::backend::test
