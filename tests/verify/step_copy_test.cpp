// Copies of arguments, whichever way they lie.
#include "verify/step_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace vernier::verify {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> shape, strides;
};

class CopyOf : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Layouts, CopyOf,
    ::testing::Values(Case{"number", {}, {}}, Case{"dense", {2, 3, 5}, {15, 5, 1}},
                      Case{"rows_apart", {3, 5}, {11, 1}}, Case{"columns_apart", {3, 5}, {17, 3}},
                      Case{"transposed", {5, 3}, {1, 5}},
                      Case{"head", {2, 3, 4, 5}, {60, 5, 15, 1}}, Case{"repeated", {3, 5}, {0, 1}},
                      Case{"one_row", {1, 5}, {99, 1}}, Case{"one_column", {4, 1}, {7, 99}},
                      Case{"empty", {0, 5}, {5, 1}}),
    [](const auto& one) { return one.param.name; });

TEST_P(CopyOf, IsDense) {
  const auto& [name, shape, strides] = GetParam();
  for (const DType type : {DType::kF32, DType::kF16, DType::kI8, DType::kI64}) {
    const size_t width = size_bytes(type);
    std::vector<std::byte> memory(200 * width);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 31 % 251);
    backend::TensorArg arg{
        .data = memory.data(), .dtype = type, .rank = static_cast<int>(shape.size())};
    for (size_t d = 0; d < shape.size(); ++d) {
      arg.shape[d] = shape[d];
      arg.strides[d] = strides[d];
    }
    const Tensor copy = copy_of(arg);
    ASSERT_EQ(copy.shape(), Shape(shape.begin(), shape.end()));
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t at = 0; at < copy.elems(); ++at) {
      int64_t from = 0;
      for (size_t d = 0; d < index.size(); ++d) from += index[d] * strides[d];
      for (size_t byte = 0; byte < width; ++byte)
        ASSERT_EQ(copy.data()[static_cast<size_t>(at) * width + byte],
                  memory[static_cast<size_t>(from) * width + byte])
            << vernier::name(type) << " element " << at;
      for (size_t d = index.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
    }
  }
}

// A product of 2·3 rows, of which three are kept; its weight is whole.
TEST(CopyRows, TakesRowsOfOperandAndResult) {
  std::vector<float> x(6 * 4), w(4 * 5), y(6 * 5);
  std::iota(x.begin(), x.end(), 0.0F);
  std::iota(y.begin(), y.end(), 100.0F);
  const auto arg = [](std::vector<float>& values, std::vector<int64_t> shape) {
    backend::TensorArg made{.data = reinterpret_cast<std::byte*>(values.data()),
                            .dtype = DType::kF32,
                            .rank = static_cast<int>(shape.size())};
    std::ranges::copy(shape, made.shape.begin());
    std::ranges::copy(row_major_strides(shape), made.strides.begin());
    return made;
  };
  plan::Plan plan;
  plan.steps.emplace_back().op = OpKind::kLinear;
  std::vector<backend::TensorArg> in{arg(x, {2, 3, 4}), arg(w, {4, 5})}, out{arg(y, {2, 3, 5})};
  const AttrBytes attrs;
  const backend::Execution execution;
  const backend::LaunchCall call{.attrs = attrs,
                                 .state = nullptr,
                                 .shape_state = nullptr,
                                 .in = in,
                                 .out = out,
                                 .workspace = nullptr,
                                 .execution = execution};
  constexpr size_t kWithRows[] = {0, 3};  // there is no input 3
  constexpr int64_t kRows[] = {0, 4, 5};
  const auto copy = copy_rows(plan, 0, call, {.with_rows = kWithRows, .rows = kRows});
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->in[0].shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(copy->in[1].shape(), (Shape{4, 5}));
  EXPECT_EQ(copy->out[0].shape(), (Shape{1, 3, 5}));
  EXPECT_EQ(copy->in[0].float_at(4), 16);
  EXPECT_EQ(copy->out[0].float_at(14), 129);
  in[0] = arg(x, {8, 3});  // not as many rows as the result
  EXPECT_FALSE(copy_rows(plan, 0, call, {.with_rows = kWithRows, .rows = kRows}).has_value());
}

}  // namespace
}  // namespace vernier::verify
